package backup

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
)

// Node is what backups need of the node that makes them, or is asked for its part of one. All methods
// are called concurrently.
type Node interface {
	// Host returns the Raft groups of this node.
	Host() *raftgroup.Host
	// Leader returns who leads a group as far as is known; "" is unknown.
	Leader(group uint32) quota.NodeID
	// Level returns the feature level of the cluster.
	Level() uint32
	// Checkpoint writes what the leader of a range here has counted to its log.
	Checkpoint(ctx context.Context, r quota.RangeID)
	// Snapshot returns a view of a group's state, and writes it when it is called.
	Snapshot(group uint32) (func(io.Writer) error, error)
	// Call calls another node, whose answer waits for a disk.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
}

// Config says whose backups are made.
type Config struct {
	Cluster  string
	Self     quota.NodeID
	Version  string // of the software
	Ranges   int
	Accounts *accounts.Service
	Log      *slog.Logger
}

// Service makes backups, and keeps copies of the groups led here for those of other nodes. All
// methods are safe for concurrent use.
type Service struct {
	cfg    Config
	node   Node
	taking sync.Mutex // held while one is made
	keeps  keeps
	slow   atomic.Pointer[func(group uint32)]
}

// New returns a service. Close it.
func New(cfg Config, node Node) *Service { return &Service{cfg: cfg, node: node} }

// Close drops what is kept.
func (s *Service) Close() { s.keeps.close() }

// SlowDown is for tests: f is called before the copy of a group is taken.
func (s *Service) SlowDown(f func(group uint32)) { s.slow.Store(&f) }

// AddCalls adds the steps of a backup that another node makes.
func (s *Service) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallBackup) (*peerv1.CallBackupResult, error) {
		return s.carryOut(ctx, c), nil
	})
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallBackupRead) (*peerv1.CallBackupReadResult, error) {
		return s.next(c), nil
	})
}
