package clientledger

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config is how a client ledger divides. The zero value of a field means its default.
type Config struct {
	Self quota.NodeID
	// Sync is how often clients report a contended key: as the node's own.
	Sync time.Duration
	// Lease is how long a client may spend what it was allocated without hearing again:
	// at most as long as the node's own lasts.
	Lease time.Duration
	// MaxClients bounds the sessions, and again those that broke and are not
	// settled. Default 20,000.
	MaxClients int
	// MaxKeys bounds what clients have open together: a key that ten of them use
	// counts as ten. One owner has seven for each that is free. A report of a further
	// one is not answered. Default 1,000,000.
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
