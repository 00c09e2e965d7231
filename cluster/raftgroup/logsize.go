package raftgroup

import (
	"sync"
	"time"
)

// Bounds of the logs. A log's file is mapped into memory and does not shrink, so its largest size
// counts as resident for good.
const (
	logBudget    = 64 << 20  // bytes of entries not yet in a snapshot, across all groups of a host
	minLogShare  = 512 << 10 // minimum share of a group, however many groups there are
	statePerLog  = 2         // a group's log may be this many times the size of its state, because a snapshot writes the whole state
	minTrailing  = 128       // minimum entries kept behind a snapshot; a follower that lacks more gets the snapshot
	trailingLogs = 1024      // maximum entries kept behind a snapshot
)

// logShare returns how many bytes of entries a group may accumulate before a snapshot is due.
func (h *Host) logShare() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(minLogShare, logBudget/int64(max(len(h.groups), 1)))
}

// trailing returns how many entries to keep behind a snapshot: half of the group's share, divided
// by the mean size of the entries since the last snapshot.
func trailing(share, bytes, entries int64) uint64 {
	mean := max(bytes/max(entries, 1), 1)
	return uint64(min(max(share/2/mean, minTrailing), trailingLogs))
}

// snapshotIfLarge takes a snapshot if the log exceeds its limit in bytes or entries, or if the
// last snapshot failed. Raft itself checks only the entries, and only once every minute or two.
func (g *Group) snapshotIfLarge(wg *sync.WaitGroup) {
	bytes, entries, share := g.fsm.bytes.Load(), g.fsm.entries.Load(), g.host.logShare()
	again := g.unsaved.Load() != nil && time.Since(g.retried) > saveRetry
	if bytes < max(share, statePerLog*g.saved.Load()) && entries < 2*snapshotEntries && !again {
		return
	}
	g.retried = time.Now()
	if i := g.cur.Load(); i != nil && entries > 0 {
		i.keepBehind(trailing(share, bytes, entries))
	}
	g.fsm.bytes.Store(0)
	g.fsm.entries.Store(0)
	wg.Go(func() {
		if err := g.Snapshot(g.host.ctx); err != nil {
			g.log.Warn("snapshot failed", "err", err)
			return
		}
		g.unsaved.Store(nil)
	})
}

// keepBehind sets how many entries to keep behind the next snapshot.
func (i *instance) keepBehind(entries uint64) {
	i.reloading.Lock()
	defer i.reloading.Unlock()
	i.base.TrailingLogs = entries
	c := i.raft.ReloadableConfig()
	c.TrailingLogs = entries
	if err := i.raft.ReloadConfig(c); err != nil {
		i.group.log.Error("cannot bound the log", "err", err)
	}
}
