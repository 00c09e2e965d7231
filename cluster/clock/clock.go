// Package clock is a node's time: the wall clock's, corrected by those of the other nodes, and
// steady.
package clock

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// Clock is the node's time: it starts with the wall clock, runs with the
// monotonic one, and is steered towards the wall clock, which windows are made
// of. Once the node decides it never stands still or runs back: while it is
// wrong it runs up to maxSteer faster or slower. It leaps by the time in which the
// machine was suspended: leases have run out meanwhile.
//
// A wall clock that most nodes contradict is corrected by what theirs say. At the start,
// before the node opens its groups, the clock is set at once.
type Clock struct {
	cfg        Config
	passed     *elapsed.Clock
	segment    atomic.Pointer[segment]
	correction atomic.Int64 // what the wall clock is behind most nodes', in nanoseconds; 0 if they agree

	comparing sync.Mutex
	agreed    atomic.Bool // most members agree on the time
	peersMu   sync.Mutex
	peers     map[quota.NodeID]quota.Time // when this process started by the wall clocks of others, as they said last
}

// Config is what a clock needs to know.
type Config struct {
	Wall    func() time.Time // nil is time.Now
	Members func() int       // how many nodes the cluster has
	Up      func() []quota.NodeID
	Log     *slog.Logger
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

// New returns a clock that says what the wall clock says; passed is how long the process runs.
func New(cfg Config, passed *elapsed.Clock) *Clock {
	if cfg.Wall == nil {
		cfg.Wall = time.Now
	}
	c := &Clock{cfg: cfg, passed: passed, peers: map[quota.NodeID]quota.Time{}}
	c.Set()
	return c
}

// Set has the clock say what the wall clock says, corrected.
func (c *Clock) Set() {
	c.segment.Store(&segment{from: c.Mono(), at: c.corrected()})
}

// Wall returns what the wall clock says, right or wrong.
func (c *Clock) Wall() time.Time { return c.cfg.Wall() }

func (c *Clock) corrected() quota.Time {
	return quota.Time(c.Wall().UnixNano() + c.correction.Load())
}

// off is how far the clock is ahead of the corrected wall clock.
func (c *Clock) off() time.Duration { return time.Duration(c.Now() - c.corrected()) }

// Now returns the time.
func (c *Clock) Now() quota.Time { return c.segment.Load().now(c.Mono()) }

// Mono is how long the process has been running or suspended, whatever the wall clock did.
func (c *Clock) Mono() time.Duration { return c.passed.Since() }

// now is the time when mono has passed since the start.
func (s *segment) now(mono time.Duration) quota.Time {
	d := int64(mono - s.from)
	return s.at + quota.Time(d+d/1_000_000*s.ppm+d%1_000_000*s.ppm/1_000_000)
}

// steer begins a segment that takes the clock towards the wall clock within
// steerEvery, or as far as it may.
func (c *Clock) steer() {
	c.segment.Store(c.segment.Load().towards(c.Mono(), c.corrected()))
}

func (s *segment) towards(mono time.Duration, wall quota.Time) *segment {
	at := s.now(mono)
	off := int64(wall - at)
	ppm := off / int64(steerEvery/1_000_000)
	return &segment{from: mono, at: at, ppm: min(max(ppm, -maxSteer), maxSteer)}
}
