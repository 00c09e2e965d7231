package leader

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestAside: a leader reports what it has set aside of a hard bucket for a node that has not
// reported: after the death of the leader before it, and after that of the node itself. Level
// excludes it, so clients need not take the bucket for used up. It ends when the node reports, or
// its lease is over.
func TestAside(t *testing.T) {
	for name, decide := range map[string]quota.Decide{"decided by nodes": quota.Locally, "decided by the leader": quota.AtLeader} {
		t.Run(name, func(t *testing.T) {
			k := quota.Key{LimitName: quota.LimitName{Namespace: "n", Limit: "l"}, Key: "k"}
			limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: k.LimitName, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100, Ceiling: quota.Hard, Decide: decide}})
			if err != nil {
				t.Fatal(err)
			}
			nodes := []quota.NodeID{"a", "b"}
			now := quota.Time(100 * time.Hour)
			l := New(Config{First: true}, 0, 1, "b", nodes, limits, nil, now)
			seqs := map[quota.NodeID]quota.Seq{}
			// use asks for tokens on behalf of a node, and returns the answer.
			use := func(id quota.NodeID, want quota.Units) (level, aside quota.Units, refused quota.Why) {
				t.Helper()
				now = now.Add(10 * time.Millisecond)
				if decide == quota.AtLeader {
					a := l.Ask(now, []quota.Ask{{From: id, Incarnation: 1, Key: k, Cost: want}})[0]
					if a.Unsaved { // wait for the log
						l.Checkpoint(now, 10)
						l.Saved(now, l.Written())
						a = l.Ask(now, []quota.Ask{{From: id, Incarnation: 1, Key: k, Cost: want}})[0]
					}
					if !a.Allowed {
						refused = a.Why
					}
					return a.Level, a.Aside, refused
				}
				seqs[id]++
				g, err := l.Report(now, quota.Report{
					Term: l.Term(), From: id, Incarnation: 1, Seq: seqs[id], Full: true, Parts: 1, Age: time.Hour,
					Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Want: want}},
				})
				if err != nil || len(g.Entries) != 1 {
					t.Fatalf("%v %v", g, err)
				}
				return g.Entries[0].Level, g.Entries[0].Aside, 0
			}
			for range 20 {
				use("b", 4*quota.Token)
			}
			if _, aside, _ := use("a", quota.Token); aside != 0 {
				t.Errorf("%v set aside although all have spoken", aside)
			}
			use("b", quota.Token)
			log := l.Checkpoint(now, 10)
			l.Saved(now, l.Written())

			now = now.Add(600 * time.Millisecond)
			l = New(Config{}, 0, 2, "a", nodes, limits, LinesOf(log), now)
			l.Suspect(now, "b")
			seqs = map[quota.NodeID]quota.Seq{}
			level, aside, refused := use("a", 100*quota.Token)
			if aside <= 0 || refused != 0 && refused != quota.WhyFailover {
				t.Errorf("level %v, %v set aside, refused %v; what b may have is set aside, and not over the limit", level, aside, refused)
			}
			if decide == quota.AtLeader { // learning is over; the promise of the last leader continues
				now = now.Add(300 * time.Millisecond)
				if level, aside, refused = use("a", 60*quota.Token); level+aside < 60*quota.Token || refused != quota.WhyFailover {
					t.Errorf("level %v, %v set aside, refused %v; want failover, and what is left with what is set aside", level, aside, refused)
				}
			}
			for range 80 {
				now = now.Add(100 * time.Millisecond)
				l.Sweep(now)
			}
			if level, aside, refused := use("a", quota.Token); aside != 0 || level < 98*quota.Token || refused != 0 {
				t.Errorf("when b's lease is over: level %v, %v set aside, refused %v", level, aside, refused)
			}
			if decide == quota.AtLeader {
				return
			}
			use("b", 10*quota.Token)
			l.Suspect(now, "b")
			if _, aside, _ := use("a", quota.Token); aside <= 0 {
				t.Errorf("%v set aside for a node that has just died", aside)
			}
			use("b", quota.Token) // the node has not reported
			if _, aside, _ := use("a", quota.Token); aside != 0 {
				t.Errorf("%v set aside for a node that has spoken", aside)
			}
		})
	}
}
