package client

import "sync/atomic"

// tally is a counter for the hottest paths, spread over cache lines so that different keys seldom
// share one.
type tally [tallies]counter

const tallies = 64 // a power of two

type counter struct {
	atomic.Uint64
	_ [56]byte // a cache line each
}

// of returns the counter of a user, by a uniformly distributed number.
func (t *tally) of(user uint64) *counter { return &t[user%tallies] }

// sum returns the total.
func (t *tally) sum() uint64 {
	n := uint64(0)
	for i := range t {
		n += t[i].Load()
	}
	return n
}
