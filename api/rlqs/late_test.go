package rlqs

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/quorate/quorate/internal/quota"
)

// plentyNode is a node that gives whatever is asked for.
type plentyNode struct {
	limits *quota.Limits
	drawn  int64
}

func (n *plentyNode) Draw(_ quota.Key, want int64) int64 { n.drawn += want; return want }
func (n *plentyNode) Miss(quota.Key, int64)              {}
func (n *plentyNode) Refund(_ quota.Key, cost int64) quota.Decision {
	n.drawn -= cost
	return quota.Decision{}
}

func (n *plentyNode) Standing(k quota.Key) quota.Standing {
	l, _ := n.limits.Resolve(k.LimitName, k.Key)
	if l == nil {
		return quota.Standing{}
	}
	return quota.Standing{Limit: l, Tier: l.First(), Level: l.BurstUnits(), HasLevel: true, Nodes: 1}
}
func (n *plentyNode) Limits() *quota.Limits { return n.limits }

// TestReportAfterTheStream checks that a report that is still being read when its stream has ended, or the server
// has closed, makes no bucket and takes no tokens.
func TestReportAfterTheStream(t *testing.T) {
	limits, err := quota.NewLimits(1, []quota.Limit{{LimitName: quota.LimitName{Namespace: "web", Limit: "k"}, Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for what, end := range map[string]func(*assigner, *stream){
		"the stream has ended":  func(a *assigner, st *stream) { a.leave(st) },
		"the server has closed": func(a *assigner, _ *stream) { a.close() },
	} {
		n := &plentyNode{limits: limits}
		opts := Options{}.withDefaults()
		a := newAssigner(n, opts, newMetrics(opts))
		st := &stream{cancel: func(error) {}, domain: "web", subs: map[string]*subscription{}, wake: make(chan struct{}, 1)}
		if err := a.join(st); err != nil {
			t.Fatal(err)
		}
		end(a, st)
		a.report(st, &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &pb.BucketId{Bucket: map[string]string{"k": "v"}}, NumRequestsAllowed: 1})
		if len(st.subs)+len(a.subs)+a.table.Len() != 0 || n.drawn != 0 {
			t.Errorf("%s: %d buckets, %d tokens", what, a.table.Len(), n.drawn)
		}
		a.close()
	}
}
