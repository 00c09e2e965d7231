package rules

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// TestListWithoutAPart guards against a new leader that takes a partial list for complete. A member
// with more keys than fit in a report tells the leader about them in several. One is lost, and the
// last one, which says that the list is complete, arrives. The leader must not conclude that the
// member holds nothing of the missing keys, and the member must tell everything again.
func TestListWithoutAPart(t *testing.T) {
	const burst, keys = 30, 5000
	const year = 365 * 24 * time.Hour
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: burst, Ceiling: quota.Hard,
	}
	limits, err := quota.NewLimits(1, []quota.Limit{l})
	if err != nil {
		t.Fatal(err)
	}
	ids := []quota.NodeID{"a", "b", "c"}
	for lost := range 3 { // the first part, the last part, none
		t.Run(fmt.Sprintf("part %d of 2 is lost", lost+1), func(t *testing.T) {
			now := quota.Time(year)
			clock := func() quota.Time { return now }
			agg := aggregator.New(aggregator.Config{Self: "a", Incarnation: 1, Ranges: 1, Nodes: 3, MaxKeys: 2 * keys, MaxEntries: 4096, Known: year}, now)
			agg.SetLimits(now, limits)
			used, heard := map[string]int64{}, map[string]quota.Term{}
			take := func(k string) {
				if checkNow(agg, clock, quota.Key{LimitName: l.LimitName, Key: k}, 1).Allowed {
					used[k]++
				}
			}
			report := func(led *leader.Ledger, lose int) (sent int) {
				for i, r := range agg.Collect(now) {
					if sent++; i == lose {
						continue
					}
					for _, e := range r.Entries {
						heard[e.Key.Key] = led.Term()
					}
					if g, err := led.Report(now, r); err == nil {
						agg.Apply(now, g)
					}
				}
				return sent
			}
			first := leader.New(leader.Config{First: true}, 0, 1, "b", ids, limits, nil, now)
			agg.SetLeader(0, "b", 1)
			for i := range keys {
				take(strconv.Itoa(i))
			}
			for range 40 {
				report(first, -1)
				now = now.Add(5 * time.Millisecond)
			}
			// The leader dies before its first checkpoint, so the log is empty, and c leads.
			now = now.Add(600 * time.Millisecond)
			next := leader.New(leader.Config{}, 0, 2, "c", ids, limits, nil, now)
			agg.SetLeader(0, "c", 2)
			for _, id := range []quota.NodeID{"b", "c"} {
				if _, err := next.Report(now, quota.Report{Term: 2, From: id, Incarnation: 2, Seq: 1, Full: true, Age: year}); err != nil {
					t.Fatal(err)
				}
			}
			if n := report(next, lost); n != 2 {
				t.Fatalf("everything was told in %d reports; the test wants 2", n)
			}
			if next.Learning() != (lost < 2) {
				t.Errorf("the leader is learning: %v", next.Learning())
			}
			// The callers of c ask for all of a key from the lost part, and then the callers of a
			// do.
			k, most := "", quota.Units(-1)
			for i := range keys {
				name := strconv.Itoa(i)
				if held := agg.Held(quota.Key{LimitName: l.LimitName, Key: name}); held > most && (heard[name] == 1 || lost == 2) {
					k, most = name, held
				}
			}
			spent, applied := quota.Units(0), quota.Seq(0)
			get := func(entries []quota.GrantEntry) {
				for _, e := range entries {
					spent, applied = spent+e.Tokens, e.Seq
				}
			}
			for seq := quota.Seq(2); seq < 60; seq++ {
				now = now.Add(time.Millisecond)
				g, err := next.Report(now, quota.Report{Term: 2, From: "c", Incarnation: 2, Seq: seq, Age: year, Entries: []quota.ReportEntry{
					{Key: quota.Key{LimitName: l.LimitName, Key: k}, Epoch: 1, Used: spent, Want: burst * quota.Token, Applied: applied},
				}})
				if err != nil {
					t.Fatal(err)
				}
				get(g.Entries)
				if next.Wants() {
					next.Checkpoint(now, 4096)
					for _, g := range next.Saved(now, next.Written()) {
						if g.To == "c" {
							get(g.Entries)
						}
					}
				}
			}
			for range burst {
				take(k)
			}
			if total := used[k] + spent.Tokens(); total > burst {
				t.Errorf("a hard bucket of %d that hardly refills admitted %d: %d at a, %d at c", burst, total, used[k], spent.Tokens())
			}
			// The member tells everything again, and the leader then knows all keys.
			for range 200 {
				now = now.Add(5 * time.Millisecond)
				report(next, -1)
			}
			if next.Learning() || next.Len() != keys {
				t.Errorf("a second later the leader knows %d of %d keys, learning %v", next.Len(), keys, next.Learning())
			}
		})
	}
}
