package cluster

import (
	"github.com/quorate/quorate/cluster/rates"
	"github.com/quorate/quorate/internal/quota"
)

func (n *Node) newRates() *rates.Reader {
	return rates.New(rates.Config{Self: n.cfg.Self, Ranges: n.cfg.Ranges, Replicas: n.ranges}, ratesNode{part{n}})
}

// ratesNode adapts Node to rates.Node.
type ratesNode struct{ part }

// Up implements rates.Node.
func (n ratesNode) Up() []quota.NodeID { return n.routes.upNodes() }
