package cluster

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// clock is the node's time: it starts with the wall clock, runs with the
// monotonic one, and is steered towards the wall clock, which windows are made
// of. Once the node decides it never stands still or runs back: while it is
// wrong it runs up to maxSteer faster or slower. It leaps by the time in which the
// machine was suspended: leases have run out meanwhile.
//
// A wall clock that most nodes contradict is corrected by what theirs say. At the start,
// before the node opens its groups, the clock is set at once.
type clock struct {
	wall       func() time.Time // time.Now, unless tests have another
	passed     *elapsed.Clock
	segment    atomic.Pointer[segment]
	correction atomic.Int64 // what the wall clock is behind most nodes', in nanoseconds; 0 if they agree
}

// segment is a stretch of time in which the clock runs evenly.
type segment struct {
	from time.Duration // since start
	at   quota.Time    // what the clock said then
	ppm  int64         // how much faster than the monotonic clock it runs
}

const (
	maxSteer   = 5000 // parts per million: five milliseconds in a second
	steerEvery = time.Second
)

func (c *clock) init(wall func() time.Time, passed *elapsed.Clock) {
	if c.wall = wall; wall == nil {
		c.wall = time.Now
	}
	c.passed = passed
	c.set()
}

// set has the clock say what the wall clock says, corrected.
func (c *clock) set() {
	c.segment.Store(&segment{from: c.mono(), at: c.corrected()})
}

func (c *clock) corrected() quota.Time {
	return quota.Time(c.wall().UnixNano() + c.correction.Load())
}

// off is how far the clock is ahead of the corrected wall clock.
func (c *clock) off() time.Duration { return time.Duration(c.now() - c.corrected()) }

func (c *clock) now() quota.Time { return c.segment.Load().now(c.mono()) }

// mono is how long the process has been running or suspended, whatever the wall clock did.
func (c *clock) mono() time.Duration { return c.passed.Since() }

// now is the time when mono has passed since the start.
func (s *segment) now(mono time.Duration) quota.Time {
	d := int64(mono - s.from)
	return s.at + quota.Time(d+d/1_000_000*s.ppm+d%1_000_000*s.ppm/1_000_000)
}

// steer begins a segment that takes the clock towards the wall clock within
// steerEvery, or as far as it may.
func (c *clock) steer() {
	c.segment.Store(c.segment.Load().towards(c.mono(), c.corrected()))
}

func (s *segment) towards(mono time.Duration, wall quota.Time) *segment {
	at := s.now(mono)
	off := int64(wall - at)
	ppm := off / int64(steerEvery/1_000_000)
	return &segment{from: mono, at: at, ppm: min(max(ppm, -maxSteer), maxSteer)}
}
