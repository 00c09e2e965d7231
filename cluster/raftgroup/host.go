package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/logs"
	"github.com/quorate/quorate/internal/quota"
)

// Host runs all groups of this node.
type Host struct {
	cfg     Config
	log     *slog.Logger
	limit   logs.RateLimit[string] // of log lines, by kind
	batcher *heartbeatBatcher

	ctx    context.Context // ends when the host closes; guarded by mu against spawn
	cancel context.CancelFunc
	wg     sync.WaitGroup // background work of the host itself, not of its groups

	// files is held shared while opening a group, and exclusively while deleting files: a group
	// opened in between would lose its files.
	files sync.RWMutex
	logs  *sharedlog.Log // of all groups

	mu      sync.RWMutex
	closing bool // no more groups may be opened
	groups  map[uint32]*Group
	parked  map[uint32][]parked
	gone    map[uint32]bool // closed groups: park nothing for them

	probing  sync.Mutex
	probed   time.Time // time of the last disk probe; its result follows
	probeErr error

	latency        diskLatency
	probingLatency atomic.Bool                           // a probe of a slow disk is running
	retired        atomic.Bool                           // see Retire
	lowSpace       atomic.Pointer[fault]                 // set while little space is left
	excluded       atomic.Pointer[map[quota.NodeID]bool] // see SetExcluded
}

// LogStats returns the work of the file that holds the logs of all groups.
func (h *Host) LogStats() sharedlog.Stats { return h.logs.Stats() }

// New returns a host without groups. Its Net need not be started yet.
func New(cfg Config) (*Host, error) {
	cfg.fill()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("raftgroup: %w", err)
	}
	h := &Host{
		cfg: cfg, log: cfg.Logger, groups: map[uint32]*Group{}, parked: map[uint32][]parked{},
		gone:    map[uint32]bool{},
		latency: diskLatency{limit: cfg.SlowDisk, seen: cfg.Appended}, batcher: &heartbeatBatcher{ask: cfg.Net.Ask, batches: map[quota.NodeID]*heartbeatBatch{}},
	}
	var err error
	if h.logs, err = openLog(cfg.Dir); err != nil {
		return nil, fmt.Errorf("raftgroup: %w", err)
	}
	if err := h.sweepAll(); err != nil {
		return nil, errors.Join(err, h.logs.Close())
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.spawn(h.balance)
	return h, nil
}

// spawn runs f in the background, unless the host is already closed; Kill waits for it.
func (h *Host) spawn(f func()) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.ctx.Err() == nil {
		h.wg.Go(f)
	}
}

// sleep waits for d. It returns false if the host closes first.
func (h *Host) sleep(d time.Duration) bool { return backoff.Sleep(h.ctx, d) == nil }

// Group returns an open group, or nil.
func (h *Host) Group(id uint32) *Group {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.groups[id]
}

// all returns the open groups, ordered by id.
func (h *Host) all() []*Group {
	h.mu.RLock()
	defer h.mu.RUnlock()
	list := make([]*Group, 0, len(h.groups))
	for _, id := range slices.Sorted(maps.Keys(h.groups)) {
		list = append(list, h.groups[id])
	}
	return list
}

// Retire transfers the leadership of every group led by this node to a ready replica, as far as
// the context allows. From then on this node does not lead: other nodes give it no leadership,
// and it gives away what it wins. It still votes and keeps its logs. Call it on a node that is
// about to stop; it cannot be undone. Retire is safe for concurrent use.
func (h *Host) Retire(ctx context.Context) {
	h.retired.Store(true)
	h.transferAll(ctx)
}

// Close transfers the leadership of every group led by this node to a ready replica, as far as
// the context allows, then stops everything and closes the files. The Net must still be open;
// Close leaves it open.
func (h *Host) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closing = true
	h.mu.Unlock()
	h.transferAll(ctx)
	return h.Kill()
}

// Kill stops everything without transferring leadership, like a crash, but leaves no goroutine
// and no open file behind.
func (h *Host) Kill() error {
	h.mu.Lock()
	h.closing = true
	h.cancel() // with the lock held: no background work starts after it
	h.mu.Unlock()
	h.wg.Wait()
	groups := h.all()
	errs := make([]error, len(groups))
	var wg sync.WaitGroup
	for i, g := range groups {
		wg.Go(func() { errs[i] = g.close() })
	}
	wg.Wait()
	h.mu.Lock()
	h.groups = map[uint32]*Group{}
	h.mu.Unlock()
	h.unparkAll()
	return errors.Join(append(errs, h.logs.Close())...)
}

// transferAll transfers all groups that this node leads, at most maxTransfers at a time.
func (h *Host) transferAll(ctx context.Context) {
	slots := make(chan struct{}, maxTransfers)
	var wg sync.WaitGroup
	for _, g := range h.all() {
		if ctx.Err() != nil {
			break
		}
		if !g.leads() || len(g.voters()) < 2 {
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			g.transferAway(ctx)
			<-slots
		})
	}
	wg.Wait()
}

// transferAway transfers leadership to the first replica that accepts it.
func (g *Group) transferAway(ctx context.Context) {
	for _, id := range g.successors(g.host.cfg.Self) {
		if ctx.Err() != nil {
			continue
		}
		err := g.TransferTo(ctx, id)
		if err == nil || !g.leads() {
			return
		}
		g.log.Debug("leadership not transferred", "to", id, "err", err)
	}
}
