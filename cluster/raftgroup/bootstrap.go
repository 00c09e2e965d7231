package raftgroup

import (
	"slices"
	"time"
)

const (
	// lateAfter is how long the voters listed before a node must be away before the node creates a
	// fresh group in their place. It checks every pollState.
	lateAfter = 5 * time.Second
	pollState = 200 * time.Millisecond
)

// bootstrapLate bootstraps a fresh group whose preferred leader is absent, so that a starting
// cluster does not wait for a late machine. It writes the same entry as the preferred leader
// would, so both may bootstrap, and the first election decides. No candidate wins whose log is
// shorter than the logs of a majority.
func (g *Group) bootstrapLate() {
	since := time.Now()
	for !g.hasState() {
		if !g.host.sleep(pollState) || g.closed.Load() {
			return
		}
		if !g.isFounder() {
			since = time.Now()
		}
		if time.Since(since) < lateAfter {
			continue
		}
		g.log.Warn("the group has no state, and the nodes that should create it do not answer: creating it", "voters", g.opts.Voters)
		if i := g.cur.Load(); i != nil {
			g.replace(i, g.bootstrapOnce)
		}
		if i := g.cur.Load(); i != nil && g.hasState() {
			g.campaignFirst(i)
			return
		}
		since = time.Now()
	}
}

// bootstrapOnce bootstraps the group unless a leader has sent it an entry by now. No instance
// may run.
func (g *Group) bootstrapOnce() error {
	if g.hasState() {
		return nil
	}
	return g.bootstrap()
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
