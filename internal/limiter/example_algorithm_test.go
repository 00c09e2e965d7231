package limiter_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// spaced is the worked example of CONTRIBUTING.md: an algorithm in the form of this package. Its whole state is a
// value, time is an argument, and it has no other input. It stores the moment at which the bucket would be full
// again: the inverse representation of a token bucket.
type spaced struct{ full quota.Time }

// take takes one token at now, if one is available. A token is added once per each, and at most burst are saved.
func (s *spaced) take(now quota.Time, each time.Duration, burst int64) bool {
	full := max(s.full, now) + quota.Time(each)
	if full-now > quota.Time(each)*quota.Time(burst) {
		return false
	}
	s.full = full
	return true
}

// TestWorkedExample compares it with the token bucket, call by call, with times from a seed. A real algorithm is
// compared with an exact model by limitertest.Run, and fuzzed: conformance_test.go.
func TestWorkedExample(t *testing.T) {
	const each, burst = 100 * time.Millisecond, 5
	rate, top := quota.Rate{Tokens: 10, Per: time.Second}, quota.FromTokens(burst)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var example spaced
		bucket := limiter.NewBucket(top, 0)
		refused := 0
		for i, now := 0, quota.Time(0); i < 2000; i++ {
			now += quota.Time(time.Duration(rng.IntN(200)) * time.Millisecond)
			if rng.IntN(4) == 0 {
				now += quota.Time(time.Duration(rng.IntN(2)) * time.Second)
			}
			for range rng.IntN(4) {
				want := bucket.Take(now, rate, top, quota.FromTokens(1))
				if got := example.take(now, each, burst); got != want {
					t.Fatalf("seed %d, call %d at %v: %v; the bucket says %v", seed, i, now, got, want)
				}
				if !want {
					refused++
				}
			}
		}
		if refused < 100 {
			t.Errorf("seed %d: only %d refused: nothing is shown", seed, refused)
		}
	}
}
