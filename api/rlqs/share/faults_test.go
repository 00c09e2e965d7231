package share_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/api/rlqs/share"
	"github.com/quorate/quorate/internal/quota"
)

// exact fails the test if the proxies of a hard limit admitted more than its bucket has,
// except for requests without an assignment.
func exact(t *testing.T, w *world) {
	t.Helper()
	if w.limit.Ceiling != quota.Hard {
		return
	}
	free := int64(0)
	for _, p := range w.proxies {
		free += p.unassigned
	}
	if w.lowest < -float64(free)-1 {
		t.Errorf("%.0f tokens more than the bucket had, of which %d without an assignment", -w.lowest, free)
	}
}

// each runs f as a subtest under both ceilings and then checks exact. Proxies that f adds with
// w.add refuse requests without an assignment.
func each(t *testing.T, nodes int, f func(t *testing.T, w *world)) {
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(c.String(), func(t *testing.T) {
			w := newWorld(t, 7, nodes, perSecond(1000, 1000, c))
			f(t, w)
			t.Logf("excess %.0f of a burst of %d", max(0, -w.lowest), w.limit.Burst)
			exact(t, w)
		})
	}
}

func (w *world) add(n int, rate float64) *proxy {
	p := w.proxy(n, 2*time.Second, flat(rate))
	p.deny = true
	return p
}

// got runs the world for d and returns the rate at which p admits, per second.
func (w *world) got(p *proxy, d time.Duration) float64 {
	was := p.admit
	w.run(d)
	return float64(p.admit-was) / d.Seconds()
}

// TestDisconnect checks that the proxy of a broken stream keeps its part until its
// assignment ends, and that the other proxies get the part afterwards.
func TestDisconnect(t *testing.T) {
	each(t, 2, func(t *testing.T, w *world) {
		a, b := w.add(0, 900), w.add(1, 900)
		w.run(8 * time.Second)
		b.disconnect()
		kept := b.admit
		if got := w.got(a, 4*time.Second); got > 650 {
			t.Errorf("while the assignment of the other lasts, it admits %.0f/s; the limit is 1000", got)
		}
		if b.admit == kept {
			t.Error("without its stream, the proxy stopped at once; its assignment lasts longer")
		}
		w.run(10 * time.Second)
		kept = b.admit
		if got := w.got(a, 5*time.Second); got < 850 {
			t.Errorf("afterwards it admits %.0f/s of 900", got)
		}
		if b.admit != kept {
			t.Error("a proxy whose assignment has ended still admits")
		}
		b.connect(1)
		w.run(6 * time.Second)
		if got := w.got(b, 5*time.Second); got < 450 {
			t.Errorf("it is back and admits %.0f/s", got)
		}
	})
}

// TestReconnect checks that a proxy that reconnects before its assignment ends takes over
// its member.
func TestReconnect(t *testing.T) {
	each(t, 2, func(t *testing.T, w *world) {
		a, b := w.add(0, 900), w.add(1, 900)
		w.run(8 * time.Second)
		b.disconnect()
		w.run(2 * time.Second)
		b.connect(1)
		w.run(3 * time.Second)
		if n := w.nodes[1].table.Len(); n != 1 {
			t.Errorf("the node knows %d buckets of one proxy", n)
		}
		if x, y := w.got(a, 5*time.Second), w.got(b, 0*time.Second+time.Second); x < 420 || y < 420 {
			t.Errorf("after that they admit %.0f/s and %.0f/s", x, y)
		}
	})
}

// TestNodeChange checks that the proxies still admit the limit after some of them move to
// other nodes.
func TestNodeChange(t *testing.T) {
	each(t, 3, func(t *testing.T, w *world) {
		var all []*proxy
		for i := range 6 {
			all = append(all, w.add(i%3, 400))
		}
		w.run(8 * time.Second)
		for i, p := range all {
			if i%3 == 2 {
				p.disconnect()
				p.connect(i % 2)
			}
		}
		w.run(14 * time.Second)
		was := int64(0)
		for _, p := range all {
			was += p.admit
		}
		w.run(10 * time.Second)
		now := int64(0)
		for _, p := range all {
			now += p.admit
		}
		if got := float64(now-was) / 10; got < 930 || got > 1070 {
			t.Errorf("after the move they admit %.0f/s of 1000", got)
		}
	})
}

