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

// Node is the part of its node that Service uses, whether it takes a backup or contributes to one. Methods
// must be safe for concurrent use.
type Node interface {
	// Host returns the Raft groups of this node.
	Host() *raftgroup.Host
	// Leader returns the last known leader of a group; "" if unknown.
	Leader(group uint32) quota.NodeID
	// Level returns the feature level of the cluster.
	Level() uint32
	// Checkpoint writes the counts of a range that this node leads to the range's log.
	Checkpoint(ctx context.Context, r quota.RangeID)
	// Snapshot takes a view of a group's state, and returns a function that writes it.
	Snapshot(group uint32) (func(io.Writer) error, error)
	// Call calls another node; its answer may wait for a disk.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
}

// Config configures a Service.
type Config struct {
	Cluster  string
	Self     quota.NodeID
	Version  string // of the software
	Ranges   int
	Accounts *accounts.Service
	Log      *slog.Logger
}

// Service takes backups, and keeps copies of the groups led here for backups that it or other nodes
// take. All methods are safe for concurrent use.
type Service struct {
	cfg    Config
	node   Node
	taking sync.Mutex // held while Take runs
	kept   keptStates
	slow   atomic.Pointer[func(group uint32)]
}

// New returns a service. Call Close to release it.
func New(cfg Config, node Node) *Service { return &Service{cfg: cfg, node: node} }

// Close drops the kept states.
func (s *Service) Close() { s.kept.close() }

// SlowDown makes the service call f before it copies a group. It is for tests.
func (s *Service) SlowDown(f func(group uint32)) { s.slow.Store(&f) }

// AddCalls adds the handlers of the calls of a node that takes a backup.
func (s *Service) AddCalls(t peercall.Table) {
	peercall.Handle(t, peercall.Limit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallBackup) (*peerv1.CallBackupResult, error) {
		return s.carryOut(ctx, c), nil
	})
	peercall.Handle(t, peercall.Limit, func(_ context.Context, _ quota.NodeID, c *peerv1.CallBackupRead) (*peerv1.CallBackupReadResult, error) {
		return s.next(c), nil
	})
}
