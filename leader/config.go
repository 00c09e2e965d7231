package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config sets how a ledger divides. The zero value of a field means its default.
type Config struct {
	// Sync is the interval at which members report a contended key. 10ms to 10s, default 100ms. It
	// must be the same on all nodes.
	Sync time.Duration
	// Lease is how long a member may spend and accrue its grant without hearing from the leader. At
	// least 3 x Sync, default 3s: longer than an election, so that decisions continue while a range
	// has no leader.
	Lease time.Duration
	// Learn is how long a new leader waits for members that do not report. Default 3 x Sync.
	Learn time.Duration
	// MaxKeys bounds the buckets. Reports of further keys are not booked: members decide these by
	// their own estimate. Default 1,000,000.
	MaxKeys int
	// First states that the range had no leader before, so no member holds anything of it. Implied
	// by term 1.
	First bool
	// Fewest is the smallest number of nodes among which an earlier leader may have divided its
	// implicit grants. It matters while a cluster grows. Default is the present number.
	Fewest int
	// Overrides are the overrides of limits for single keys; may be nil.
	Overrides quota.Overrides
}

// WithDefaults returns c with zero fields set to their defaults.
func (c Config) WithDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Sync, 100*time.Millisecond)
	def(&c.Lease, max(3*time.Second, 3*c.Sync))
	def(&c.Learn, 3*c.Sync)
	if c.MaxKeys == 0 {
		c.MaxKeys = 1_000_000
	}
	return c
}

// rememberSilent is how long a silent allocation is kept, so that a report that is delayed or repeated
// after a long partition is still settled exactly once.
const rememberSilent = time.Minute
