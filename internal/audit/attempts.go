package audit

import (
	"maps"
	"net/netip"
	"time"

	"golang.org/x/time/rate"

	"github.com/quorate/quorate/internal/subnet"
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

// attemptBounds limits attempts so that no caller can push the attempts of others out of the files.
type attemptBounds struct {
	unproven, proven *rate.Limiter
	owners           map[string]*rate.Limiter
}

func (a *attemptBounds) init() {
	a.unproven, a.proven = rate.NewLimiter(attemptRate, attemptBurst), rate.NewLimiter(attemptRate, attemptBurst)
	a.owners = map[string]*rate.Limiter{}
}

// allow reports whether an attempt may be written, and if so charges it.
func (a *attemptBounds) allow(e *Entry) bool {
	all, owner := a.proven, "identity:"+e.Identity
	if e.Credential == "" || e.Credential == "none" || e.Credential == "unverified" {
		ip, _ := netip.ParseAddr(e.Address)
		all, owner = a.unproven, subnet.Of(ip).String()
	}
	return all.TokensAt(e.Time) >= 1 && a.owner(owner, e.Time).AllowN(e.Time, 1) && all.AllowN(e.Time, 1)
}

// owner returns the limiter of an owner. At maxOwners it drops the full ones, or all if none is full: the total
// still bounds them.
func (a *attemptBounds) owner(name string, now time.Time) *rate.Limiter {
	if l := a.owners[name]; l != nil {
		return l
	}
	if len(a.owners) >= maxOwners {
		maps.DeleteFunc(a.owners, func(_ string, l *rate.Limiter) bool { return l.TokensAt(now) >= attemptBurstOne })
	}
	if len(a.owners) >= maxOwners {
		clear(a.owners)
	}
	l := rate.NewLimiter(attemptRateOne, attemptBurstOne)
	a.owners[name] = l
	return l
}
