package aggregator

import (
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// announce delivers the announcement of a key's level.
func (r *rig) announce(n quota.LimitName, key string, level int64) {
	r.Apply(r.now, quota.Grant{Term: 1, From: "a", To: "a", At: r.now, Entries: []quota.GrantEntry{
		{Key: quota.Key{LimitName: n, Key: key}, Announced: true, Level: quota.FromTokens(level), Again: 100 * time.Millisecond},
	}})
}

// TestAnnounced checks what a member takes over of an announcement: the level of a key that it has closed, or has never
// seen.
func TestAnnounced(t *testing.T) {
	r := newRig(t, Config{Nodes: 3})
	l := limit(softName, 20, quota.Soft)
	l.Rate = quota.Rate{Tokens: 20, Per: time.Hour}
	r.limits(l)
	allowed := func(key string) bool { return r.check(softName, key, 1).Allowed }

	r.announce(softName, "used up", 0)
	if d := r.check(softName, "used up", 1); d.Allowed || d.Why != quota.WhyOverLimit || d.RetryAfter != 3*time.Minute {
		t.Errorf("%+v; want a refusal for three minutes", d)
	}
	r.announce(softName, "in debt", -1)
	if d := r.check(softName, "in debt", 1); d.Allowed || d.RetryAfter != 6*time.Minute {
		t.Errorf("%+v; want a refusal for six minutes", d)
	}
	if !allowed("open") {
		t.Error("a key that was not announced is refused")
	}
	if r.announce(softName, "open", 0); !allowed("open") {
		t.Error("an announcement changed an open key, whose level its grants state")
	}
	r.announce(softName, "reset", 0)
	if r.announce(softName, "reset", 20); !allowed("reset") {
		t.Error("a key is refused that was reset since")
	}
	before := r.Len()
	if r.announce(softName, "not used up", 20); r.Len() != before {
		t.Error("a key that is not used up takes a place")
	}
	r.announce(quota.LimitName{Namespace: "n", Limit: "no such"}, "k", 0)

	r.announce(softName, "at rest", 0)
	before = r.Len()
	r.now = r.now.Add(2 * compactAfter)
	if r.Sweep(r.now); r.table.compact.size.Load() == 0 || r.Len() != before {
		t.Errorf("%d of %d keys, none of them compact", r.Len(), before)
	}
	if allowed("at rest") {
		t.Error("a compact key forgot the announcement")
	}
	r.announce(softName, "full again", 0)
	before = r.Len()
	for range 200 {
		r.now = r.now.Add(time.Minute)
		r.Sweep(r.now)
	}
	if r.Len() >= before || !allowed("full again") {
		t.Errorf("%d of %d keys are left", r.Len(), before)
	}
}

// TestAnnouncedKeysLeaveRoom checks that announcements fill at most half of the table, and take no place of max_keys.
func TestAnnouncedKeysLeaveRoom(t *testing.T) {
	const most = 64
	few := limit(softName, 20, quota.Soft)
	few.MaxKeys = most
	for _, tc := range []struct {
		table int
		limit quota.Limit
		want  int
	}{{most, limit(softName, 20, quota.Soft), most / 2}, {10 * most, few, 0}} {
		r := newRig(t, Config{Nodes: 3, MaxKeys: tc.table})
		r.limits(tc.limit)
		for k := range 2 * most {
			r.announce(softName, strconv.Itoa(k), 0)
		}
		if r.Len() != tc.want {
			t.Errorf("a table of %d keys, max_keys %d: %d announced keys; want %d", tc.table, tc.limit.MaxKeys, r.Len(), tc.want)
		}
	}
}

// TestMetLeaders checks that a member knows a leader of a range once that has answered a full report, for good.
func TestMetLeaders(t *testing.T) {
	r := newRig(t, Config{Nodes: 3})
	reports := r.Collect(r.now)
	if len(reports) != 1 || !reports[0].Full || r.MetLeaders() {
		t.Fatalf("%d reports; want the full one, and no leader met", len(reports))
	}
	r.announce(softName, "k", 0)
	if r.MetLeaders() {
		t.Error("an announcement counts as an answer")
	}
	r.Apply(r.now, quota.Grant{Term: 1, From: "a", To: "a", At: r.now, Incarnation: 1})
	if !r.MetLeaders() {
		t.Error("the answer was not noted")
	}
	if r.SetLeader(0, "b", 2); !r.MetLeaders() {
		t.Error("another leader makes the member unready")
	}
}
