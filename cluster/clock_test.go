package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// TestClockFollowsTheWall: a wall clock that was set, or that runs unevenly, is
// followed without ever running back or jumping.
func TestClockFollowsTheWall(t *testing.T) {
	for name, tc := range map[string]struct {
		wall   func(mono time.Duration) time.Duration // how far the wall clock is ahead
		within time.Duration                          // at the end
	}{
		"right":                    {func(time.Duration) time.Duration { return 0 }, 0},
		"drifts by 100 ppm":        {func(m time.Duration) time.Duration { return m / 10_000 }, 200 * time.Microsecond},
		"was set ahead":            {func(time.Duration) time.Duration { return time.Second }, time.Microsecond},
		"was set back":             {func(time.Duration) time.Duration { return -time.Second }, time.Microsecond},
		"was set ahead by an hour": {func(time.Duration) time.Duration { return time.Hour }, time.Hour - 4*time.Second},
	} {
		const start = quota.Time(1_700_000_000_000_000_000)
		s := &segment{at: start}
		last := start
		for mono := time.Duration(0); mono < 1000*time.Second; mono += 100 * time.Millisecond {
			now := s.now(mono)
			step := now.Sub(last)
			if mono > 0 && (step < 99*time.Millisecond || step > 101*time.Millisecond) {
				t.Fatalf("%s: after %v the clock moved by %v in 100ms", name, mono, step)
			}
			last = now
			if mono%time.Second == 0 {
				s = s.towards(mono, start.Add(mono+tc.wall(mono)))
			}
		}
		off := time.Duration(start.Add(999*time.Second+900*time.Millisecond+tc.wall(999*time.Second)) - last)
		if off < 0 {
			off = -off
		}
		if off > tc.within {
			t.Errorf("%s: %v off at the end; want at most %v", name, off, tc.within)
		}
	}
}

// TestClockInSuspend: the clock leaps by the time in which the machine was suspended, and the wall clock
// has no say in that.
func TestClockInSuspend(t *testing.T) {
	wall, mono, boot := 1000*time.Hour, time.Duration(0), 7*time.Hour
	var c clock
	c.init(func() time.Time { return time.Unix(0, int64(wall)) }, elapsed.Of(time.Time{},
		func() (int64, time.Duration) { return int64(wall), mono }, func() (time.Duration, bool) { return boot, true }))
	began := c.now()
	wall, boot = wall+5*time.Second, boot+5*time.Second
	if got := c.now().Sub(began); got != 5*time.Second || c.mono() != 5*time.Second {
		t.Errorf("after 5 s in suspend the clock has moved by %v, and %v have passed", got, c.mono())
	}
	wall += time.Hour
	if got := c.now().Sub(began); got != 5*time.Second {
		t.Errorf("when the wall clock was set ahead the clock had moved by %v", got)
	}
}

// TestClockOfOneAhead: a node whose wall clock is hours ahead of the others' goes by theirs from its start,
// says so, and moves no log ahead: what is repeated is not applied again, and refills go on.
func TestClockOfOneAhead(t *testing.T) {
	for _, ahead := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			c := newTrio(t, 2)
			c.kill("n1")
			c.change = append(c.change, func(cfg *Config) {
				if cfg.Self == "n1" {
					cfg.wall = func() time.Time { return time.Now().Add(ahead) }
				}
			})
			c.start("n1", nil)
			c.awaitReady(patience)
			n := c.nodes["n1"]
			if off := time.Duration(n.clock.now() - quota.Time(time.Now().UnixNano())); off.Abs() > time.Second {
				t.Errorf("its clock is %v ahead; want that of the others", off)
			}
			l := limit("a", 10, quota.Hard)
			if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
				t.Fatal(err)
			}
			use(t, n, quota.Key{LimitName: l.LimitName, Key: "k"}, 5)
			use(t, c.nodes["n3"], quota.Key{LimitName: l.LimitName, Key: "k"}, 5)
			id := accountIn(t, 0, 2, 0)
			mustApply(t, c.nodes["n2"], "", create(id, 7))
			if out := mustApply(t, c.nodes["n2"], "a request", deposit(id, 5)); out.Code != account.Done {
				t.Fatalf("%+v", out)
			}
			for r := range quota.RangeID(2) { // it leads
				c.eventually(patience, "n1 leads", func() error {
					for _, from := range c.running() {
						if g := from.host.Group(group(r)); g != nil && from != n {
							_ = g.TransferTo(t.Context(), "n1")
						}
					}
					if got := n.routes.leader(r); got != "n1" {
						return fmt.Errorf("%q does", got)
					}
					return nil
				})
			}
			mustApply(t, n, "", deposit(id, 1))
			if out := mustApply(t, n, "a request", deposit(id, 5)); out.Code != account.Repeated {
				t.Errorf("a repetition: code %d, balance %v", out.Code, balances(t, n, false, id))
			}
			c.eventually(patience, "the clock is among its faults", func() error {
				faults := strings.Join(n.faults(), "; ")
				if !strings.Contains(faults, "the wall clock is 3h0m0s") || !strings.Contains(faults, "most nodes") {
					return fmt.Errorf("its faults are %q", faults)
				}
				return nil
			})
			c.eventually(patience, "the others see it", func() error {
				for _, other := range []quota.NodeID{"n2", "n3"} {
					if faults := c.nodes[other].clockFaults(); len(faults) > 0 {
						return fmt.Errorf("%s says of itself %q", other, faults)
					}
					if d := find(c.nodes[other].Status(), "n1").ClockOffset.AsDuration(); (d - ahead).Abs() > time.Second {
						return fmt.Errorf("%s says it is %v ahead", other, d)
					}
				}
				return nil
			})
		})
	}
}
