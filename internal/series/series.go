// Package series bounds what metrics have series of their own: a label whose values
// others choose must not make more series than a Prometheus can keep.
package series

import (
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// Other is the namespace and the limit, in labels, of all limits that have no series
// of their own. No name can be that: names begin with a letter or a digit.
const Other = "@other"

// DefaultLimits is how many limits have series of their own when nothing is said.
const DefaultLimits = 1000

// MaxTopKeys bounds the keys that the metrics of a node name, if they name any.
const MaxTopKeys = 100

// Guard says which limits have series of their own: the first so many that ask. Who
// has got them keeps them until Keep says that it is gone, so that no counter falls
// because another limit was made. A nil Guard has room for none. Methods may be called
// concurrently.
type Guard struct {
	most int

	mu  sync.Mutex
	own map[quota.LimitName]bool
}

// New returns a guard that gives series of their own to most limits; 0 is
// DefaultLimits.
func New(most int) *Guard {
	if most == 0 {
		most = DefaultLimits
	}
	return &Guard{most: most, own: map[quota.LimitName]bool{}}
}

// Of returns the name that the limit has in labels: its own, or Other.
func (g *Guard) Of(n quota.LimitName) quota.LimitName {
	if g == nil {
		return quota.LimitName{Namespace: Other, Limit: Other}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.own[n]:
	case len(g.own) < g.most:
		g.own[n] = true
	default:
		return quota.LimitName{Namespace: Other, Limit: Other}
	}
	return n
}

// Keep takes the series of all limits that there does not find: they are gone. Names
// that begin with @ stand for several limits, and stay.
func (g *Guard) Keep(there func(quota.LimitName) bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range g.own {
		if n.Limit[:min(1, len(n.Limit))] != "@" && !there(n) {
			delete(g.own, n)
		}
	}
}

// Len returns how many limits have series of their own, and how many may.
func (g *Guard) Len() (own, most int) {
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.own), g.most
}
