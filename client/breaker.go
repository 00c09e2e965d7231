package client

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	defaultBreakAfter = 5
	// firstBreak and lastBreak bound how long calls fail at once before a probe:
	// twice as long after each probe that fails, half of it left to chance.
	firstBreak = 500 * time.Millisecond
	lastBreak  = 15 * time.Second
)

// breaker is the circuit between the client and its nodes: after so many calls in
// a row that nobody answered it opens, and calls fail at once. After a while one
// call is let through as a probe; it closes the circuit if it is answered. Safe
// for concurrent use.
type breaker struct {
	after int // failures; 0 never opens

	mu     sync.Mutex
	failed int       // in a row
	trips  int       // probes that failed, in a row
	until  time.Time // when the next probe may go
	probe  bool      // one is under way
	opened uint64    // how often it has opened
}

// enter reports whether a call may go. What may go is to be told by leave.
func (b *breaker) enter() bool {
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

// outcome of a call.
type outcome uint8

const (
	answered   outcome = iota
	unanswered         // by any node
	withdrawn          // by the caller, before there was an answer
)

// leave tells what became of a call, and reports whether the circuit has opened by it.
func (b *breaker) leave(o outcome) (opened bool) {
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
