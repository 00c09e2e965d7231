package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestDecideSwitched changes where a limit is decided, again and again at random moments of random scenarios.
// Each node and the leader learn of a change up to 300 ms apart, as those of a cluster do, and the network
// loses, repeats and reorders their messages meanwhile. A hard limit must stay exact, also while its leaders
// die; where none dies, the books must have exactly what the members admitted.
func TestDecideSwitched(t *testing.T) {
	testspeed.Full(t)
	long(t)
	t.Parallel()
	switches, admitted := 0, int64(0)
	for seed := range uint64(300) {
		for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
			s, line := random(seed, c)
			kills := s.KillLeader > 0
			stop(&s)
			s.Duration += 5 * time.Second
			s.Limit.Decide = quota.AtLeader // so that all admissions are judged by when they were decided
			r := newRun(s)
			rng := rand.New(rand.NewPCG(seed, 18))
			r.start()
			for at := time.Duration(0); at < s.Duration-5*time.Second; at += time.Duration(50+rng.IntN(1500)) * time.Millisecond {
				r.after(at, func() {
					switches++
					r.decideAt(rng, quota.Decide(rng.IntN(4)))
				})
			}
			r.until(r.Start.Add(r.Duration + r.late))
			r.end()
			if c == quota.Hard && r.res.Excess >= allowed(s) {
				t.Errorf("%s\n\t%.2f tokens beyond the ceiling", line, r.res.Excess)
			}
			// Of more questions than the leader remembers, those whose answers were lost stay booked.
			if !kills && s.Limit.Rate.Tokens < 1000 && r.res.Lost != 0 {
				t.Errorf("%s\n\t%d of %d admitted tokens are not in the books", line, r.res.Lost, r.res.Admitted)
			}
			admitted += r.res.Admitted
		}
	}
	if switches < 1000 || admitted < 100_000 {
		t.Errorf("%d changes, %d tokens admitted: too few to say anything", switches, admitted)
	}
}

// decideAt changes where the limit is decided. Nodes, and the leaders on them, learn of it one after another.
func (r *run) decideAt(rng *rand.Rand, where quota.Decide) {
	l := r.limits.All()[0]
	l.Decide = where
	limits, err := quota.NewLimits(r.limits.Version+1, []quota.Limit{l})
	if err != nil {
		panic(err)
	}
	r.limits = limits
	for _, n := range r.nodes {
		r.after(time.Duration(rng.IntN(300))*time.Millisecond, func() {
			if n.dead || r.limits.Version > limits.Version { // it has learned of a later change, or will
				return
			}
			n.agg.SetLimits(n.clock(), limits)
			i := slices.IndexFunc(r.terms, func(s leadership) bool { return s.node == n && s.ledger != nil })
			if i >= 0 {
				r.terms[i].ledger.SetLimits(n.clock(), limits)
			}
		})
	}
}
