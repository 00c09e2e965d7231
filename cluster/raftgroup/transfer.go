package raftgroup

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// Guards of transfers; the package comment explains why they are needed.
const (
	maxLag       = 64 // maximum entries that the target may lack
	maxTransfers = 4  // concurrent transfers per node
	moveEvery    = time.Minute
	restAfter    = 5 * time.Minute // the balancer's rest after a failed transfer
)

// transfers tracks the group's leadership transfers.
type transfers struct {
	mu     sync.Mutex
	busy   bool
	last   time.Time // start of the last transfer
	failed time.Time // last failure of a transfer that had begun
}

// begin reserves the group's only transfer slot. A failed transfer may still hang inside raft
// until its calls time out; a second one during that time would wedge raft.
func (m *transfers) begin(rest time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy {
		return fmt.Errorf("%w: another transfer is under way", ErrNotReady)
	}
	if !m.failed.IsZero() && time.Since(m.failed) < rest {
		return fmt.Errorf("%w: the last transfer failed %v ago and may still hang", ErrNotReady, time.Since(m.failed).Round(time.Millisecond))
	}
	m.busy, m.last = true, time.Now()
	return nil
}

func (m *transfers) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy = false
	if err != nil {
		m.failed = time.Now()
	}
}

// due reports whether the balancer may move the group.
func (m *transfers) due(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.busy && now.Sub(m.last) >= moveEvery && (m.failed.IsZero() || now.Sub(m.failed) >= restAfter)
}

// TransferTo transfers leadership to another voter. It returns ErrNotReady, and does nothing,
// unless that voter is connected, caught up and hears this leader: raft itself would try, and may
// never recover from it. During the transfer, a few milliseconds, Apply fails with
// ErrTransferring.
func (g *Group) TransferTo(ctx context.Context, id quota.NodeID) error {
	i := g.cur.Load()
	if i == nil {
		return g.whyUnavailable()
	}
	if i.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	if err := g.ready(ctx, i, id); err != nil {
		return err
	}
	if err := g.transfers.begin(g.host.cfg.Timing.rpcTimeout() + g.host.cfg.Timing.Election); err != nil {
		return err
	}
	err := i.wait(ctx, i.raft.LeadershipTransferToServer(raft.ServerID(id), raft.ServerAddress(id)))
	g.transfers.end(err)
	if err != nil {
		return fmt.Errorf("transfer of group %s to %s: %w", g.name, id, err)
	}
	return nil
}

// ready checks that a replica can take over immediately.
func (g *Group) ready(ctx context.Context, i *instance, id quota.NodeID) error {
	cfg := &g.host.cfg
	if id == cfg.Self || !g.isVoter(id) {
		return fmt.Errorf("%w: %s is not another voter of group %s", ErrNotReady, id, g.name)
	}
	return g.upToDate(ctx, i, id, maxLag, cfg.Timing.Heartbeat/2)
}

// upToDate asks a replica for its progress. It returns ErrNotReady unless the replica lacks at
// most lag entries and has heard from this leader within fresh.
func (g *Group) upToDate(ctx context.Context, i *instance, id quota.NodeID, lag uint64, fresh time.Duration) error {
	cfg := &g.host.cfg
	switch {
	case !cfg.Net.Connected(id):
		return fmt.Errorf("%w: %s is not connected", ErrNotReady, id)
	case cfg.ReplicaProgress == nil:
		return fmt.Errorf("%w: cannot ask %s for its progress", ErrNotReady, id)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timing.Heartbeat/2)
	defer cancel()
	index, contact, err := cfg.ReplicaProgress(ctx, id, g.opts.ID)
	if err != nil {
		return fmt.Errorf("%w: asking %s: %w", ErrNotReady, id, err)
	}
	if last := i.raft.LastIndex(); index+lag < last {
		return fmt.Errorf("%w: %s is at entry %d of %d", ErrNotReady, id, index, last)
	}
	if contact >= fresh {
		return fmt.Errorf("%w: %s has not heard this leader for %v", ErrNotReady, id, contact)
	}
	return nil
}
