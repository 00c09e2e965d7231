// Package series bounds the number of series of metrics that have a limit's name as a label:
// callers choose such names, and a Prometheus server can store only so many series.
package series

import (
	"sync"

	"github.com/quorate/quorate/internal/quota"
)

// Other is the namespace and limit label of all limits without series of their own. It is not a
// valid name: names begin with a letter or a digit.
const Other = "@other"

// DefaultLimits is the default number of limits with series of their own.
const DefaultLimits = 1000

// MaxTopKeys bounds the keys that the metrics of a node name, if configured to name keys.
const MaxTopKeys = 100

// Guard decides which limits have series of their own: the first ones that ask, up to a bound. A
// limit keeps its series until Prune removes it, so that no counter falls because another limit was
// added. A nil Guard allows none. Guard is safe for concurrent use.
type Guard struct {
	most int

	mu  sync.Mutex
	own map[quota.LimitName]bool
}

// New returns a guard for at most most limits; 0 means DefaultLimits.
func New(most int) *Guard {
	if most == 0 {
		most = DefaultLimits
	}
	return &Guard{most: most, own: map[quota.LimitName]bool{}}
}

// Of returns the limit's name in labels: its own, or Other.
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

// Prune removes the limits for which exists returns false. Names that begin with @ stand for several
// limits and stay.
func (g *Guard) Prune(exists func(quota.LimitName) bool) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range g.own {
		if n.Limit[:min(1, len(n.Limit))] != "@" && !exists(n) {
			delete(g.own, n)
		}
	}
}

// Len returns the number of limits with series of their own, and its bound.
func (g *Guard) Len() (own, most int) {
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.own), g.most
}
