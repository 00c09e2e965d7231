package envoy

import (
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// loneNode is a node's own table of keys, without leaders: it counts all limits itself, in virtual
// time.
type loneNode struct {
	mu     sync.Mutex
	agg    *aggregator.Aggregator
	limits *quota.Limits
	now    quota.Time
	asked  []quota.Request

	batches []int // the sizes of batches
}

// noon is the start of a minute, an hour and half a day.
var noon = quota.Time(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixNano())

func newNode(t testing.TB, limits ...quota.Limit) *loneNode {
	t.Helper()
	n := &loneNode{now: noon}
	n.agg = aggregator.New(aggregator.Config{Self: "n1", Incarnation: 1, Ranges: 1}, n.now)
	n.set(t, limits...)
	n.pass(time.Hour) // nobody answers: the node is on its own
	return n
}

func (n *loneNode) set(t testing.TB, limits ...quota.Limit) {
	t.Helper()
	version := uint64(1)
	if n.limits != nil {
		version = n.limits.Version + 1
	}
	set, err := quota.NewLimits(version, limits)
	if err != nil {
		t.Fatal(err)
	}
	n.limits = set
	n.agg.SetLimits(n.now, set)
}

func (n *loneNode) pass(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = n.now.Add(d)
}

func (n *loneNode) wall() time.Time { return time.Unix(0, int64(n.now)) }

func (n *loneNode) clock() quota.Time { return n.now }

func (n *loneNode) AdmitInline(limit quota.LimitName, owner string) bool {
	return n.agg.AdmitInline(limit, owner)
}

func (n *loneNode) Batch() func([]quota.Call) {
	return func(calls []quota.Call) {
		n.mu.Lock()
		n.batches = append(n.batches, len(calls))
		n.mu.Unlock()
		apitest.Batch(n.Decide, n.Refund)(calls)
	}
}

func (n *loneNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, reqs...)
	var c aggregator.Call
	c.Reset(reqs, out)
	c.Final, c.Alone = true, true
	return n.agg.Decide(n.clock, &c)
}

func (n *loneNode) Charge(k quota.Key, used int64) (int64, quota.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agg.Charge(n.clock, k.LimitName, k.Key, used)
}

func (n *loneNode) Refund(k quota.Key, cost int64) quota.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agg.Refund(n.clock, k.LimitName, k.Key, cost)
}

func (n *loneNode) Limits() *quota.Limits { return n.limits }
