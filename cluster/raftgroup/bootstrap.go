package raftgroup

import (
	"slices"
	"time"
)

const (
	// lateAfter is how long the voters listed before a node must be away before the node founds a
	// fresh group in their place.
	lateAfter = 5 * time.Second
	pollFound = 200 * time.Millisecond
)

// bootstrapLate bootstraps a fresh group whose preferred leader is absent, so that a starting
// cluster does not wait for a late machine. It writes the same entry as the preferred leader
// would, so both may bootstrap, and the first election decides. No candidate wins whose log is
// shorter than the logs of a majority.
func (g *Group) bootstrapLate(i *instance) {
	since := time.Now()
	for i.raft.LastIndex() == 0 {
		if !g.host.sleep(pollFound) || g.cur.Load() != i {
			return
		}
		if !g.isFounder() {
			since = time.Now()
		}
		if time.Since(since) < lateAfter {
			continue
		}
		g.log.Warn("the group has no state, and those who should found it do not answer: founding it", "voters", g.opts.Voters)
		if err := i.raft.BootstrapCluster(g.bootstrapConfig()).Error(); err != nil {
			g.log.Warn("cannot found the group", "err", err)
			return
		}
		g.campaignFirst(i)
	}
}

// isFounder reports whether this node is the first connected voter in order and a majority of the
// voters is connected.
func (g *Group) isFounder() bool {
	me, there := slices.Index(g.opts.Voters, g.host.cfg.Self), 1
	for at, id := range g.opts.Voters {
		if at != me && g.host.cfg.Net.Connected(id) {
			if at < me {
				return false
			}
			there++
		}
	}
	return there > len(g.opts.Voters)/2
}
