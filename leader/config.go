package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config is how a ledger divides. The zero value of a field means its default.
type Config struct {
	// Sync is how often members report a contended key. 10ms to 10s, default
	// 100ms. Must be the same on all nodes.
	Sync time.Duration
	// Lease is how long a member may spend and accrue what it was granted
	// without hearing again. At least 3 x Sync, default 3s: longer than an
	// election, so that decisions continue while a range has no leader.
	Lease time.Duration
	// Learn is how long a new leader waits for members that do not speak.
	// Default 3 x Sync.
	Learn time.Duration
	// MaxKeys bounds the buckets. A report of a further key is not kept: its
	// member decides by its own estimate. Default 1,000,000.
	MaxKeys int
	// First says that nobody has led the range before: nobody holds anything of it.
	// Term 1 is always the first.
	First bool
	// Fewest is the smallest number of nodes by which an earlier leader may have divided what it
	// granted before the log knew of it: a cluster grows. Default as many as there are.
	Fewest int
	// Overrides of limits for single keys; may be nil.
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

// remember is how long a silent allocation is kept, so that a report delayed or
// repeated after a long partition is still settled exactly once.
const remember = time.Minute
