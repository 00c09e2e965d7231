package clock

import (
	"log/slog"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// TestClockFollowsTheWall checks that the clock follows a wall clock that was set or runs
// unevenly, without ever running backwards or jumping.
func TestClockFollowsTheWall(t *testing.T) {
	for name, tc := range map[string]struct {
		wall   func(mono time.Duration) time.Duration // how far the wall clock is ahead
		within time.Duration                          // maximum difference at the end
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

// TestEarliest checks that a node whose clock is ahead lets nothing expire by it, whether most nodes
// agree on the time or no majority is connected.
func TestEarliest(t *testing.T) {
	const now = quota.Time(1_700_000_000_000_000_000)
	for name, c := range map[string]struct {
		ahead time.Duration   // of this node's clock
		peers []time.Duration // how far the clocks of connected nodes are ahead
		want  time.Duration
	}{
		"one ahead, two right":          {48 * time.Hour, []time.Duration{0, 0}, 0},
		"one ahead, one right":          {48 * time.Hour, []time.Duration{0}, 0},
		"one behind, one right":         {-48 * time.Hour, []time.Duration{0}, -48 * time.Hour},
		"right, one ahead":              {0, []time.Duration{48 * time.Hour}, 0},
		"agreed":                        {0, []time.Duration{-100 * time.Millisecond, -200 * time.Millisecond}, 0},
		"nobody else is connected":      {time.Hour, nil, time.Hour},
		"most agree, and one is behind": {0, []time.Duration{0, -48 * time.Hour}, 0},
	} {
		ids := []quota.NodeID{"n2", "n3"}[:len(c.peers)]
		k := New(Config{
			Wall: func() time.Time { return time.Unix(0, int64(now.Add(c.ahead))) }, Members: func() int { return 3 },
			Up: func() []quota.NodeID { return ids }, Log: slog.New(slog.DiscardHandler),
		}, elapsed.Of(time.Time{}, func() (int64, time.Duration) { return 0, 0 }, func() (time.Duration, bool) { return 0, true }))
		for i, id := range ids {
			k.Peer(id, now.Add(c.peers[i]), 0)
		}
		if got := k.Earliest(); got != now.Add(c.want) {
			t.Errorf("%s: %v ahead; want %v", name, time.Duration(got-now), c.want)
		}
	}
}

// TestClockInSuspend checks that the clock jumps ahead by the time for which the machine was
// suspended, regardless of the wall clock.
func TestClockInSuspend(t *testing.T) {
	wall, mono, boot := 1000*time.Hour, time.Duration(0), 7*time.Hour
	c := New(Config{Wall: func() time.Time { return time.Unix(0, int64(wall)) }}, elapsed.Of(time.Time{},
		func() (int64, time.Duration) { return int64(wall), mono }, func() (time.Duration, bool) { return boot, true }))
	began := c.Now()
	wall, boot = wall+5*time.Second, boot+5*time.Second
	if got := c.Now().Sub(began); got != 5*time.Second || c.Mono() != 5*time.Second {
		t.Errorf("after 5 s in suspend the clock has moved by %v, and %v have passed", got, c.Mono())
	}
	wall += time.Hour
	if got := c.Now().Sub(began); got != 5*time.Second {
		t.Errorf("when the wall clock was set ahead the clock had moved by %v", got)
	}
}
