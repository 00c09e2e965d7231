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

// TestDelayedAnswers checks what answers of two other nodes do to a clock that is right, or wrong by three seconds, when
// they are delayed by up to seconds on one of the two ways: a right clock is never corrected, and a wrong one is, by the
// right amount give or take half of the delay.
func TestDelayedAnswers(t *testing.T) {
	for _, off := range []time.Duration{0, 3 * time.Second, -3 * time.Second} { // of the others
		for _, delay := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second, 4 * time.Second} {
			for _, way := range []time.Duration{0, delay / 2, delay} { // to the other node
				mono := time.Duration(0)
				wall := func() time.Time { return time.Unix(1000, 0).Add(mono) }
				c := New(Config{
					Wall: wall, Members: func() int { return 3 }, Up: func() []quota.NodeID { return []quota.NodeID{"n2", "n3"} },
					Log: slog.New(slog.DiscardHandler),
				}, elapsed.Of(time.Time{}, func() (int64, time.Duration) { return 0, mono }, func() (time.Duration, bool) { return 0, false }))
				for _, id := range []quota.NodeID{"n2", "n3"} {
					mono += way
					theirs := quota.Time(wall().Add(off).UnixNano())
					mono += delay - way
					c.Peer(id, theirs, delay)
				}
				got := c.Correction()
				switch wrong := (got - off).Abs(); {
				case off == 0 && got != 0:
					t.Errorf("delay %v, %v of it on the way there: corrected by %v", delay, way, got)
				case off != 0 && delay < off.Abs() && wrong > delay:
					t.Errorf("delay %v, %v of it on the way there: corrected by %v, not %v", delay, way, got, off)
				}
			}
		}
	}
}

// TestSamples checks which answer of another node counts: the one that took least time, until it is old, or another
// contradicts it.
func TestSamples(t *testing.T) {
	const ms, start = time.Millisecond, quota.Time(1000 * time.Second)
	mono := time.Duration(0)
	c := New(Config{
		Wall: func() time.Time { return time.Unix(1000, 0).Add(mono) }, Members: func() int { return 3 },
		Up: func() []quota.NodeID { return []quota.NodeID{"n2"} }, Log: slog.New(slog.DiscardHandler),
	}, elapsed.Of(time.Time{}, func() (int64, time.Duration) { return 0, mono }, func() (time.Duration, bool) { return 0, false }))
	for i, s := range []struct{ at, off, trip, want time.Duration }{
		{0, 10 * ms, 100 * ms, 10 * ms},
		{ms, 40 * ms, 200 * ms, 10 * ms},                    // took longer
		{2 * ms, 0, 10 * ms, 0},                             // took less
		{3 * ms, 50 * ms, 300 * ms, 0},                      // took longer
		{keepSample + 2*ms, 50 * ms, 300 * ms, 50 * ms},     // the best is old
		{keepSample + 3*ms, 500 * ms, 400 * ms, 500 * ms},   // the clock was set
		{keepSample + 4*ms, -500 * ms, 400 * ms, -500 * ms}, // and back
	} {
		mono = s.at
		c.Peer("n2", start.Add(mono+s.off-s.trip/2), s.trip)
		if got := c.Offsets()["n2"]; got != s.want {
			t.Errorf("answer %d: the offset is %v; want %v", i, got, s.want)
		}
	}
}
