package raftgroup

import (
	"sync"
	"time"
)

// Bounds of the logs. A log's file is mapped into memory and does not shrink, so what
// it once held counts as resident for good.
const (
	logBudget    = 64 << 20  // bytes of entries that wait for a snapshot, of all groups of a host together
	minLogShare  = 512 << 10 // of a group, however many there are
	statePerLog  = 2         // a group's log may be that many times as large as its state: a snapshot writes all of it
	minTrailing  = 128       // entries behind a snapshot: a follower that lacks more is sent the snapshot
	trailingLogs = 1024      // at most
)

// logShare is how many bytes of entries a group may have before a snapshot is due.
func (h *Host) logShare() int64 {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return max(minLogShare, logBudget/int64(max(len(h.groups), 1)))
}

// trailing is how many entries stay behind a snapshot: half of the group's share, by
// what an entry had on average since the last.
func trailing(share, bytes, entries int64) uint64 {
	mean := max(bytes/max(entries, 1), 1)
	return uint64(min(max(share/2/mean, minTrailing), trailingLogs))
}

// snapshotIfLarge bounds the log by bytes, and by entries sooner than raft
// itself, which looks once in a minute or two.
func (g *Group) snapshotIfLarge(wg *sync.WaitGroup) {
	bytes, entries, share := g.fsm.bytes.Load(), g.fsm.entries.Load(), g.host.logShare()
	again := g.unsaved.Load() != nil && time.Since(g.retried) > saveAgain
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

// keepBehind sets how many entries stay behind the next snapshot.
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
