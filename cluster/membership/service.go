package membership

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/tracing"
	"github.com/quorate/quorate/shard"
)

// Node is the part of its node that Service uses. Methods must be safe for concurrent use.
type Node interface {
	// Now returns the cluster's time.
	Now() quota.Time
	// Net returns the connections to the other nodes; Host returns the Raft groups of this one.
	Net() *transport.Net
	Host() *raftgroup.Host

	// MetaLeader and Leader return the last known leader of the meta group and of a range; "" if unknown.
	MetaLeader() quota.NodeID
	Leader(r quota.RangeID) quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Silences returns how long each disconnected node has been disconnected.
	Silences() map[quota.NodeID]time.Duration
	// Newest reports whether a table of that revision is at least as new as the meta leader's.
	Newest(revision uint64) bool

	// Call calls another node. CallSlow does too; it is for answers that wait for a disk.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	CallSlow(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)

	// Table returns the membership in the meta group.
	Table() *Table
	// Commit proposes a change to the meta group. If the change itself is refused, the error is an
	// *Error or ErrStale.
	Commit(ctx context.Context, c *raftlogv1.ChangeMembers) (*Table, error)

	// OpenMeta opens the meta group, and OpenRange the group of a range. With found they create a
	// group that does not exist.
	OpenMeta(v *View, found bool) error
	OpenRange(v *View, r quota.RangeID, found bool) error
	// Dropped clears the state of a range whose replica was deleted.
	Dropped(r quota.RangeID)
	// Arrange distributes the list of members to the components of this node.
	Arrange(v *View) error
	// Announce triggers a beacon to the other nodes.
	Announce()
}

// Config describes a node and its cluster. cluster.Config documents the fields.
type Config struct {
	Cluster      string
	Self         quota.NodeID
	Nodes        map[quota.NodeID]string
	Dir          string
	Ranges       int
	Replicas     int
	Sync         time.Duration
	Join         bool
	JoinID       string
	Zone         string
	GRPC, HTTP   string
	Version      string
	Certificates Certificates
	Authority    *pki.Pair
	TLS          *transport.TLS
	DeadAfter    time.Duration // below 0 is never
	Incarnation  quota.Incarnation
	First        quota.Incarnation // identity of the data; equals Incarnation for new data
	Tracer       *tracing.Tracer
	Log          *slog.Logger
}

// Service keeps a node in line with the membership. On the leader of the meta group it also keeps the
// membership in line with the wishes of operators and the state of nodes. All methods are safe for
// concurrent use.
type Service struct {
	cfg  Config
	node Node
	log  *slog.Logger

	view   atomic.Pointer[View]
	stored bool // the data directory has a membership from an earlier start

	reconcile chan struct{} // wakes the reconciler
	opening   sync.Mutex    // held while missing groups are opened
	left      sync.Once
	out       chan struct{}          // closed when the node is out of the cluster
	refused   atomic.Pointer[string] // why the other nodes refuse this one; nil if they do not

	changes    map[string]change // by method
	rebalancer *rebalancer

	ctx    context.Context // ends with the service
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// NewService returns a service with a first view; see FirstView. Call Open, then Start.
func NewService(cfg Config, v *View, stored bool, node Node) *Service {
	s := &Service{cfg: cfg, node: node, log: cfg.Log, stored: stored, reconcile: make(chan struct{}, 1), out: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.rebalancer = &rebalancer{
		service: s, slots: make(chan struct{}, maxMoves), doing: map[uint32]shard.Step{}, busy: map[uint32]bool{},
		done: map[uint32]asWanted{}, tried: map[uint32]time.Time{}, freed: make(chan struct{}, 1),
	}
	s.addChanges()
	s.view.Store(v)
	return s
}

// now returns the cluster's time, by which tokens and certificates live: this node's wall clock may be wrong.
func (s *Service) now() time.Time { return time.Unix(0, int64(s.node.Now())) }

// Open opens the groups that this node starts with. If the node must first ask the others
// whether they know it from before, Open leaves the groups to the reconciler.
func (s *Service) Open() error {
	v := s.View()
	if s.mustAskOthers(v) {
		return nil
	}
	if err := s.node.OpenMeta(v, s.mayCreateGroups(v)); err != nil {
		return err
	}
	if err := s.OpenMissing(v); err != nil {
		return err
	}
	s.setPreferred(v)
	return nil
}

// Start runs the reconciler, the rebalancer and the watch for this node's removal until Close.
func (s *Service) Start() {
	if s.stored {
		s.wakeReconciler() // an earlier process may have left a surplus
	}
	s.done.Go(s.reconcileAll)
	s.done.Go(s.rebalance)
	s.done.Go(s.watchRemoval)
}

// Close stops the goroutines of Start, if any, and waits for them.
func (s *Service) Close() {
	s.cancel()
	s.done.Wait()
}

// Refused returns why the other nodes refuse this one; "" if they do not.
func (s *Service) Refused() string {
	if why := s.refused.Load(); why != nil {
		return *why
	}
	return ""
}

// AddCalls adds the handlers of calls about members and the groups that they hold.
func (s *Service) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallReplica) (*peerv1.CallReplicaResult, error) {
		return s.replica(c.GetGroup()), nil
	})
	peercall.Handle(t, changeLimit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallCluster) (*peerv1.CallClusterResult, error) {
		return s.onCluster(ctx, c), nil
	})
	peercall.Handle(t, peercall.Limit, s.announced)
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallGroup) (*peerv1.CallGroupResult, error) {
		return s.groupState(ctx, c.GetGroup()), nil
	})
	peercall.Handle(t, stepLimit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallStep) (*peerv1.CallStepResult, error) {
		return &peerv1.CallStepResult{}, s.carryOut(ctx, c.GetGroup(), shard.Action(c.GetAction()), quota.NodeID(c.GetNode()))
	})
	peercall.Handle(t, peercall.Limit, func(context.Context, quota.NodeID, *peerv1.CallGone) (*peerv1.CallGoneResult, error) {
		s.leave("other nodes have taken over its replicas: it has left") // the answer is sent before the node stops
		return &peerv1.CallGoneResult{}, nil
	})
}
