// Package gather collects what every node reports about itself: its events, and the entries of its
// audit log. Every node answers the others, and asks all others for its own callers. An answer names
// the nodes that it lacks.
package gather

import (
	"context"
	"sync"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/quota"
)

// Node is the interface of the node that a Service runs on. Its methods must be safe for concurrent
// use.
type Node interface {
	// Members returns the nodes of the cluster.
	Members() []quota.NodeID
	// Call calls another node.
	Call(ctx context.Context, to quota.NodeID, c *peerv1.Call) (*peerv1.Call, error)
	// Watch watches the events of this node; see events.Hub.
	Watch(f quota.EventFilter, buffer int) (events <-chan quota.Event, lost func() uint64, stop func())
}

// Config configures a Service.
type Config struct {
	Self quota.NodeID
	// AuditPath is the path of this node's audit log; empty for none.
	AuditPath string
}

// Service collects and answers. All methods are safe for concurrent use.
type Service struct {
	cfg  Config
	node Node

	ctx  context.Context // ends with Close
	end  context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	watches map[watchID]*served
	room    int // buffered events of all watches
}

// New returns a Service.
func New(cfg Config, node Node) *Service {
	s := &Service{cfg: cfg, node: node, watches: map[watchID]*served{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// AddCalls registers the calls that the service answers.
func (s *Service) AddCalls(t peercall.Table) {
	peercall.Handle(t, pollTime+peercall.Limit, s.answerEvents)
	peercall.Handle(t, auditTime, s.answerAudit)
}

// Close ends all watches.
func (s *Service) Close() {
	s.end()
	s.done.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.watches {
		s.drop(id)
	}
}
