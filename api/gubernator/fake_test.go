package gubernator

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// soleNode decides by the real aggregator, of a node that is alone, on a clock that
// tests move.
type soleNode struct {
	mu     sync.Mutex
	agg    *aggregator.Aggregator
	limits *quota.Limits
	now    quota.Time
	asked  []quota.Request
	resets []quota.Key
	err    error // of ResetKey
	status *quoratev1.GetStatusResponse
}

// epoch is when tests begin: at the turn of a year, a month and a day.
var epoch = time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)

func newSole(t testing.TB, limits ...quota.Limit) *soleNode {
	t.Helper()
	n := &soleNode{now: quota.Time(epoch.UnixNano())}
	var err error
	if n.limits, err = quota.NewLimits(1, limits); err != nil {
		t.Fatal(err)
	}
	before := n.now.Add(-time.Minute) // so long without a leader, it counts by itself
	n.agg = aggregator.New(aggregator.Config{Self: "n1", Ranges: 1}, before)
	n.agg.SetLimits(before, n.limits)
	return n
}

func (n *soleNode) clock() quota.Time { return n.now }

func (n *soleNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, reqs...)
	var c aggregator.Call
	c.Reset(reqs, out)
	c.Final = true
	return n.agg.Decide(n.clock, &c)
}

func (n *soleNode) Refund(k quota.Key, cost int64) quota.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agg.Refund(n.clock, k.LimitName, k.Key, cost)
}

func (n *soleNode) ResetKey(_ context.Context, k quota.Key) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.resets = append(n.resets, k)
	return n.err
}

func (n *soleNode) Limits() *quota.Limits { return n.limits }

func (n *soleNode) Status() *quoratev1.GetStatusResponse { return n.status }

func (n *soleNode) options() Options {
	return Options{Now: func() time.Time { return time.Unix(0, int64(n.now)) }}
}
