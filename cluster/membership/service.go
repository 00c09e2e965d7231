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

// Node is what the membership needs of the node it runs on. All methods are called concurrently.
type Node interface {
	// Now returns the cluster's time.
	Now() quota.Time
	// Net returns the connections to the other nodes, Host the Raft groups of this one.
	Net() *transport.Net
	Host() *raftgroup.Host

	// MetaLeader and Leader return who leads the meta group and a range as far as is known; "" is unknown.
	MetaLeader() quota.NodeID
	Leader(r quota.RangeID) quota.NodeID
	// Up reports whether a node is connected.
	Up(id quota.NodeID) bool
	// Silences returns for how long each node that is not connected has not been.
	Silences() map[quota.NodeID]time.Duration
	// Newest reports whether a table of that revision is as new as the meta leader's.
	Newest(revision uint64) bool

	// Call calls another node. CallSlow does too, where the answer waits for a disk.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	CallSlow(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)

	// Table returns the membership that the meta group has.
	Table() *Table
	// Commit has the meta group change it. The error of the change itself is an *Error, or ErrStale.
	Commit(ctx context.Context, c *raftlogv1.ChangeMembers) (*Table, error)

	// OpenMeta opens the meta group, OpenRange the group of a range; found makes one that is not there.
	OpenMeta(v *View, found bool) error
	OpenRange(v *View, r quota.RangeID, found bool) error
	// Dropped forgets what there is of a range whose replica was deleted.
	Dropped(r quota.RangeID)
	// Arrange tells everybody on this node who is in the cluster.
	Arrange(v *View) error
	// Announce tells the other nodes soon what this one knows.
	Announce()
}

// Config is what a node is told about itself and its cluster. The fields are those of cluster.Config.
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
	First        quota.Incarnation // of the data; Incarnation when they are new
	Tracer       *tracing.Tracer
	Log          *slog.Logger
}

// Service keeps a node what the membership says of it, and the membership, where the meta group is
// led here, what operators want and nodes can give. All methods are safe for concurrent use.
type Service struct {
	cfg  Config
	node Node
	log  *slog.Logger

	view   atomic.Pointer[View]
	stored bool // the node has been here before

	reconcile chan struct{} // the view is to be carried out
	opening   sync.Mutex    // held while missing groups are opened
	left      sync.Once
	out       chan struct{}          // closed when the node is out of the cluster
	barred    atomic.Pointer[string] // why this node takes no part, if it may not

	changes    map[string]change // by method
	rebalancer *rebalancer

	stop chan struct{}
	done sync.WaitGroup
}

// NewService returns a service that begins with a view; see FirstView. Open and Start it.
func NewService(cfg Config, v *View, stored bool, node Node) *Service {
	s := &Service{
		cfg: cfg, node: node, log: cfg.Log, stored: stored,
		reconcile: make(chan struct{}, 1), out: make(chan struct{}), stop: make(chan struct{}),
	}
	s.rebalancer = newRebalancer(s)
	s.addChanges()
	s.view.Store(v)
	return s
}

// Open opens the groups that this node starts with. One that does not know whether the cluster
// knows it from before leaves that to the reconciler.
func (s *Service) Open() error {
	v := s.View()
	if s.unsure(v) {
		return nil
	}
	if err := s.node.OpenMeta(v, s.founds(v)); err != nil {
		return err
	}
	if err := s.OpenMissing(v); err != nil {
		return err
	}
	s.setPreferred(v)
	return nil
}

// Start runs the reconciler and the rebalancer until Close.
func (s *Service) Start() {
	s.done.Go(s.reconcileAll)
	s.done.Go(s.rebalance)
	s.done.Go(s.watchRemoval)
}

// Close ends what Start began, if it was called.
func (s *Service) Close() {
	close(s.stop)
	s.done.Wait()
}

// Barred returns why this node may take no part in the cluster; "" if it may.
func (s *Service) Barred() string {
	if why := s.barred.Load(); why != nil {
		return *why
	}
	return ""
}

// AddCalls adds the calls of other nodes about members and the groups that they hold.
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
		s.leave("its replicas are with others: it has left") // to stop takes longer than the answer
		return &peerv1.CallGoneResult{}, nil
	})
}
