package client

import "sync/atomic"

// tally counts what happens more often than anything else: its users are spread over
// so many counters that those of different keys seldom meet on one cache line.
type tally [tallies]counter

const tallies = 64 // a power of two

type counter struct {
	atomic.Uint64
	_ [56]byte // a cache line each
}

// of returns the counter of one user, by a number that is spread evenly.
func (t *tally) of(user uint64) *counter { return &t[user%tallies] }

// sum returns what was counted so far.
func (t *tally) sum() uint64 {
	n := uint64(0)
	for i := range t {
		n += t[i].Load()
	}
	return n
}
