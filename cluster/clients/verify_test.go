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
	limits *quota.Limits
	booked quota.Units
}

func (n *returned) Wake()                              {}
func (n *returned) Limits() *quota.Limits              { return n.limits }
func (n *returned) Override(quota.Key) *quota.Override { return nil }

func (n *returned) Call(context.Context, quota.NodeID, *peerv1.Call) (*peerv1.Call, error) {
	return &peerv1.Call{Body: &peerv1.Call_ClientResult{ClientResult: &peerv1.CallClientResult{Booked: []int64{int64(n.booked)}}}}, nil
}

// serviceOf returns a service of a node with one limit.
func serviceOf(t *testing.T, n *returned, l quota.Limit, cfg Config) *Service {
	t.Helper()
	var err error
	if n.limits, err = quota.NewLimits(1, []quota.Limit{l}); err != nil {
		t.Fatal(err)
	}
	agg := aggregator.New(aggregator.Config{Self: cfg.Self, Incarnation: cfg.Incarnation, Ranges: 1}, n.Now())
	agg.SetLimits(n.Now(), n.limits)
	agg.SetLeader(0, "n2", 1)
	cfg.MaxKeys, cfg.Aggregator, cfg.Log, cfg.Registry = 10, agg, slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	return New(cfg, n)
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
		n := &returned{booked: 8 * quota.Token}
		s := serviceOf(t, n, l, Config{Self: "n1", Incarnation: 1})
		last := attach.Settlement{Node: "n2", Incarnation: 1, Part: 1, Parts: 1, Report: quota.Report{From: "svc", Incarnation: 1, Term: 1, Seq: 1, Full: true, Entries: []quota.ReportEntry{{
			Key: k, Epoch: 1, Used: quota.FromTokens(tc.used), Overdrawn: quota.FromTokens(tc.overdrawn), Unreported: 10 * quota.Token, Final: true,
		}}}}
		s.inheritNow([]attach.Settlement{last})
		if err := s.verifyOne(t.Context(), &unverified{node: "n2", Settlement: last}); err != nil {
			t.Fatal(err)
		}
		var back quota.Units
		for _, r := range s.cfg.Aggregator.Collect(n.Now() + quota.Time(time.Second)) {
			for i := range r.Entries {
				back += r.Entries[i].Refunded
			}
		}
		if back != quota.FromTokens(tc.of) {
			t.Errorf("%v, %d used and %d overdrawn: %d given back; want %d", tc.ceiling, tc.used, tc.overdrawn, back.Tokens(), tc.of)
		}
	}
}

// TestSettledAndKilled: a node books a final report, and is killed before the client learns of it. Its next process knows
// that all is booked, so another node that has inherited the session gives it back.
func TestSettledAndKilled(t *testing.T) {
	k := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "l"}, Key: "k"}
	l := quota.Limit{LimitName: k.LimitName, Rate: quota.Rate{Tokens: 1, Per: time.Hour}, Burst: 100, Durable: true}
	cfg := Config{Self: "n1", Incarnation: 1, Dir: t.TempDir()}
	s := serviceOf(t, &returned{}, l, cfg)
	c, err := s.Attach(&attach.Hello{Client: "svc", Incarnation: 1, Attachment: 1}, attach.NewOutbox())
	if err != nil {
		t.Fatal(err)
	}
	report := func(seq quota.Seq, overdrawn quota.Units) *quota.Report {
		return &quota.Report{From: "svc", Incarnation: 1, Term: 1, Seq: seq, Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Overdrawn: overdrawn, Unreported: overdrawn}}}
	}
	c.Report(report(1, 3*quota.Token))
	c.End()
	last := report(2, 10*quota.Token)
	last.Full, last.Entries[0].Final = true, true
	if err := s.final(last); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Incarnation = 2
	next := serviceOf(t, &returned{}, l, cfg)
	defer func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}()
	if booked := next.journal.booked(1, last)[0]; quota.Units(booked) != 10*quota.Token {
		t.Errorf("%d units are known as booked of %d", booked, 10*quota.Token)
	}
}
