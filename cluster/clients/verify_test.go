package clients

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/aggregator"
	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// returned is a node whose peer is back, and had booked these tokens.
type returned struct {
	slowPeer
	booked quota.Units
}

func (n *returned) Wake() {}

func (n *returned) Call(context.Context, quota.NodeID, *peerv1.Call) (*peerv1.Call, error) {
	return &peerv1.Call{Body: &peerv1.Call_ClientResult{ClientResult: &peerv1.CallClientResult{Booked: []int64{int64(n.booked)}}}}, nil
}

// TestVerifyGivesBackInherited: a dead node had booked 8 of the 10 tokens that were inherited. They are given back, under
// hard only as far as they were overdrafts: use was not inherited.
func TestVerifyGivesBackInherited(t *testing.T) {
	k := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "l"}, Key: "k"}
	for _, tc := range []struct {
		ceiling             quota.Ceiling
		used, overdrawn, of int64
	}{
		{quota.Soft, 10, 0, 8},
		{quota.Hard, 10, 0, 0},
		{quota.Hard, 3, 7, 5},
	} {
		l := quota.Limit{LimitName: k.LimitName, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 100, Ceiling: tc.ceiling}
		limits, err := quota.NewLimits(1, []quota.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		n := &returned{booked: 8 * quota.Token}
		agg := aggregator.New(aggregator.Config{Self: "n1", Incarnation: 1, Ranges: 1}, n.Now())
		agg.SetLimits(n.Now(), limits)
		agg.SetLeader(0, "n2", 1)
		s := New(Config{Self: "n1", Incarnation: 1, MaxKeys: 10, Aggregator: agg, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}, n)
		last := attach.Settlement{Node: "n2", Incarnation: 1, Part: 1, Parts: 1, Report: quota.Report{From: "svc", Incarnation: 1, Term: 1, Seq: 1, Full: true, Entries: []quota.ReportEntry{{
			Key: k, Epoch: 1, Used: quota.FromTokens(tc.used), Overdrawn: quota.FromTokens(tc.overdrawn), Unreported: 10 * quota.Token, Final: true,
		}}}}
		s.inheritNow([]attach.Settlement{last})
		if err := s.verifyOne(t.Context(), &unverified{node: "n2", Settlement: last}); err != nil {
			t.Fatal(err)
		}
		var back quota.Units
		for _, r := range agg.Collect(n.Now() + quota.Time(time.Second)) {
			for i := range r.Entries {
				back += r.Entries[i].Refunded
			}
		}
		if back != quota.FromTokens(tc.of) {
			t.Errorf("%v, %d used and %d overdrawn: %d given back; want %d", tc.ceiling, tc.used, tc.overdrawn, back.Tokens(), tc.of)
		}
	}
}
