package main

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// fakeCluster is one central bucket per key behind every node: the ideal.
type fakeCluster struct {
	absent
	*fakeAccounts
	members fakeMembers
	mu      sync.Mutex
	start   time.Time
	limits  *quota.Limits
	buckets map[quota.Key]*limiter.Bucket

	history   []quota.Version // oldest first
	past      map[uint64][]quota.Limit
	overrides []quota.Override
	open      map[string]bool // reservations
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{fakeAccounts: newFakeAccounts(), start: time.Now(), buckets: map[quota.Key]*limiter.Bucket{}, past: map[uint64][]quota.Limit{}, open: map[string]bool{}}
}

func (c *fakeCluster) Check(k quota.Key, cost int64) quota.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.limits.Find(k.LimitName)
	if !ok {
		return quota.Decision{Why: quota.WhyNoLimit}
	}
	now := quota.Time(time.Since(c.start))
	b := c.buckets[k]
	if b == nil {
		made := limiter.NewBucket(l.BurstUnits(), now)
		b = &made
		c.buckets[k] = b
	}
	d := quota.Decision{Limit: l, Why: quota.WhyOverLimit, RetryAfter: time.Second}
	if b.Take(now, l.Rate, l.BurstUnits(), quota.FromTokens(cost)) {
		d = quota.Decision{Allowed: true, Limit: l, Why: quota.WhyHeld}
	}
	d.Remaining = b.Level().Tokens()
	return d
}

func (c *fakeCluster) Limits() *quota.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limits
}

func (c *fakeCluster) SetLimits(ctx context.Context, list []quota.Limit) (uint64, bool, error) {
	v, changed, err := c.ChangeLimits(ctx, quota.Change{Limits: list, Expect: quota.AnyVersion})
	return v.Number, changed, err
}

type errNoLeader struct{}

func (errNoLeader) Error() string  { return "the meta group has no leader" }
func (errNoLeader) NoLeader() bool { return true }

func (c *fakeCluster) TopRates(_ context.Context, req *quoratev1.TopRatesRequest) (*quoratev1.TopRatesResponse, error) {
	res := &quoratev1.TopRatesResponse{RangesCovered: 15, RangesTotal: 16}
	if req.Limit != "login" && (req.Namespace == "" || req.Namespace == "web") {
		res.Keys = append(res.Keys, &quoratev1.KeyRate{
			Namespace: "web", Limit: "per_client", Key: "evil\x1b[31m", Rate: 9.96, Demand: 31.2, Utilisation: 3.12, Attempted: 312, Admitted: 100, Refused: 212, Range: 3, Leader: "n2", Members: 3,
			Rule: &quoratev1.Limit{Namespace: "web", Name: "per_client", Rate: "10/s", Burst: 20, Ceiling: quoratev1.Ceiling_CEILING_SOFT},
		})
	}
	res.Limits = []*quoratev1.LimitError{{
		Namespace: "web", Limit: "per_client", Attempted: 312, Admitted: 100, OverAdmitted: 3.25, NeedlessRefusals: 1, NeedlessRefusalsAtMost: 20,
		WorstExcess: 2.5, WorstExcessBursts: .125, LongestGap: durationpb.New(200 * time.Millisecond), Bound: 50,
	}}
	return res, nil
}

func (c *fakeCluster) Status() *quoratev1.GetStatusResponse {
	st := &quoratev1.GetStatusResponse{
		Reason: "range 1 has no leader", Cluster: "test", Node: "n1", MetaLeader: "n2", Version: "v9", Sync: durationpb.New(100 * time.Millisecond), Lease: durationpb.New(3 * time.Second),
		Nodes:  []*quoratev1.NodeStatus{{Id: "n1", PeerAddress: "127.0.0.1:7413", Connected: true, Leads: 1}, {Id: "n2", Connected: false, RoundTrip: durationpb.New(800 * time.Microsecond)}},
		Ranges: []*quoratev1.RangeStatus{{Id: 0, Leader: "n1", Term: 3, Replicas: []string{"n1", "n2"}}, {Id: 1, Term: 4}},
	}
	if l := c.Limits(); l != nil {
		st.LimitsVersion = l.Version
	}
	return st
}
