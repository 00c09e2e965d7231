package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRefuses: a refusal is repeated for a handle, and counted, until the cost could pass or the bucket is locked.
func TestRefuses(t *testing.T) {
	now := quota.Time(time.Hour)
	clock := func() quota.Time { return now }
	a := New(Config{Self: "c", Incarnation: 1, Ranges: 1}, now)
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: benchName, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 10}})
	if err != nil {
		t.Fatal(err)
	}
	a.SetLimits(now, limits)
	a.SetLeader(0, "n", 1)
	a.Collect(now)
	grant := func(tokens quota.Units) (reported quota.ReportEntry) {
		t.Helper()
		reports := a.Collect(now)
		if len(reports) != 1 || len(reports[0].Entries) != 1 {
			t.Fatalf("reports: %+v", reports)
		}
		e := reports[0].Entries[0]
		a.Apply(now, quota.Grant{Term: 1, From: "n", To: "c", At: now, Entries: []quota.GrantEntry{{
			Key: e.Key, Epoch: e.Epoch, Seq: reports[0].Seq, Ack: reports[0].Seq, Tokens: tokens, Lease: time.Minute, Again: 100 * time.Millisecond,
		}}})
		return e
	}
	a.checkNow(clock, benchName, "k", 1)
	grant(0)
	var h Handle
	if h.Refuses(clock, 1) {
		t.Error("the zero handle refuses")
	}
	a.Find(&h, benchName, "k")
	if h.Refuses(clock, 2) {
		t.Error("refused before anything was decided")
	}
	if a.checkNow(clock, benchName, "k", 2).Allowed {
		t.Fatal("admitted what is not there")
	}
	if !h.Refuses(clock, 2) || !h.Refuses(clock, 5) || h.Refuses(clock, 1) || h.Refuses(clock, 0) || h.Refuses(clock, -1) {
		t.Error("what costs as much is refused again, and nothing else")
	}
	if h.Refuses(clock, int64(mostRepeated/quota.Token)+1) {
		t.Error("a cost is repeated whose sum could overflow")
	}
	now = now.Add(19 * time.Millisecond)
	if !h.Refuses(clock, 2) {
		t.Error("a moment before it could pass it is refused")
	}
	now = now.Add(time.Millisecond)
	if h.Refuses(clock, 2) {
		t.Error("when it can pass it is decided")
	}
	if a.checkNow(clock, benchName, "k", 9).Allowed || !h.Refuses(clock, 9) {
		t.Error("a refusal begins anew")
	}
	now = now.Add(100 * time.Millisecond)
	if e := grant(3 * quota.Token); e.Refused != (2+2+5+2+9+9)*quota.Token {
		t.Errorf("%v reported as refused, want 29 tokens", e.Refused)
	}
	if h.Refuses(clock, 9) {
		t.Error("refused although there was a grant")
	}
	if !h.Take(1) {
		t.Fatal("the grant is not there")
	}
}

// TestRefusesLets: the deny cache refuses nothing where refusals are not enforced.
func TestRefusesLets(t *testing.T) {
	for _, l := range []quota.Limit{
		{Enforcement: quota.Shadow}, {Fraction: 1}, {Kind: quota.FixedWindow}, {Decide: quota.AtLeader},
	} {
		l.LimitName, l.Rate, l.Burst = benchName, quota.Rate{Tokens: 10, Per: time.Hour}, 10
		b := &bucket{key: "k", entry: &limitEntry{}, state: newState()}
		newKeys().LoadOrStore(b, &none)
		b.hasLevel, b.lease = true, quota.Time(time.Hour)
		b.cacheDenial(1, &l, 0, quota.Token)
		if b.denies(func() quota.Time { return 1 }, quota.Token) {
			t.Errorf("%+v refuses", l)
		}
	}
}
