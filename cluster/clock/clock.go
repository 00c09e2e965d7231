// Package clock provides a node's time: its wall clock, corrected by the clocks of the other
// nodes, and steady.
package clock

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// Clock is the node's time. It starts at the wall clock's time, runs with the monotonic clock,
// and is steered towards the wall clock, because windows follow wall-clock time. Once the node
// decides, the clock never stands still or runs backwards: while it is off, it runs up to
// maxSteer faster or slower. It jumps ahead by the time for which the machine was suspended,
// because leases expired in the meantime.
//
// If most nodes contradict the wall clock, Clock corrects it by theirs. At the start, before the
// node opens its groups, it is set at once.
type Clock struct {
	cfg        Config
	passed     *elapsed.Clock
	segment    atomic.Pointer[segment]
	correction atomic.Int64 // how far the wall clock is behind most nodes' clocks, in nanoseconds; 0 if they agree

	comparing sync.Mutex
	agreed    atomic.Bool // most members agree on the time
	peersMu   sync.Mutex
	peers     map[quota.NodeID]sample
}

// Config configures a Clock.
type Config struct {
	Wall    func() time.Time // the wall clock; time.Now when nil
	Members func() int       // number of nodes in the cluster
	Up      func() []quota.NodeID
	Log     *slog.Logger
}

// segment is a period in which the clock runs at a constant rate.
type segment struct {
	from time.Duration // start of the segment, since the process started
	at   quota.Time    // the clock's time at from
	ppm  int64         // rate relative to the monotonic clock, in parts per million; positive is faster
}

const (
	maxSteer   = 5000 // parts per million: five milliseconds in a second
	steerEvery = time.Second
)

// New returns a clock set to the wall clock. passed measures how long the process has been
// running.
func New(cfg Config, passed *elapsed.Clock) *Clock {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	c := &Clock{cfg: cfg, passed: passed, peers: map[quota.NodeID]sample{}}
	c.Set()
	return c
}

// Set sets the clock to the corrected wall clock.
func (c *Clock) Set() {
	c.segment.Store(&segment{from: c.Mono(), at: c.corrected()})
}

// Wall returns the wall clock's time, right or wrong.
func (c *Clock) Wall() time.Time { return c.cfg.Wall() }

func (c *Clock) corrected() quota.Time {
	return quota.Time(c.Wall().UnixNano() + c.correction.Load())
}

// off returns how far the clock is ahead of the corrected wall clock.
func (c *Clock) off() time.Duration { return time.Duration(c.Now() - c.corrected()) }

// Now returns the clock's time.
func (c *Clock) Now() quota.Time { return c.segment.Load().now(c.Mono()) }

// Mono returns how long the process has been running or suspended, independent of the wall clock.
func (c *Clock) Mono() time.Duration { return c.passed.Since() }

// now returns the clock's time at mono after the start.
func (s *segment) now(mono time.Duration) quota.Time {
	d := int64(mono - s.from)
	return s.at + quota.Time(d+d/1_000_000*s.ppm+d%1_000_000*s.ppm/1_000_000)
}

// steer begins a segment that brings the clock to the corrected wall clock within steerEvery, or
// as close as maxSteer allows.
func (c *Clock) steer() {
	c.segment.Store(c.segment.Load().towards(c.Mono(), c.corrected()))
}

func (s *segment) towards(mono time.Duration, wall quota.Time) *segment {
	at := s.now(mono)
	off := int64(wall - at)
	ppm := off / int64(steerEvery/1_000_000)
	return &segment{from: mono, at: at, ppm: min(max(ppm, -maxSteer), maxSteer)}
}
