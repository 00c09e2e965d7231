package client

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	defaultBreakAfter = 5
	// firstBreak and lastBreak bound the time until the next probe. It doubles after each failed
	// probe; half of it is random.
	firstBreak = 500 * time.Millisecond
	lastBreak  = 15 * time.Second
)

// breaker is the circuit breaker for calls to nodes. After a number of consecutive unanswered calls
// it opens, and calls fail at once. After a while one call passes as a probe; if it is answered,
// the circuit closes. It is safe for concurrent use.
type breaker struct {
	after int // failures; 0 never opens

	mu     sync.Mutex
	failed int       // failures in a row
	trips  int       // consecutive failed probes
	until  time.Time // earliest time of the next probe
	probe  bool      // a probe is in progress
	opened uint64    // number of times that it opened
}

// allow reports whether a call may be made. If so, done must be called with its outcome.
func (b *breaker) allow() bool {
	if b.after == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed < b.after {
		return true
	}
	if b.probe || time.Now().Before(b.until) {
		return false
	}
	b.probe = true
	return true
}

// outcome is the result of a call.
type outcome uint8

const (
	answered   outcome = iota
	unanswered         // no node answered
	withdrawn          // the caller cancelled before an answer, or left too little time for one
)

// done records the outcome of a call, and reports whether it opened the circuit.
func (b *breaker) done(o outcome) (opened bool) {
	if b.after == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.failed >= b.after
	switch {
	case o == answered:
		b.failed, b.trips, b.probe = 0, 0, false
	case o == withdrawn:
		b.probe = false
	case open && !b.probe: // it began before the circuit opened
	default:
		b.failed++
		if b.failed >= b.after {
			b.trip(!open)
			return !open
		}
	}
	return false
}

func (b *breaker) trip(first bool) {
	if first {
		b.opened++
	}
	pause := min(firstBreak<<min(b.trips, 10), lastBreak)
	b.until, b.probe, b.failed = time.Now().Add(pause/2+rand.N(pause/2)), false, b.after
	b.trips++
}

// state returns whether the circuit is open, and how often it has opened.
func (b *breaker) state() (open bool, times uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after > 0 && b.failed >= b.after, b.opened
}
