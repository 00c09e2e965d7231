package control

import (
	"context"
	"log/slog"
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the part of its node that a Store uses. Its methods must be safe for concurrent use.
type Node interface {
	// MetaGroup returns this node's replica of the meta group, or nil if it is not open.
	MetaGroup() Group
	// MetaLeader returns the leader of the meta group as far as this node knows, or "" if unknown.
	MetaLeader() quota.NodeID
	// Call sends a request to another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Behind returns the connected nodes for whose progress late returns true.
	Behind(late func(Progress) bool) []quota.NodeID
	// AwaitMembership returns nil once the cluster has a membership; what names the waiting change.
	AwaitMembership(ctx context.Context, what string) error
	// Limits returns the limits that this node enforces: the machine's, with a short delay.
	Limits() *quota.Limits
	// Now returns the cluster's time.
	Now() quota.Time
	// Earliest returns that time or, while the nodes do not agree on it, that of the earliest clock of
	// the connected nodes.
	Earliest() quota.Time
}

// Group is a replica of the meta group; *raftgroup.Group implements it.
type Group interface {
	Apply(ctx context.Context, data []byte) (any, error)
	ConfirmLeadership(ctx context.Context) error
	Leader() (id quota.NodeID, term uint64, serving bool)
}

// Progress is the number of changes that a node has applied to each part of the meta group's state.
type Progress struct{ Limits, Policies, Security uint64 }

// Store changes and reads the state of the meta group through any node. All methods are safe for
// concurrent use.
type Store struct {
	self    quota.NodeID
	node    Node
	machine *Machine
	log     *slog.Logger

	catchUps  catchUps
	committed chan struct{} // holds a token after a commit; see spreadCommits

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   sync.WaitGroup // waits for the goroutines of Start
}

// NewStore returns a Store for the node's replica of the machine. The caller must Start and Close
// it.
func NewStore(self quota.NodeID, node Node, machine *Machine, log *slog.Logger) *Store {
	ctx, cancel := context.WithCancel(context.Background())
	return &Store{
		self: self, node: node, machine: machine, log: log, ctx: ctx, cancel: cancel,
		catchUps: catchUps{waiting: make(chan *catchUp, 1)}, committed: make(chan struct{}, 1),
	}
}

// Start starts the background work: the deletion of expired overrides, the questions to the meta
// leader about policies, and the spreading of commits.
func (s *Store) Start() {
	s.done.Go(s.purger)
	s.done.Go(s.runCatchUps)
	s.done.Go(s.spreadCommits)
}

// Close ends the background work and every wait for it. Start need not have been called.
func (s *Store) Close() {
	s.cancel()
	s.done.Wait()
}

// AddCalls registers the calls by which other nodes change the meta group's state or ask for its
// progress.
func (s *Store) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallSetLimits) (*peerv1.CallSetLimitsResult, error) {
		res, err := s.ApplyMeta(ctx, c.Command)
		return encodeLimitsResult(res), err
	})
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallOverrides) (*peerv1.CallOverridesResult, error) {
		res, err := s.ApplyMeta(ctx, c.Command)
		return encodeOverridesResult(res), err
	})
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallPolicies) (*peerv1.CallPoliciesResult, error) {
		res, err := s.ApplyMeta(ctx, c.Command)
		if err != nil {
			return nil, err
		}
		return encodePoliciesResult(policiesResultOf(res)), nil
	})
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, _ *peerv1.CallPoliciesRevision) (*peerv1.CallPoliciesRevisionResult, error) {
		revision, err := s.policiesCommitted(ctx)
		return &peerv1.CallPoliciesRevisionResult{Revision: revision}, err
	})
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallSecurity) (*peerv1.CallSecurityResult, error) {
		res, err := s.ApplyMeta(ctx, c.Command)
		return encodeSecurityResult(res), err
	})
}
