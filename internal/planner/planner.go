// Package planner answers questions about the past of limits and what follows from it: their history,
// how full they were, what another rule would have refused, which rule would suffice, when demand reaches
// it, and which keys are noisy. Package plan holds the arithmetic.
package planner

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/account"
	planning "github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on planning.
const (
	maxHeadroom   = 200 // limits in an answer: each takes a query for its busiest key
	plannedKeys   = 200 // keys of a limit that are replayed individually
	maxWhatIf     = 240 // points of a course
	usualHeadroom = 20
)

// Node is the interface of the node that a Planner runs on.
type Node interface {
	History
	Limits() *quota.Limits
	LimitVersions(ctx context.Context, before uint64, max int) ([]quota.Version, error)
	LimitsAt(ctx context.Context, version uint64) (quota.Version, []quota.Limit, error)
	ListOverrides(name quota.LimitName, after quota.Key, max int) (list []quota.Override, total int)
	Policies(ctx context.Context, id account.ConfigID) (*account.Config, error)
	ListPolicies(ctx context.Context, app, realm, after string, limit int) ([]account.Config, error)
}

// Planner answers questions about the past of limits, and about what follows from it.
type Planner struct {
	node    Node
	noLimit func(quota.LimitName) *apierr.Error
	clock   func() time.Time
}

// New returns a Planner. noLimit returns the error for a limit that does not exist.
func New(n Node, noLimit func(quota.LimitName) *apierr.Error, clock func() time.Time) *Planner {
	return &Planner{node: n, noLimit: noLimit, clock: clock}
}

// ruleOf returns the current rule for a limit, or nil. For a name that only a template or a default covers, it
// is the limit that they yield for the name.
func (s *Planner) ruleOf(name quota.LimitName) *quota.Limit {
	if ofAccounts(name) {
		return s.accountRule(name)
	}
	limits := s.node.Limits()
	if limits == nil {
		return nil
	}
	if l, ok := limits.Find(name); ok {
		return l
	}
	l, _ := limits.Resolve(name, quota.WholeKey)
	return l
}

// plannedRule returns the current rule for a limit whose demand will be replayed, or an error if it
// cannot be replayed.
func (s *Planner) plannedRule(name quota.LimitName) (*quota.Limit, error) {
	l := s.ruleOf(name)
	switch {
	case l == nil && ofAccounts(name):
		return nil, apierr.Invalid("limit", "%v: no loaded policy of this name refills over time; choose one of quorate policies list", name)
	case l == nil:
		return nil, s.noLimit(name)
	case l.Class != quota.Counted:
		return nil, apierr.Invalid("limit", "%v counts nothing: its class is %v; choose one that counts", name, l.Class)
	case !planning.Replayable(&quota.Tier{Kind: l.Kind}):
		return nil, apierr.Invalid("limit", "%v is a concurrency limit, which cannot be replayed from demand by the second; choose one with a rate", name)
	}
	return l, nil
}

// refill returns what a limit refills per second for one key; of several tiers, the least.
func refill(l *quota.Limit) float64 {
	if l == nil || l.Class != quota.Counted || l.Kind == quota.Concurrency {
		return 0
	}
	least := -1.0
	for _, t := range l.Tiers() {
		if r := float64(t.Rate.Tokens) / max(t.Rate.Per.Seconds(), 1e-9); least < 0 || r < least {
			least = r
		}
	}
	return least
}

// slow reports whether a limit has windows longer than a second: then the demand of one second says nothing
// about how full the limit is.
func slow(l *quota.Limit) bool {
	return slices.ContainsFunc(l.Tiers(), func(t quota.Tier) bool { return t.Kind.Windowed() && t.Rate.Per > time.Second })
}
