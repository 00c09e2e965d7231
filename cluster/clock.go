package cluster

import (
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// clock is the node's time: it starts with the wall clock, runs with the
// monotonic one, and is steered towards the wall clock, which windows are made
// of. It never stands still, runs back or jumps: while it is wrong it runs up to
// maxSteer faster or slower.
type clock struct {
	start   time.Time
	segment atomic.Pointer[segment]
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

func (c *clock) init() {
	now := time.Now()
	c.start = now
	c.segment.Store(&segment{at: quota.Time(now.UnixNano())})
}

func (c *clock) now() quota.Time { return c.segment.Load().now(c.mono()) }

// mono is how long the process has been running, whatever the wall clock did.
func (c *clock) mono() time.Duration { return time.Since(c.start) }

// now is the time when mono has passed since the start.
func (s *segment) now(mono time.Duration) quota.Time {
	d := int64(mono - s.from)
	return s.at + quota.Time(d+d/1_000_000*s.ppm+d%1_000_000*s.ppm/1_000_000)
}

// steer begins a segment that takes the clock towards the wall clock within
// steerEvery, or as far as it may.
func (c *clock) steer() {
	c.segment.Store(c.segment.Load().towards(c.mono(), quota.Time(time.Now().UnixNano())))
}

func (s *segment) towards(mono time.Duration, wall quota.Time) *segment {
	at := s.now(mono)
	off := int64(wall - at)
	ppm := off / int64(steerEvery/1_000_000)
	return &segment{from: mono, at: at, ppm: min(max(ppm, -maxSteer), maxSteer)}
}
