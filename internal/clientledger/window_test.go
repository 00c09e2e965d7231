package clientledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLateRefund: a refund in a window that has ended at its node raises no level, also if the
// client has not ended the window yet.
func TestLateRefund(t *testing.T) {
	const most = 20
	for _, kind := range []quota.Kind{quota.FixedWindow, quota.PeriodicRefill} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, late %v", kind, late), func(t *testing.T) {
				l := bucketLimit(quota.Hard, 1, most)
				l.SetFirst(quota.Window(kind, most, time.Minute))
				w := newWorld(t, l, 2)
				w.now += quota.Time(time.Minute) - w.now%quota.Time(time.Minute)
				take := func(p *proc) (n int64) {
					for range 2 * most {
						if w.ask(p, l.LimitName, "k", 1) {
							n++
						}
						w.run(5*time.Millisecond, 5*time.Millisecond)
					}
					return n
				}
				refunds, other := w.procs[0], w.procs[1]
				if n := take(refunds); n != most {
					t.Fatalf("%d passed", n)
				}
				w.run(w.check(w.node, l.LimitName, "k", 0).ResetAfter-time.Second, 50*time.Millisecond)
				refunds.agg.Refund(w.clock, l.LimitName, "k", most)
				said := refunds.agg.Collect(w.now)
				w.procs = w.procs[1:] // nothing more of it arrives
				if late {
					w.run(2*time.Second, 5*time.Millisecond)
					if n := take(other); n != most {
						t.Fatalf("%d passed in the next window", n)
					}
				}
				for _, r := range said {
					if _, err := w.b.Report(w.now, &r); err != nil {
						t.Fatal(err)
					}
				}
				if n := take(other); (n > 0) == late {
					t.Errorf("%d more passed", n)
				}
			})
		}
	}
}
