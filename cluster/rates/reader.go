// Package rates reads what the leaders of all ranges know about keys: the busiest keys, or one by name.
package rates

import (
	"context"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the interface of the node that a Reader runs on. Its methods must be safe for concurrent use.
type Node interface {
	// Committed returns the newest limits that the meta group has committed.
	Committed() *quota.Limits
	// Members returns the nodes of the cluster; Up returns those that are connected.
	Members() []quota.NodeID
	Up() []quota.NodeID
	// Leader returns the leader of a range as far as this node knows; "" if unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
}

// Config configures a Reader.
type Config struct {
	Self     quota.NodeID
	Ranges   int
	Replicas *replica.Set // of this node
}

// Reader queries the leaders. All methods are safe for concurrent use.
type Reader struct {
	cfg  Config
	node Node
}

// New returns a Reader.
func New(cfg Config, node Node) *Reader { return &Reader{cfg, node} }
