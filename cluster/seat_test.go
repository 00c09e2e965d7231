package cluster

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/cluster/multiraft"
	"github.com/quorate/quorate/internal/quota"
)

// loneNode is a node of which nothing runs.
func loneNode() *Node {
	cfg := Config{Self: "n1", Nodes: map[quota.NodeID]string{"n1": ""}, Ranges: 1, Sync: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry()}
	cfg.Replicas = 1
	v, err := staticView(&cfg)
	if err != nil {
		panic(err)
	}
	n := newNode(cfg, v, false, nil, starts{inc: 1})
	n.host = &multiraft.Host{}
	return n
}

func setLimits(n *Node, limits ...quota.Limit) {
	n.meta.SetLimits(control.EncodeLimits(limits, time.Now()))
}

// ask reports a first use of a key and says whether the ledger knows its limit.
func (s *seat) ask(term quota.Term, seq quota.Seq, k quota.Key) bool {
	_, ok := s.report(&quota.Report{
		Range: s.id, Term: term, From: "n1", Incarnation: 1, Seq: seq,
		Entries: []quota.ReportEntry{{Key: k, Epoch: 1, Overdrawn: quota.Token, Unreported: quota.Token}},
	}, nil)
	return ok
}

// TestLimitsChangeWhileLeading: limits that are committed while a ledger is
// being made reach it.
func TestLimitsChangeWhileLeading(t *testing.T) {
	n := loneNode()
	s := n.seats[0]
	s.fsm.levels.mu.Lock() // the ledger is made from the levels: it waits here
	led := make(chan struct{})
	go func() {
		s.lead(2)
		close(led)
	}()
	time.Sleep(50 * time.Millisecond)
	l := limit("a", 10, quota.Soft)
	setLimits(n, l)
	s.fsm.levels.mu.Unlock()
	<-led
	if !s.ask(2, 1, quota.Key{LimitName: l.LimitName, Key: "k"}) {
		t.Error("the ledger does not know the limit")
	}
}

// TestLimitsInForce: a node tells nobody that it has limits before it decides by them. Requests
// that are sent on the strength of it would find no limit, and pass.
func TestLimitsInForce(t *testing.T) {
	n := loneNode()
	l := limit("a", 10, quota.Hard)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	tells := func(want uint64) {
		t.Helper()
		if got := [...]uint64{n.Limits().Version, n.Status().LimitsVersion, n.beacon().LimitsVersion}; got != [...]uint64{want, want, want} {
			t.Errorf("it has version %d of the limits, tells %d, and %d to its peers; want %d", got[0], got[1], got[2], want)
		}
	}
	setLimits(n, l)
	if d := n.Check(k, 0); d.Why != quota.WhyNoLimit {
		t.Fatalf("before the member loop has run: %+v", d)
	}
	tells(0)
	n.work(<-n.inbox)
	if d := n.Check(k, 0); d.Why == quota.WhyNoLimit {
		t.Errorf("after the member loop has run: %+v", d)
	}
	tells(1)
}

// TestCheckpointWithoutGroup: the groups may be closed while a checkpoint is
// being made, and it is made again if the log did not take it.
func TestCheckpointWithoutGroup(t *testing.T) {
	n := loneNode()
	s := n.seats[0]
	l := limit("a", 10, quota.Soft)
	setLimits(n, l)
	s.lead(2)
	if !s.ask(2, 1, quota.Key{LimitName: l.LimitName, Key: "k"}) {
		t.Fatal("no answer")
	}
	for range 2 {
		s.checkpoint(t.Context(), true)
		if _, cp, _ := s.moved(true); cp == nil || len(cp.Levels) != 1 || cp.Levels[0].Key != "k" {
			t.Errorf("after a checkpoint that failed, the next is %v", cp)
		}
	}
	s.follow()
	s.lead(3)
	if _, cp, _ := s.moved(true); cp != nil {
		t.Errorf("a new ledger writes what an old one knew: %v", cp)
	}
}
