package sim

import (
	"math/rand/v2"
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
			rng := rand.New(rand.NewPCG(seed, 18))
			for at := time.Duration(0); at < s.Duration; at += time.Duration(50+rng.IntN(1500)) * time.Millisecond {
				s.Faults = append(s.Faults, Fault{At: at, Kind: Switch, Decide: quota.Decide(rng.IntN(4))})
			}
			s.Duration += 5 * time.Second
			switches += len(s.Faults)
			res := Run(s)
			if c == quota.Hard && res.Excess >= allowed(s) {
				t.Errorf("%s\n\t%.2f tokens beyond the ceiling", line, res.Excess)
			}
			// Of more questions than the leader remembers, those whose answers were lost stay booked.
			if !kills && s.Limit.Rate.Tokens < 1000 && res.Lost != 0 {
				t.Errorf("%s\n\t%d of %d admitted tokens are not in the books", line, res.Lost, res.Admitted)
			}
			admitted += res.Admitted
		}
	}
	if switches < 1000 || admitted < 100_000 {
		t.Errorf("%d changes, %d tokens admitted: too few to say anything", switches, admitted)
	}
}
