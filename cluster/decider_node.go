package cluster

import (
	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/cluster/dataplane"
	"github.com/quorate/quorate/cluster/journal"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
)

func (n *Node) newDecider(v *membership.View) *dataplane.Decider {
	ac := aggregator.Config{
		Self: n.cfg.Self, Incarnation: n.inc, Nodes: len(v.IDs), Ranges: n.cfg.Ranges, Sync: n.cfg.Sync, MaxKeys: n.cfg.MaxKeys, Idle: n.cfg.Idle,
		Overrides: n.meta,
	}
	inherited := n.openJournal(&ac)
	journal.Register(n.journal, n.cfg.Registry)
	return dataplane.New(&dataplane.Config{
		Self: n.cfg.Self, Ranges: n.cfg.Ranges, Sync: n.sync(), GrantWait: n.cfg.GrantWait, AskWait: n.cfg.AskWait, Now: n.clock.Now,
		Aggregator: ac, Inherited: inherited, Limits: n.meta.Current(), Replicas: n.ranges,
		Tracer: n.cfg.Tracer, Log: n.log, Registry: n.cfg.Registry,
	}, deciderNode{part{n}})
}

// deciderNode adapts Node to dataplane.Node.
type deciderNode struct{ part }

// Worked implements dataplane.Node.
func (n deciderNode) Worked() { n.clients.Collected() }

func (n deciderNode) Tick(now quota.Time) { n.Recorder.Tick(now) }
