package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestSettleAcrossWindows checks that reserved tokens return to the window that they were taken
// from. In a later window they would let the limit admit too much.
func TestSettleAcrossWindows(t *testing.T) {
	const full, per = 20, time.Hour
	for kind, most := range map[quota.Kind]int{ // in the seconds after the reservation's window
		quota.FixedWindow: full, quota.CalendarWindow: full, quota.PeriodicRefill: full,
		quota.SlidingWindow: 1, // used tokens return over the whole next window
	} {
		for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
			t.Run(kind.String()+" "+ceiling.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := bucketLimit("l", "20/h", full, ceiling)
					l.Kind = kind
					if kind == quota.CalendarWindow {
						l.Calendar = quota.Calendar{Unit: quota.Hour}
					}
					c := attachTo(t, newCluster(t, []string{"a"}, l))
					defer c.Close()
					ready(t, c)
					time.Sleep(time.Second)
					b, ctx := c.Bucket("web", "l", "k"), t.Context()
					reserve := func(n int64) *Reservation {
						t.Helper()
						for range 1000 {
							if r, err := b.ReserveN(ctx, n); err != nil || r.OK() {
								return r
							}
							time.Sleep(10 * time.Millisecond)
						}
						t.Fatalf("%d cannot be reserved", n)
						return nil
					}
					take := func() (n int) {
						for range 1000 {
							if res, err := b.Check(ctx, 1); err == nil && res.Allowed {
								n++
							}
							time.Sleep(5 * time.Millisecond)
						}
						return n
					}
					settle := func(r *Reservation, used int64) {
						t.Helper()
						if err := r.Settle(ctx, used); err != nil {
							t.Fatal(err)
						}
					}
					settle(reserve(full), 5)
					late := reserve(full - 5) // succeeds only if the rest has come back
					time.Sleep(per)
					admitted := take()
					settle(late, 0)
					if admitted += take(); admitted > most {
						t.Errorf("%d admitted, want %d: what was reserved in the window before came back in this one", admitted, most)
					} else if kind != quota.SlidingWindow && admitted < most {
						t.Errorf("%d admitted, want %d", admitted, most)
					}
				})
			})
		}
	}
}
