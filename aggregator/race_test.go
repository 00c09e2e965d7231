package aggregator

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestCountsUnderLoad has many callers on one key and on many, while the driver collects, grants, changes limits and
// sweeps. In the end, the reports contain exactly the admitted costs, to the token.
func TestCountsUnderLoad(t *testing.T) { countsUnderLoad(t, 200, 5*time.Millisecond) }

// TestCountsCompact is the same while keys are closed, compacted and restored all the time.
func TestCountsCompact(t *testing.T) { countsUnderLoad(t, 5000, time.Second) }

func countsUnderLoad(t *testing.T, keys int, step time.Duration) {
	const callers, checks = 8, 20_000
	r := newRig(t, Config{MaxKeys: 10_000})
	r.compactIn = 0 // keys are compacted and restored as often as possible
	var now atomic.Int64
	now.Store(int64(start))
	clock := func() quota.Time { return quota.Time(now.Load()) }
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 4))
			for i := range checks {
				name, key, cost := softName, "one", 1+rng.Int64N(2)
				if i%2 == 0 {
					name = hardName
				}
				if i%3 == 0 {
					key = strconv.Itoa(rng.IntN(keys))
				}
				d, need, _ := r.TrySimple(clock, name, key, cost)
				if need != Nothing || i%5 == 0 && !d.Allowed {
					d = r.checkNow(clock, name, key, cost)
				}
				if d.Allowed {
					admitted.Add(cost)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	type opening struct {
		key   quota.Key
		epoch quota.Seq
	}
	spent := map[opening]quota.Units{}
	rng := rand.New(rand.NewPCG(1, 5))
	drive := func(tokens quota.Units) {
		r.now = quota.Time(now.Add(int64(step)))
		for _, rep := range r.Collect(r.now) {
			for i := range rep.Entries {
				e := &rep.Entries[i]
				spent[opening{e.Key, e.Epoch}] = e.Used + e.Overdrawn
			}
			if rng.IntN(10) > 0 { // otherwise the answer is lost
				r.answer(rep, quota.GrantEntry{Tokens: tokens, Rate: tokens, Cap: 2 * tokens, Level: 20 * quota.Token})
			}
		}
	}
	for i := 0; ; i++ {
		select {
		case <-done:
		default:
			drive(quota.Units(rng.IntN(20)) * quota.Token)
			if r.Sweep(r.now); i%50 == 0 {
				burst := 10 + rng.Int64N(20)
				r.limits(limit(softName, burst, quota.Soft), limit(hardName, burst, quota.Hard))
			}
			continue
		}
		break
	}
	for range 1000 { // long enough for every key to report and close
		drive(0)
	}
	var sum quota.Units
	for _, u := range spent {
		sum += u
	}
	if got, want := sum, quota.FromTokens(admitted.Load()); got != want {
		t.Errorf("reports say %d units, callers were let pass %d", got, want)
	}
	t.Logf("%d tokens passed in %d openings of keys", admitted.Load(), len(spent))
	if r.Sweep(r.now); r.table.compact.size.Load() != int64(r.Len()) {
		t.Errorf("%d of %d keys are compacted in the end", r.table.compact.size.Load(), r.Len())
	}
}
