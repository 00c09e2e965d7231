package cluster

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// usedUp takes all remaining tokens of a key, through all nodes.
func (c *threeNodes) usedUp(k quota.Key) {
	c.t.Helper()
	for _, n := range c.running() {
		c.eventually(10*time.Second, fmt.Sprintf("%v is used up on %s", k, n.cfg.Self), func() error {
			for range 20 {
				if d := n.Check(k, 1); !d.Allowed && d.Why == quota.WhyOverLimit {
					return nil
				}
			}
			return fmt.Errorf("%+v", n.Check(k, 1))
		})
	}
}

// TestTrapStickyStatus checks that raising a limit takes effect at once. Gubernator keeps OVER_LIMIT with
// a key after its limit was raised. Here a raise takes effect on every node, whether the limit
// changes or the key gets an override: a window gains the difference, a bucket what
// its new rate yields, and neither is refilled.
func TestTrapStickyStatus(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	year := 365 * 24 * time.Hour
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		window := limit("window_"+ceiling.String(), 0, ceiling)
		window.SetFirst(quota.Window(quota.FixedWindow, 9, year))
		bucket := limit("bucket_"+ceiling.String(), 30, ceiling)
		bucket.Rate.Tokens = 1
		for _, how := range []string{"limit", "override"} {
			c.apply(window, bucket)
			w, b := quota.Key{LimitName: window.LimitName, Key: how}, quota.Key{LimitName: bucket.LimitName, Key: how}
			c.usedUp(w)
			c.usedUp(b)
			fast := quota.Rate{Tokens: 10, Per: time.Second}
			raised := time.Now() // on a busy machine the call returns some time later
			if how == "limit" {
				w2, b2 := window, bucket
				w2.SetFirst(quota.Window(quota.FixedWindow, 90, year))
				b2.Rate = fast
				c.apply(w2, b2)
			} else if err := c.running()[0].SetOverrides(t.Context(), []quota.Override{{Key: w, Burst: 90}, {Key: b, Burst: -1, Rate: fast}}); err != nil {
				t.Fatal(err)
			}
			passed := map[quota.Key]int{}
			for _, n := range c.running() {
				for _, k := range []quota.Key{w, b} {
					c.eventually(10*time.Second, fmt.Sprintf("%v passes on %s after a raise by %s", k, n.cfg.Self, how), func() error {
						if d := n.Check(k, 1); !d.Allowed {
							return fmt.Errorf("%+v", d)
						}
						passed[k]++
						return nil
					})
				}
			}
			for _, n := range c.running() {
				for range 30 {
					if n.Check(b, 1).Allowed {
						passed[b]++
					}
				}
			}
			if most := int(10*time.Since(raised).Seconds()) + 15; passed[b] > most && ceiling == quota.Soft || passed[b] > most-10 && ceiling == quota.Hard {
				t.Errorf("%v: %d passed after %v at 10/s: a raise of the rate has filled the bucket", b, passed[b], time.Since(raised))
			}
		}
	}
}

// oddKeys are keys that would be confused if their parts were joined without their lengths.
func oddKeys() (keys []quota.Key) {
	parts := []string{"", "/", "a", "b", "a/", "/a", "a/b", "#2", "a#2", "*", "\x00", "a\x00", "\x00a", "a\x00b", ":", "_", "a_b", "@"}
	for _, n := range []quota.LimitName{
		{Namespace: "a", Limit: "b"},
		{Namespace: "a", Limit: "b_c"},
		{Namespace: "a_b", Limit: "c"},
		{Namespace: "a", Limit: "b#2"},
		{Namespace: "a", Limit: "b#floor"},
		{Namespace: "a", Limit: quota.Template},
		quota.Global,
	} {
		for _, p := range parts {
			for _, q := range parts {
				keys = append(keys, quota.Key{LimitName: n, Key: p + "|" + q})
			}
		}
	}
	return keys
}

// TestTrapJoinedKeys checks that keys with any content come back unchanged, and that none finds
// another's entry. Namespaces, limits and keys travel between nodes and into the logs
// as separate fields, or prefixed by their lengths.
func TestTrapJoinedKeys(t *testing.T) {
	keys := oddKeys()
	report, grant := quota.Report{}, quota.Grant{}
	machine := replica.NewMachine(func() time.Duration { return 0 })
	var logged []quota.KeyLevel
	for i, k := range keys {
		report.Entries = append(report.Entries, quota.ReportEntry{Key: k, Used: quota.Units(i)})
		grant.Entries = append(grant.Entries, quota.GrantEntry{Key: k, Tokens: quota.Units(i)})
		logged = append(logged, quota.KeyLevel{Key: k, At: 1, Level: quota.Units(i), FullAt: 9})
	}
	cp := replica.EncodeCheckpoint(1, logged)
	machine.Apply(1, 1, mustMarshal(t, &raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: cp}}))
	levels := map[quota.Key]quota.KeyLevel{}
	for _, kl := range machine.Levels() {
		levels[kl.Key] = kl
	}
	var overWire peerv1.Report
	if err := proto.Unmarshal(mustMarshal(t, peerproto.EncodeReport(&report)), &overWire); err != nil {
		t.Fatal(err)
	}
	if got := peerproto.DecodeReport("", &overWire); !reflect.DeepEqual(got.Entries, report.Entries) {
		t.Error("a report changed on its way")
	}
	var back peerv1.Grant
	if err := proto.Unmarshal(mustMarshal(t, peerproto.EncodeGrant(&grant)), &back); err != nil {
		t.Fatal(err)
	}
	if got := peerproto.DecodeGrant("", "", &back); !reflect.DeepEqual(got.Entries, grant.Entries) {
		t.Error("a grant changed on its way")
	}
	for i, k := range keys {
		if kl := levels[k]; kl.Level != quota.Units(i) {
			t.Errorf("%q: level %d in the log's state, want %d", k, kl.Level, i)
		}
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
