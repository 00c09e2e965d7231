// Package elapsed measures elapsed time including suspend. On Linux Go's monotonic clock stops
// while the machine is suspended, so the holder of a lease would underestimate its age.
//
// On systems other than Linux it is the monotonic clock.
package elapsed

import (
	"sync"
	"sync/atomic"
	"time"
)

// Clock measures the time since its start, including suspend. It never runs backwards. It is safe
// for concurrent use.
type Clock struct {
	start time.Time
	read  func() (wall int64, mono time.Duration) // both at the same moment
	mono  func() time.Duration                    // as read's
	boot  func() (time.Duration, bool)            // includes suspend; false if unavailable

	ahead atomic.Int64 // wall minus monotonic clock at the last look, in ns
	slept atomic.Int64 // time in suspend since the start, in ns

	mu    sync.Mutex
	first time.Duration // value of boot when mono was 0
	known bool          // first is valid
}

// New returns a clock that starts now.
func New() *Clock {
	start := time.Now()
	c := Of(start, func() (int64, time.Duration) {
		t := time.Now()
		return t.UnixNano(), t.Sub(start)
	}, boottime)
	c.mono = func() time.Duration { return time.Since(start) }
	return c
}

// Of returns a clock that starts now and reads the given clocks, for tests and the simulator. read
// returns, at the same moment, the wall clock in nanoseconds and the monotonic time since start,
// which stops in suspend. boot returns a clock that includes suspend, from any origin, and false if
// the machine has no such clock. Callers of Since may call both.
func Of(start time.Time, read func() (wall int64, mono time.Duration), boot func() (time.Duration, bool)) *Clock {
	c := &Clock{start: start, read: read, mono: func() time.Duration { _, mono := read(); return mono }, boot: boot}
	wall, mono := read()
	c.ahead.Store(wall - int64(mono))
	if at, ok := boot(); ok {
		c.first, c.known = at-mono, true
	}
	return c
}

// Start returns when the clock started.
func (c *Clock) Start() time.Time { return c.start }

const (
	// apart is the change in the difference of wall and monotonic clock at which Since calls
	// look. The wall clock includes suspend.
	apart = 5 * time.Millisecond
	// least is the shortest suspend that counts: smaller differences are the time between two
	// readings.
	least = time.Millisecond
)

// Since returns the time since the start.
func (c *Clock) Since() time.Duration {
	wall, mono := c.read()
	if d := time.Duration(wall - int64(mono) - c.ahead.Load()); d > apart || d < -apart {
		c.look()
	}
	return mono + time.Duration(c.slept.Load())
}

// Noticed returns the time since the start, without a suspend that ended after the last call of Since.
// It reads one clock where Since reads two.
func (c *Clock) Noticed() time.Duration { return c.mono() + time.Duration(c.slept.Load()) }

// look measures a suspend. If the wall clock was only set, it records the new difference.
func (c *Clock) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.boot()
	wall, mono := c.read() // after boot: the time between the two readings must not count as suspend
	if slept := int64(at - c.first - mono); ok && c.known && slept > c.slept.Load()+int64(least) {
		c.slept.Store(slept)
	}
	c.ahead.Store(wall - int64(mono))
}
