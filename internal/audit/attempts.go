package audit

import (
	"net/netip"
	"time"
)

// Rate limits of attempts: per owner (the identity if authenticated, else the address) and in
// total. Authenticated and unauthenticated callers have separate totals.
const (
	attemptRate     = 10 // entries per second, in total
	attemptBurst    = 100
	attemptRateOne  = 1 // entries per second, per owner
	attemptBurstOne = 20
	maxOwners       = 4096 // owners in memory
)

// bucket is a token bucket of attempts.
type bucket struct {
	tokens float64
	at     time.Time
}

func (b *bucket) refill(now time.Time, rate, burst float64) {
	b.tokens = min(burst, b.tokens+max(0, now.Sub(b.at).Seconds())*rate)
	b.at = now
}

// attemptBounds limits attempts so that no caller can push the attempts of others out of the files.
type attemptBounds struct {
	unproven, proven bucket
	owners           map[string]*bucket
}

func (a *attemptBounds) init(now time.Time) {
	a.unproven, a.proven = bucket{attemptBurst, now}, bucket{attemptBurst, now}
	a.owners = map[string]*bucket{}
}

// allow reports whether an attempt may be written, and if so charges it.
func (a *attemptBounds) allow(e *Entry) bool {
	all, owner := &a.proven, "identity:"+e.Identity
	if e.Credential == "" || e.Credential == "none" || e.Credential == "unverified" {
		all, owner = &a.unproven, network(e.Address)
	}
	all.refill(e.Time, attemptRate, attemptBurst)
	one := a.owner(owner, e.Time)
	one.refill(e.Time, attemptRateOne, attemptBurstOne)
	if all.tokens < 1 || one.tokens < 1 {
		return false
	}
	all.tokens--
	one.tokens--
	return true
}

// owner returns the bucket of an owner. At maxOwners it drops the full buckets, or all buckets if none
// is full: the total still bounds them.
func (a *attemptBounds) owner(name string, now time.Time) *bucket {
	if b := a.owners[name]; b != nil {
		return b
	}
	if len(a.owners) >= maxOwners {
		for have, b := range a.owners {
			if b.refill(now, attemptRateOne, attemptBurstOne); b.tokens >= attemptBurstOne {
				delete(a.owners, have)
			}
		}
	}
	if len(a.owners) >= maxOwners {
		clear(a.owners)
	}
	b := &bucket{attemptBurstOne, now}
	a.owners[name] = b
	return b
}

// network returns the address of a caller, or its /64 prefix for IPv6: callers can choose the other
// 64 bits.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if ip = ip.Unmap().WithZone(""); err != nil || ip.Is4() {
		return ip.String()
	}
	p, _ := ip.Prefix(64) // cannot fail: IPv6 has 128 bits
	return p.String()
}
