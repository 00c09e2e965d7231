package raftgroup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Bounds of one instance.
const (
	queueLen         = 64 // peer requests that wait for raft
	notifyLen        = 16 // leadership changes that wait for the group
	snapshotEntries  = 2048
	snapshotInterval = time.Minute
	maxAppendEntries = 64
)

// instance is one run of raft in a group. The watchdog may end it and start another on the same
// files and state machine.
type instance struct {
	group  *Group
	raft   *raft.Raft
	disk   *disk
	trans  *raftTransport
	queue  chan request
	notify chan bool
	seen   chan raft.Observation
	ended  chan struct{} // closed when raft has stopped
	wg     sync.WaitGroup

	reloading sync.Mutex            // held while reloading raft's configuration
	base      raft.ReloadableConfig // the configuration outside forced elections

	started atomic.Pointer[raft.Raft] // raft, for code that may run before the raft field is set
	waiting atomic.Int64              // futures that raft has not completed yet
}

func (g *Group) raftLogger() *logger { return newLogger(g.log, &g.host.limit) }

// raftConfig returns the configuration of every instance of the group.
func (g *Group) raftConfig(notify chan<- bool) *raft.Config {
	c, t := raft.DefaultConfig(), g.host.cfg.Timing
	c.LocalID = raft.ServerID(g.host.cfg.Self)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = t.Heartbeat, t.Election, t.Lease
	c.CommitTimeout = g.opts.Commit
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = false
	c.ShutdownOnRemove = false // the host decides which replicas run
	c.TrailingLogs, c.SnapshotThreshold, c.SnapshotInterval = trailingLogs, snapshotEntries, snapshotInterval
	c.NotifyCh = notify
	c.Logger = g.raftLogger()
	c.NoLegacyTelemetry = true
	return c
}

// start starts an instance. again means that the state machine already holds what it has applied:
// raft then restores no snapshot and skips the entries the machine holds. The caller holds mu.
func (g *Group) start(again bool) error {
	i := &instance{
		group: g, trans: newTransport(g.host.cfg.Net, g.host.batcher, g.host.cfg.Self, g.opts.ID, g.host.cfg.Timing),
		queue: make(chan request, queueLen), notify: make(chan bool, notifyLen),
		seen: make(chan raft.Observation, notifyLen), ended: make(chan struct{}),
	}
	i.trans.readIndex, i.trans.idle = &g.readIndex, g.opts.Commit
	i.disk = g.newDisk(i)
	i.trans.stalled = func() bool { return i.disk.stalled() > g.stallLimit() }
	r, err := g.newRaft(i, again)
	if err != nil {
		i.trans.cancel()
		return err
	}
	i.raft, i.base = r, r.ReloadableConfig()
	i.started.Store(r)
	wanted := func(id raft.ServerID, term uint64) bool {
		return r.State() == raft.Leader && r.CurrentTerm() == term &&
			slices.ContainsFunc(servers(r), func(s raft.Server) bool { return s.ID == id })
	}
	i.trans.wanted.Store(&wanted)
	leads := func() { r.VerifyLeader() }
	i.trans.leads.Store(&leads)
	r.RegisterObserver(raft.NewObserver(i.seen, false, func(o *raft.Observation) bool {
		_, ok := o.Data.(raft.LeaderObservation)
		return ok
	}))
	i.wg.Go(i.pump)
	i.wg.Go(i.watchLeadership)
	g.cur.Store(i)
	return nil
}

func (g *Group) newDisk(i *instance) *disk {
	d := &disk{
		logs: wrapLogStore(g.host.cfg.Self, g.store), stable: wrapStableStore(g.host.cfg.Self, g.store),
		trans: i.trans, fsm: g.fsm, latency: &g.host.latency, onFail: func(err error) { g.fail(i, err) },
	}
	g.fsm.halted.Store(false)
	return d
}

// newRaft starts raft. It converts raft's panics about unusable files to errors.
func (g *Group) newRaft(i *instance, again bool) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.snaps.blame(damaged(logPath(g.host.cfg.Dir), fmt.Errorf("raft cannot start from it: %v", p)))
		}
	}()
	c := g.raftConfig(i.notify)
	if again {
		// A snapshot that was installed but not restored before its instance ended is newer than
		// the state.
		list, err := g.snaps.List()
		if err != nil {
			return nil, err
		}
		have := g.fsm.index.Load()
		c.NoSnapshotRestoreOnStart = len(list) == 0 || list[0].Index <= have
		g.fsm.skipTo, g.fsm.seen = have, 0
	}
	r, err = raft.NewRaft(c, g.fsm, i.disk, i.disk, g.snaps, i.trans)
	if err != nil {
		return nil, g.snaps.blame(fmt.Errorf("start raft: %w", err))
	}
	if err = g.startable(i, again); err != nil {
		_ = i.trans.Close()
		_ = r.Shutdown().Error()
		return nil, err
	}
	return r, nil
}

// startable returns why an instance that has just started must not continue, or nil.
func (g *Group) startable(i *instance, again bool) error {
	if i.disk.failed.Load() {
		err := errFailed
		if t := g.fault.Load(); t != nil {
			err = t.err
		}
		return fmt.Errorf("start raft: %w", err)
	}
	if again {
		return nil
	}
	last, err := g.store.LastIndex()
	if err != nil {
		return err
	}
	return g.snaps.checkRestored(g.fsm.restored.Load(), last)
}

// stop ends the instance and waits for all of its goroutines. It fails calls in flight first, so
// raft does not wait for peers and a leader cannot commit any more.
func (i *instance) stop() {
	_ = i.trans.Close()
	i.drain()
	_ = i.raft.Shutdown().Error()
	close(i.ended)
	i.wg.Wait()
}

// drain waits for the proposals in flight to complete. A leader that is cut off from its
// followers fails them within its lease. Without drain, raft would shut down without answering
// the proposals that it is just applying.
func (i *instance) drain() {
	end := time.Now().Add(i.group.host.cfg.Timing.Lease + 200*time.Millisecond)
	for i.group.inflight.Load()+i.waiting.Load() > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
}

// wait waits for a raft future, the context or the end of the instance.
func (i *instance) wait(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	i.waiting.Add(1)
	go func() {
		done <- f.Error()
		i.waiting.Add(-1)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	case <-i.ended:
		return fmt.Errorf("%w: %w", ErrUncertain, ErrClosed)
	}
}
