// Package apitest provides in-memory fake nodes for tests of the API.
package apitest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Node is a fake api.Node. It admits burst tokens of every key and then refuses, with a retry
// after 1.5s.
type Node struct {
	fakeRest

	Mu         sync.Mutex
	Active     *quota.Limits
	Used       map[quota.Key]int64
	SetErr     error
	RateErr    error
	Reason     string // why the node is not ready; empty if it is
	Leaderless string
	Asked      *quoratev1.TopRatesRequest
	Idle       bool // TopRates returns no keys
	Errors     []*quoratev1.LimitError

	open      map[string][]quota.Request // reservations by handle
	Owner     string                     // owner of the last reservation
	Settled   map[string]int64
	Full      bool // Reserve returns ErrTooManyReservations
	Versions  []quota.Version
	past      map[uint64][]quota.Limit
	Rivals    int // number of next ChangeLimits calls that a rival change precedes
	Overrides []quota.Override
	Reset     []quota.Key
	Events    chan quota.Event
	Lost      uint64
	Filter    quota.EventFilter
	Stopped   chan struct{}

	Accounts fakeAccounts
}

// New returns a node with four limits at version 7.
func New(t testing.TB) *Node {
	t.Helper()
	n := &Node{Active: MustLimits(t, 7, "web/per_client 10/s 20", "web/login 5/m 5 hard", "api/per_tenant 1000/s 1000", "api/none 0/s 0"), Used: map[quota.Key]int64{}}
	n.open, n.Settled, n.past = map[string][]quota.Request{}, map[string]int64{}, map[uint64][]quota.Limit{}
	n.Events, n.Stopped = make(chan quota.Event, 8), make(chan struct{}, 8)
	n.remember(quota.Change{Comment: "the first"})
	return n
}

// With replaces the limits of version 7 and returns n.
func (n *Node) With(t testing.TB, lines ...string) *Node {
	t.Helper()
	n.Active = MustLimits(t, 7, lines...)
	n.past[7] = n.Active.All()
	return n
}