// TestMovingSpot moves a hot spot every five seconds, which is a few report intervals. It
// compares the missed requests with those that foresight misses.
func TestMovingSpot(t *testing.T) {
	for _, c := range []struct {
		ceiling quota.Ceiling
		report  time.Duration
		least   float64 // lowest difference from foresight, in percent of the ideal
	}{
		{quota.Soft, 2 * time.Second, -15},
		{quota.Soft, time.Second, -8},
		{quota.Hard, 2 * time.Second, -35},
		{quota.Hard, time.Second, -33},
	} {
		t.Run(fmt.Sprint(c.ceiling, c.report), func(t *testing.T) {
			w := newWorld(t, 7, 3, perSecond(1000, 1000, c.ceiling))
			for i := range 3 {
				p := w.proxy(i, c.report, func(since time.Duration) float64 {
					if int(since/(5*time.Second))%3 == i {
						return 2000
					}
					return 20
				})
				p.deny = true
			}
			w.run(5 * time.Second)
			passed, admit, fore := w.passed, -w.admit(), -w.fore.admit
			w.run(30 * time.Second)
			passed, admit, fore = w.passed-passed, admit+w.admit(), fore+w.fore.admit
			off, missed := 100*float64(admit-passed)/float64(passed), 100*float64(fore-passed)/float64(passed)
			t.Logf("%+.1f %% of the ideal, foresight %+.1f %%, excess %.0f, rates together %.2f", off, missed, max(0, -w.lowest), w.sumRate/1000)
			if off < missed+c.least || off > 5 {
				t.Errorf("%+.1f %% of what the ideal admits, foresight %+.1f %%", off, missed)
			}
			if w.lowest < -1000 {
				t.Errorf("%.0f tokens more than the bucket had; bound: the burst", -w.lowest)
			}
			exact(t, w)
		})
	}
}

// admit returns the number of requests that all proxies have admitted.
func (w *world) admit() (sum int64) {
	for _, p := range w.proxies {
		sum += p.admit
	}
	return sum
}

// TestWindow checks that a soft limit exceeds a window only by the requests admitted while a
// cut is on its way, and that a hard limit never exceeds it: tokens that lie in buckets when a
// window ends are drawn from the next window.
func TestWindow(t *testing.T) {
	for _, c := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(c.String(), func(t *testing.T) {
			l := quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 5000, Per: 10 * time.Second}, Burst: 5000, Ceiling: c}
			w := newWorld(t, 3, 3, l)
			a, b, z := w.add(0, 900), w.add(1, 300), w.add(2, 10)
			w.run(10 * time.Second)
			for range 3 {
				was := a.admit + b.admit + z.admit
				w.run(10 * time.Second)
				got := a.admit + b.admit + z.admit - was
				t.Logf("%d in a window", got)
				if most := map[quota.Ceiling]int64{quota.Soft: 5250, quota.Hard: 5000}[c]; got > most || got < 4000 {
					t.Errorf("%d in a window of 5000", got)
				}
			}
		})
	}
}

// TestFewMessages checks that no proxy receives more than 1.5 messages per second.
func TestFewMessages(t *testing.T) {
	w := newWorld(t, 5, 3, perSecond(1000, 1000, quota.Soft))
	for i := range 12 {
		w.add(i%3, float64(10+i*40))
	}
	w.run(30 * time.Second)
	for i, p := range w.proxies {
		if p.pushes > 45 {
			t.Errorf("proxy %d was sent %d messages in 30s", i, p.pushes)
		}
		if !p.assigned || p.has.Action != share.Bucket {
			t.Errorf("proxy %d has %+v", i, p.has)
		}
	}
}
