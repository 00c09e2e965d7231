package branch

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config is how a branch divides. The zero value of a field means its default.
type Config struct {
	Self quota.NodeID
	// Sync is how often clients report a contended key: as the node's own.
	Sync time.Duration
	// Lease is how long a client may spend what it was lent without hearing again:
	// at most as long as the node's own lasts.
	Lease time.Duration
	// MaxClients bounds the attachments, and again those that broke and are not
	// settled. Default 20,000.
	MaxClients int
	// MaxKeys bounds what clients have open together: a key that ten of them use
	// counts as ten. A report of a further one is not answered. Default 1,000,000.
	MaxKeys int
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
	if c.MaxClients == 0 {
		c.MaxClients = 20_000
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = 1_000_000
	}
	return c
}

// Validate returns every fault of c, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Sync < 10*time.Millisecond || c.Sync > 10*time.Second {
		errs = append(errs, fmt.Errorf("sync: %v; must be 10ms to 10s", c.Sync))
	}
	if c.Lease < 3*c.Sync {
		errs = append(errs, fmt.Errorf("lease: %v; must be at least three times sync (%v)", c.Lease, 3*c.Sync))
	}
	if c.MaxClients < 1 {
		errs = append(errs, fmt.Errorf("max_clients: %d; must be 1 or more", c.MaxClients))
	}
	if c.MaxKeys < 1 {
		errs = append(errs, fmt.Errorf("max_keys: %d; must be 1 or more", c.MaxKeys))
	}
	return errors.Join(errs...)
}