// MustLimits parses lines as ParseLimits does. It fails the test if they are invalid.
func MustLimits(t testing.TB, version uint64, lines ...string) *quota.Limits {
	t.Helper()
	list, err := ParseLimits("test", []byte(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	set, err := quota.NewLimits(version, list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func option(l *quota.Limit, word string) {
	what, value, _ := strings.Cut(word, "=")
	switch what {
	case "hard":
		l.Ceiling = quota.Hard
	case "sliding":
		l.SetFirst(quota.Window(quota.SlidingWindow, l.Burst, l.Rate.Per))
	case "fixed":
		l.SetFirst(quota.Window(quota.FixedWindow, l.Burst, l.Rate.Per))
	case "inflight":
		l.SetFirst(quota.Tier{Kind: quota.Concurrency, Burst: l.Burst})
	case "get":
		l.Match = &quota.Match{Methods: []string{"GET"}, Path: value}
	case "parent":
		l.Parent = value
	case "shadow":
		l.Enforcement = quota.Shadow
	}
}

// ParseLimits reads lines "namespace/name rate burst [hard|fixed|...]".
func ParseLimits(source string, data []byte) (list []quota.Limit, err error) {
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			return nil, errors.New(source + ":1:1: first fault\n" + source + ":2:5: second fault")
		}
		name, err := quota.ParseLimitName(f[0])
		if err != nil {
			return nil, err
		}
		rate, err := quota.ParseRate(f[1])
		if err != nil {
			return nil, err
		}
		l := quota.Limit{LimitName: name, Rate: rate}
		for _, c := range f[2] {
			l.Burst = 10*l.Burst + int64(c-'0')
		}
		for _, word := range f[3:] {
			option(&l, word)
		}
		list = append(list, l)
	}
	return list, nil
}

// Check implements api.Node.
func (n *Node) Check(k quota.Key, cost int64) quota.Decision {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.spend(k, cost, cost)
}

// spend decides a request by cost and, if it admits the request, charges charge tokens. The
// caller holds n.Mu.
func (n *Node) spend(k quota.Key, cost, charge int64) quota.Decision {
	l, key := n.Active.Resolve(k.LimitName, k.Key)
	if l == nil {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	k = quota.Key{LimitName: l.LimitName, Key: key}
	left := l.Burst - n.Used[k]
	d := quota.Decision{Limit: l, Remaining: left, Tier: 1, Near: left < 2, ResetAfter: time.Duration(n.Used[k]) * time.Second}
	switch {
	case cost > l.Burst:
		d.Why, d.RetryAfter, d.Near = quota.WhyOverBurst, apiproto.Never, false
		return d
	case cost > left && l.Enforcement == quota.Shadow:
		d.Allowed, d.Shadow, d.Why = true, true, quota.WhyOverLimit
		return d
	case cost > left:
		d.Why, d.RetryAfter, d.Tier, d.Near, d.ResetAfter = quota.WhyOverLimit, 1500*time.Millisecond, 0, false, 0
		if l.Kind.Windowed() {
			d.ResetAfter = d.RetryAfter
		}
		return d
	}
	n.Used[k] += charge
	d.Allowed, d.Why, d.Remaining = true, quota.WhyHeld, left-charge
	if l.LimitName.Limit != "waits" && !l.Kind.Windowed() {
		d.Tier, d.Near, d.ResetAfter = 0, false, 0
	}
	return d
}

// Limits implements api.Node.
func (n *Node) Limits() *quota.Limits {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	return n.Active
}

// SetLimits implements api.Node.
func (n *Node) SetLimits(_ context.Context, list []quota.Limit) (uint64, bool, error) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.SetErr != nil {
		return 0, false, n.SetErr
	}
	set, err := quota.NewLimits(n.Active.Version+1, list)
	if err != nil {
		return 0, false, err
	}
	n.Active = set
	n.remember(quota.Change{})
	return set.Version, true, nil
}

// TopRates implements api.Node.
func (n *Node) TopRates(_ context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	if n.RateErr != nil {
		return nil, n.RateErr
	}
	n.Asked = req
	if n.Idle {
		return &quoratev1.TopRatesResponse{RangesCovered: 16, RangesTotal: 16}, nil
	}
	return &quoratev1.TopRatesResponse{
		RangesCovered: 15, RangesTotal: 16, Limits: n.Errors,
		Keys: []*quoratev1.KeyRate{{
			Namespace: "web", Limit: "per_client", Key: "203.0.113.7", Rate: 9.5, Demand: 31.25, Attempted: 1 << 60, Admitted: 2, Refused: 3,
			Range: 4, Leader: "n2", Term: 5, Members: 3, Rule: &quoratev1.Limit{Namespace: "web", Name: "per_client", Rate: "10/s", Burst: 20, Ceiling: quoratev1.Ceiling_CEILING_HARD},
		}},
	}, nil
}

// Status implements api.Node.
func (n *Node) Status() *quoratev1.GetStatusResponse {
	return &quoratev1.GetStatusResponse{
		Ready: n.Reason == "", Reason: n.Reason, Leaderless: n.Leaderless, Cluster: "test", Node: "n1",
		Nodes:  []*quoratev1.NodeStatus{{Id: "n1", PeerAddress: "127.0.0.1:7413", Connected: true, Leads: 1}},
		Ranges: []*quoratev1.RangeStatus{{Id: 0, Leader: "n1", Term: 3, Replicas: []string{"n1", "n2"}}},
	}
}

// NoLeader is the error of a Raft group without a leader.
type NoLeader struct{}

// Error implements error.
func (NoLeader) Error() string { return "the meta group has no leader" }

// NoLeader returns true: it marks errors caused by a missing leader.
func (NoLeader) NoLeader() bool { return true }

// FullStatus implements api.Node.
func (n *Node) FullStatus(context.Context) *quoratev1.GetStatusResponse { return n.Status() }
