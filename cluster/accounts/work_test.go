package accounts

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestWork counts what calls over two ranges write: commands, and entries of the ranges' logs. A call
// alone waits for two consecutive entries, and many calls share entries.
func TestWork(t *testing.T) {
	for _, tc := range []struct {
		callers int
		most    float64 // entries per call
	}{{1, 5}, {64, 1.1}} {
		t.Run(strconv.Itoa(tc.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ranges, each, disk = 16, 40, 2 * time.Millisecond
				c := newLeaderAndFollowers(t, ranges)
				kinds := map[string]int{}
				c.logged = func(batch []byte) {
					_, commands, _ := account.DecodeBatch(batch)
					for i := range commands {
						kinds[kindOf(&commands[i])]++
					}
				}
				c.meet = nil
				c.sync = disk
				began := time.Now()
				var wg sync.WaitGroup
				for w := range tc.callers {
					wg.Go(func() {
						for i := range each {
							a, b := quota.RangeID((w+i)%ranges), quota.RangeID((w+5*i+1)%ranges)
							if a == b {
								b = (b + 1) % ranges
							}
							ops := []account.Op{own(a, ranges, w*each+i), own(b, ranges, w*each+i)}
							out, err := c.nodes[w%3].ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint(w, " ", i), 0, ops)
							if err != nil || out.Code != account.Done {
								t.Errorf("%+v, %v", out, err)
							}
						}
					})
				}
				wg.Wait()
				took := time.Since(began) / each
				time.Sleep(time.Second) // virtual: the Forgets that wait for company are written
				calls := tc.callers * each
				c.mu.Lock()
				defer c.mu.Unlock()
				entries := float64(len(c.entries)) / float64(calls)
				t.Logf("%d calls: %.2f entries each, %v from call to call, commands %v", calls, entries, took, kinds)
				if entries > tc.most {
					t.Errorf("%.2f entries for each call, want at most %.2f", entries, tc.most)
				}
				for kind, n := range kinds {
					if n > calls {
						t.Errorf("%d of %s for %d calls", n, kind, calls)
					}
				}
				if tc.callers == 1 && took > 2*disk+time.Millisecond {
					t.Errorf("a call takes %v, and two entries take %v", took, 2*disk)
				}
			})
		})
	}
}

// TestWorkInOneRange counts the entries that calls write which each change one account. A call alone takes one entry;
// many share entries, whichever node they come from.
func TestWorkInOneRange(t *testing.T) {
	for _, tc := range []struct {
		callers int
		most    float64 // entries per call
	}{{1, 1}, {64, 0.5}, {512, 0.1}} {
		t.Run(strconv.Itoa(tc.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ranges, each = 16, 40
				c := newLeaderAndFollowers(t, ranges)
				c.meet = nil
				c.sync = 2 * time.Millisecond
				var wg sync.WaitGroup
				for w := range tc.callers {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(w), 1))
						for i := range each {
							ops := []account.Op{own(quota.RangeID(rng.IntN(ranges)), ranges, w*each+i)}
							out, err := c.nodes[w%3].ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint(w, " ", i), 0, ops)
							if err != nil || out.Code != account.Done {
								t.Errorf("%+v, %v", out, err)
							}
						}
					})
				}
				wg.Wait()
				c.mu.Lock()
				defer c.mu.Unlock()
				if entries := float64(len(c.entries)) / float64(tc.callers*each); entries > tc.most {
					t.Errorf("%.2f entries for each call, want at most %.2f", entries, tc.most)
				}
			})
		})
	}
}

func kindOf(c *account.Command) string {
	switch {
	case c.Begin != nil:
		return "Begin"
	case c.Prepare != nil:
		return "Prepare"
	case c.Decide != nil:
		return "Decide"
	case c.Finish != nil:
		return "Finish"
	case c.Forget != nil:
		return "Forget"
	}
	return "other"
}

// own returns an operation on the nth account of a range.
func own(r quota.RangeID, ranges, n int) account.Op {
	for i := 0; ; i++ {
		if o := add(fmt.Sprint("own", n, "-", i))[0]; RangeOf(o.Account, ranges) == r {
			return o
		}
	}
}
