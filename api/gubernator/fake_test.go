package gubernator

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// soleNode decides with the real aggregator of a node and the real ledger of the leader that it
// asks, on a clock that tests advance. Decisions of the node itself stay local: no report reaches
// the leader.
type soleNode struct {
	mu     sync.Mutex
	agg    *aggregator.Aggregator
	ledger *leader.Ledger
	limits *quota.Limits
	now    quota.Time
	asked  []quota.Request
	takes  time.Duration // duration of a decision, on the clock of a synctest bubble
	busy   int           // decisions in progress
	most   int           // the largest number of them at a time
	hops   int           // questions to the leader
	resets []quota.Key
	err    error // of ResetKey
	status *quoratev1.GetStatusResponse
}

// epoch is the start of the tests: the first moment of a year.
var epoch = time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)

func newSole(t testing.TB, limits ...quota.Limit) *soleNode {
	t.Helper()
	n := &soleNode{now: quota.Time(epoch.UnixNano())}
	var err error
	if n.limits, err = quota.NewLimits(1, limits); err != nil {
		t.Fatal(err)
	}
	before := n.now.Add(-time.Minute) // without a leader for so long, it counts by itself
	n.agg = aggregator.New(aggregator.Config{Self: "n1", Ranges: 1}, before)
	n.agg.SetLimits(before, n.limits)
	n.ledger = leader.New(leader.Config{First: true}, 0, 1, "n1", []quota.NodeID{"n1"}, n.limits, nil, before)
	return n
}

// beside returns another node of the same cluster.
func (n *soleNode) beside(self quota.NodeID) *soleNode {
	before := n.now.Add(-time.Minute)
	other := &soleNode{limits: n.limits, now: n.now, ledger: n.ledger}
	other.agg = aggregator.New(aggregator.Config{Self: self, Ranges: 1}, before)
	other.agg.SetLimits(before, n.limits)
	return other
}

func (n *soleNode) clock() quota.Time { return n.now }

func (n *soleNode) AdmitInline(limit quota.LimitName, owner string) bool {
	return n.agg.AdmitInline(limit, owner)
}

func (n *soleNode) Batch() func([]quota.Call) { return apitest.Batch(n.Decide, n.Refund) }

func (n *soleNode) Decide(reqs []quota.Request, out []quota.Decision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.takes > 0 {
		n.busy++
		n.most = max(n.most, n.busy)
		n.mu.Unlock()
		time.Sleep(n.takes) // in a synctest bubble
		n.mu.Lock()
		n.busy--
	}
	n.asked = append(n.asked, reqs...)
	var c aggregator.Call
	c.Reset(reqs, out)
	c.Final = true
	ok := n.agg.Decide(n.clock, &c)
	if c.Need == aggregator.Leader {
		n.hops++
		c.Answer(n.ledger.Ask(n.now, []quota.Ask{c.Ask})[0])
		ok = n.agg.Decide(n.clock, &c)
	}
	return ok
}

func (n *soleNode) Refund(k quota.Key, cost int64) quota.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	var c aggregator.Call
	out := make([]quota.Decision, 1)
	c.Reset([]quota.Request{{Key: k}}, out)
	n.agg.Decide(n.clock, &c)
	if c.Need != aggregator.Leader {
		return n.agg.Refund(n.clock, k.LimitName, k.Key, cost)
	}
	c.Ask.Cost, c.Ask.ID = -quota.FromTokens(cost), 0
	a := n.ledger.Ask(n.now, []quota.Ask{c.Ask})[0]
	c.Ask.Cost = 0
	c.Answer(a)
	n.agg.Decide(n.clock, &c)
	return out[0]
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
