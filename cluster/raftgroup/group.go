package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/cluster/raftgroup/sharedlog"
	"github.com/quorate/quorate/internal/quota"
)

// Group is this node's replica of one group.
type Group struct {
	host  *Host
	opts  GroupOptions
	name  string // GroupName
	log   *slog.Logger
	fsm   *fsm
	store *sharedlog.Group
	snaps *snapshots

	mu     sync.Mutex // held while replacing the instance
	closed atomic.Bool
	cur    atomic.Pointer[instance]

	fault     atomic.Pointer[fault] // set while this replica is out of service
	unsaved   atomic.Pointer[fault] // set if the last snapshot could not be written
	saved     atomic.Int64          // size of the newest snapshot in bytes
	torn      uint64                // index of a failed append; guarded by mu
	restarted atomic.Int64          // last return to service in Unix nanoseconds; 0 if never
	pause     time.Duration         // pause before the next restart attempt; used by restart only
	retried   time.Time             // last snapshot retry; used by the balancer only

	preferred atomic.Pointer[quota.NodeID] // never nil
	changing  atomic.Bool                  // a membership change is in progress

	serving   atomic.Uint64 // term whose barrier this replica has applied; 0 when not leading
	inflight  atomic.Int64  // Apply calls that wait for raft
	readIndex readIndex
	watch     watchdog
	transfers transfers
}

// Tests replace these to put a faulty store in front of the real one.
var (
	wrapLogStore    = func(_ quota.NodeID, s raft.LogStore) raft.LogStore { return s }
	wrapStableStore = func(_ quota.NodeID, s raft.StableStore) raft.StableStore { return s }
)

// Apply proposes data and waits until this replica has applied it. It returns the state machine's
// result. The errors document which of them leave the outcome open.
func (g *Group) Apply(ctx context.Context, data []byte) (any, error) {
	a, err := g.apply(ctx, data)
	return a.result, err
}

func (g *Group) apply(ctx context.Context, data []byte) (applied, error) {
	if len(data) > MaxEntry {
		return applied{}, fmt.Errorf("%w: %d bytes; at most %d", ErrTooLarge, len(data), MaxEntry)
	}
	g.inflight.Add(1) // before reading closed: close waits for the proposals that it does not stop
	defer g.inflight.Add(-1)
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return applied{}, g.whyUnavailable()
	}
	if err := ctx.Err(); err != nil {
		return applied{}, fmt.Errorf("%w: %w", ErrOverloaded, err)
	}
	f := i.raft.Apply(data, g.enqueueLimit(ctx))
	err := i.wait(ctx, f)
	g.watch.note(g, i, err)
	if err != nil {
		return applied{}, publicError(err)
	}
	a, ok := f.Response().(applied)
	if !ok {
		return applied{}, fmt.Errorf("%w: raft answered %T", ErrUncertain, f.Response())
	}
	return a, nil
}

// whyUnavailable returns why there is no instance: the group is closed, or this replica is out of service
// for now and others lead.
func (g *Group) whyUnavailable() error {
	if g.closed.Load() {
		return ErrClosed
	}
	return fmt.Errorf("%w: group %s is out of service here", ErrNotLeader, g.name)
}

// enqueueLimit returns how long raft may keep an entry waiting to enter the log.
func (g *Group) enqueueLimit(ctx context.Context) time.Duration {
	limit := g.host.cfg.Timing.rpcTimeout()
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(end), time.Millisecond))
	}
	return limit
}

// publicError converts raft's error to one of this package's errors for the proposer.
func publicError(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return ErrNotLeader
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return ErrTransferring
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrOverloaded
	case errors.Is(err, ErrUncertain):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUncertain, err) // leadership lost, shut down, log not written
}

// Leader returns the leader known to this replica ("" if unknown), the term, and whether this
// replica leads and has applied its barrier in that term.
func (g *Group) Leader() (id quota.NodeID, term uint64, serving bool) {
	i := g.cur.Load()
	if i == nil {
		return "", 0, false
	}
	_, leader := i.raft.LeaderWithID()
	term = i.raft.CurrentTerm()
	serving = term != 0 && g.serving.Load() == term && i.raft.State() == raft.Leader
	return quota.NodeID(leader), term, serving
}

// leads reports whether raft considers this replica the leader.
func (g *Group) leads() bool {
	i := g.cur.Load()
	return i != nil && i.raft.State() == raft.Leader
}

// Progress returns the last index in this replica's log and the time since it heard from the
// leader. That time is 0 on the leader itself. It is an hour if the replica never heard from a
// leader, or should get neither leadership nor a vote because the node is about to stop or unfit,
// or its disk is full, slow, or failed less than a minute ago.
func (g *Group) Progress() (lastIndex uint64, lastContact time.Duration) {
	i := g.cur.Load()
	if i == nil {
		return 0, time.Hour
	}
	if i.raft.State() == raft.Leader {
		return i.raft.LastIndex(), 0
	}
	last := i.raft.LastContact()
	if last.IsZero() || g.host.declines() || g.sinceRestart() < recoveredAfter {
		return i.raft.LastIndex(), time.Hour
	}
	return i.raft.LastIndex(), time.Since(last)
}

// Applied returns the index of the newest entry that the state machine has applied, or 0 if it
// has applied none since the process started.
func (g *Group) Applied() uint64 { return g.fsm.index.Load() }

// close stops the replica.
func (g *Group) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Swap(true) {
		return nil
	}
	if i := g.cur.Load(); i != nil {
		i.stop()
		g.cur.Store(nil)
	}
	return nil
}
