package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestReopenedIgnoresEarlierGrants: the leader takes back what it granted before a final report, so a member that continues
// to use the key does not apply such a grant, however late it arrives.
func TestReopenedIgnoresEarlierGrants(t *testing.T) {
	for name, reopens := range map[string]func(r *rig){
		"client": func(r *rig) {
			r.Allocate(r.clock, quota.Key{LimitName: hardName, Key: "k"}, AllocationRequest{Tokens: tokens})
		},
		"check": func(r *rig) {
			r.want(hardName, 1, false, quota.WhyNotHeld)
			r.collect()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			k := quota.Key{LimitName: hardName, Key: "k"}
			r.check(hardName, "k", 1)
			rep := r.collect()
			r.answer(rep, quota.GrantEntry{Tokens: tokens, Cap: tokens, Level: 20 * tokens, Free: 20 * tokens})
			r.want(hardName, 1, true, quota.WhyHeld)
			for rep = r.collect(); !rep.Entries[0].Final; rep = r.collect() {
				r.answer(rep, quota.GrantEntry{Level: 19 * tokens, Free: 20 * tokens})
			}
			pushed := rep
			pushed.Seq, pushed.Entries = 0, []quota.ReportEntry{rep.Entries[0]}
			pushed.Entries[0].Final = false
			late := r.grant(pushed, quota.GrantEntry{Tokens: 5 * tokens, Cap: 5 * tokens, Level: 19 * tokens})
			g := r.grant(rep, quota.GrantEntry{Level: 19 * tokens})
			g.Entries[0].Closed = false // its counts are not in the log yet
			if name == "check" {
				r.Apply(r.now, g)
			}
			r.now = r.now.Add(time.Millisecond)
			reopens(r)
			if b := r.bucketOf(hardName, "k"); b.phase != open {
				t.Fatalf("phase %d, want open", b.phase)
			}
			r.Apply(r.now, late)
			if held := r.Held(k); held != 0 {
				t.Errorf("%d tokens held of a grant from before the final report", held/tokens)
			}
			r.answer(r.collect(), quota.GrantEntry{Tokens: 2 * tokens, Cap: 2 * tokens, Level: 19 * tokens})
			if held := r.Held(k); held != 2*tokens {
				t.Errorf("%d tokens held of the next grant, want 2", held/tokens)
			}
		})
	}
}
