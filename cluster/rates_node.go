package cluster

import (
	"context"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/rates"
	"github.com/quorate/quorate/internal/quota"
)

// MaxTop bounds the keys of one answer of TopRates.
const MaxTop = rates.MaxTop

func (n *Node) newRates() *rates.Reader {
	return rates.New(rates.Config{Self: n.cfg.Self, Ranges: n.cfg.Ranges, Replicas: n.ranges}, ratesNode{n})
}

// ratesNode adapts Node to rates.Node.
type ratesNode struct{ *Node }

// Committed implements rates.Node.
func (n ratesNode) Committed() *quota.Limits { return n.meta.Current() }

func (n ratesNode) Members() []quota.NodeID { return n.members.View().IDs }

func (n ratesNode) Up() []quota.NodeID { return n.routes.upNodes() }

func (n ratesNode) Leader(r quota.RangeID) quota.NodeID { return n.routes.leader(r) }

func (n ratesNode) Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	return n.call(ctx, to, c)
}
