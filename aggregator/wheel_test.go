package aggregator

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestWheel: a bucket is due at the first moment of its range's phase that is not before the requested time, so less
// than a sync interval later. The wheel wakes for it, and at least once in an interval. Ranges are not due together.
func TestWheel(t *testing.T) {
	const sync = 100 * time.Millisecond
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var w wheel
		w.init(sync, start)
		now, want := start, map[*bucket]quota.Time{}
		for range 2000 {
			if rng.IntN(3) == 0 {
				b, due := inRange(quota.RangeID(rng.IntN(16))), now.Add(time.Duration(rng.Int64N(int64(openIntervals*sync))))
				w.add(b, due)
				want[b] = due
			}
			if wake := w.wake(); wake.Sub(now) > sync {
				t.Fatalf("seed %d: sleeps for %v", seed, wake.Sub(now))
			}
			now = min(w.wake(), now.Add(time.Duration(rng.Int64N(int64(sync)/4))))
			w.turn(now, func(b *bucket) {
				due, there := want[b]
				if !there || now < due || now.Sub(due) > sync+sync/4 {
					t.Fatalf("seed %d: due %v, at %v (known: %v)", seed, due, now, there)
				}
				delete(want, b)
			})
		}
		for b, due := range want {
			if now.Sub(due) > sync {
				t.Fatalf("seed %d: one of range %d is forgotten, due %v ago", seed, b.rng, now.Sub(due))
			}
		}
	}
}

func inRange(r quota.RangeID) *bucket {
	b := &bucket{rng: r, state: newState()}
	b.entryPtr.Store(&hotEntry{})
	return b
}

// TestWheelSpreads: ranges are due at different moments, each once in an interval.
func TestWheelSpreads(t *testing.T) {
	var w wheel
	w.init(100*time.Millisecond, start)
	at := map[quota.Time]int{}
	for r := range quota.RangeID(2 * phases) {
		w.add(inRange(r), start)
	}
	for now := start; now < start.Add(time.Second); now = now.Add(time.Millisecond) {
		w.turn(now, func(*bucket) { at[now]++ })
	}
	if len(at) != phases {
		t.Fatalf("at %d moments: %v", len(at), at)
	}
}
