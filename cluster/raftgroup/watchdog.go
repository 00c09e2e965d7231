package raftgroup

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// watchdog detects a raft instance in which a transfer never ends: it leads and refuses every
// proposal forever (hashicorp/raft#696). Only a new instance helps.
type watchdog struct {
	mu    sync.Mutex
	since time.Time // time of the first refusal in an unbroken series
}

// note records the outcome of a proposal. If refusals last longer than two election timeouts, it
// replaces the instance.
func (w *watchdog) note(g *Group, i *instance, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !errors.Is(err, raft.ErrLeadershipTransferInProgress) || i.raft.State() != raft.Leader {
		w.since = time.Time{}
		return
	}
	now := time.Now()
	if w.since.IsZero() {
		w.since = now
		return
	}
	if now.Sub(w.since) > 2*g.host.cfg.Timing.Election {
		w.since = time.Time{}
		g.log.Error("a transfer of leadership does not end; restarting this replica")
		g.host.spawn(func() { g.replace(i, func() error { return nil }) })
	}
}

// replace replaces an instance with a new one on the same files and state. In between, it runs f.
func (g *Group) replace(old *instance, f func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() || g.cur.Load() != old {
		return
	}
	g.cur.Store(nil)
	old.stop()
	err := f()
	if err == nil {
		err = g.start(true)
	}
	if err != nil {
		g.log.Error("cannot restart; this replica is out of service", "err", err)
		g.fault.Store(&fault{err, time.Now()})
		g.host.spawn(g.restart)
	}
}
