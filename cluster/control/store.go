package control

import (
	"context"
	"log/slog"
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Node is what the store needs of the node it runs on. All methods are called concurrently.
type Node interface {
	// MetaGroup returns this node's replica of the meta group, nil if it is not open.
	MetaGroup() Group
	// MetaLeader returns the leader of the meta group as far as this node knows it; "" is unknown.
	MetaLeader() quota.NodeID
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Behind returns the connected nodes whose progress is late.
	Behind(late func(Progress) bool) []quota.NodeID
	// AwaitMembership returns nil once the cluster has a membership; what names the change that waits.
	AwaitMembership(ctx context.Context, what string) error
	// Limits returns the limits that this node decides by: those of the machine, a moment later.
	Limits() *quota.Limits
	// Now returns the cluster's time.
	Now() quota.Time
}

// Group is a replica of the meta group; *raftgroup.Group is one.
type Group interface {
	Apply(ctx context.Context, data []byte) (any, error)
	Confirm(ctx context.Context) error
	Leader() (id quota.NodeID, term uint64, serving bool)
}

// Progress is how far a node has applied each part of the meta group's state.
type Progress struct{ Limits, Policies, Security uint64 }

// Store changes and reads the state of the meta group, through any node. All methods are safe for
// concurrent use.
type Store struct {
	self    quota.NodeID
	node    Node
	machine *Machine
	log     *slog.Logger

	catchUps catchUps
	stop     chan struct{}
	done     sync.WaitGroup // of the purger
}

// NewStore returns a store on the node's replica of the machine. Start and Close it.
func NewStore(self quota.NodeID, node Node, machine *Machine, log *slog.Logger) *Store {
	return &Store{self: self, node: node, machine: machine, log: log, stop: make(chan struct{})}
}

// Start begins to delete expired overrides.
func (s *Store) Start() { s.done.Go(s.purger) }

// Close ends what Start began, if it was called, and every wait.
func (s *Store) Close() {
	close(s.stop)
	s.done.Wait()
}

// Handle answers a call of another node that changes the meta group's state. It returns nil for
// calls about anything else.
func (s *Store) Handle(ctx context.Context, c *peerv1.Call) (*peerv1.Call, error) {
	switch b := c.Body.(type) {
	case *peerv1.Call_SetLimits:
		res, err := s.ApplyMeta(ctx, b.SetLimits.Command)
		if err != nil {
			return nil, err
		}
		return &peerv1.Call{Body: &peerv1.Call_SetLimitsResult{SetLimitsResult: encodeLimitsResult(res)}}, nil
	case *peerv1.Call_Overrides:
		res, err := s.ApplyMeta(ctx, b.Overrides.Command)
		if err != nil {
			return nil, err
		}
		return &peerv1.Call{Body: &peerv1.Call_OverridesResult{OverridesResult: encodeOverridesResult(res)}}, nil
	case *peerv1.Call_Policies:
		res, err := s.ApplyMeta(ctx, b.Policies.Command)
		if err != nil {
			return nil, err
		}
		return &peerv1.Call{Body: &peerv1.Call_PoliciesResult{PoliciesResult: encodePoliciesResult(s.policiesResult(res))}}, nil
	case *peerv1.Call_Security:
		res, err := s.ApplyMeta(ctx, b.Security.Command)
		if err != nil {
			return nil, err
		}
		return &peerv1.Call{Body: &peerv1.Call_SecurityResult{SecurityResult: encodeSecurityResult(res)}}, nil
	}
	return nil, nil
}
