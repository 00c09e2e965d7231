// Package rates reads what the leaders of all ranges know of keys: the busiest, and one by its name.
package rates

import (
	"context"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
)

// Node is what a Reader needs of the node that it is on. All methods are called concurrently.
type Node interface {
	// Committed returns the newest limits that the meta group has committed.
	Committed() *quota.Limits
	// Members returns the nodes of the cluster; Up those that are connected.
	Members() []quota.NodeID
	Up() []quota.NodeID
	// Leader returns the leader of a range as far as this node knows it; "" is unknown.
	Leader(r quota.RangeID) quota.NodeID
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
}

// Config is what a Reader needs to know.
type Config struct {
	Self     quota.NodeID
	Ranges   int
	Replicas *replica.Set // of this node
}

// Reader asks the leaders. All methods are safe for concurrent use.
type Reader struct {
	cfg  Config
	node Node
}

// New returns a Reader.
func New(cfg Config, node Node) *Reader { return &Reader{cfg, node} }
