package clientledger

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Config sets how a client ledger divides. The zero value of a field means its default.
type Config struct {
	Self quota.NodeID
	// Sync is the interval at which clients report a contended key: that of the node itself.
	Sync time.Duration
	// Lease is how long a client may spend its tokens without hearing from the node: at most the
	// node's own lease.
	Lease time.Duration
	// MaxClients bounds the attached sessions, and separately the broken ones that are not settled. One
	// owner has at most seven broken ones for each free place. Default 20,000.
	MaxClients int
	// MaxKeys bounds the open keys of all clients: a key that ten of them use counts as ten. One
	// owner has at most seven for each free one. A report of a further key is not answered. Default
	// 1,000,000.
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
