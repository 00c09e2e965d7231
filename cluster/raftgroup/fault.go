package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// Pauses between attempts to restart a replica.
const (
	restartAfter   = time.Second
	restartMax     = 30 * time.Second // upper bound after repeated failures
	recoveredAfter = time.Minute      // a replica in service for this long has recovered
)

// DefaultMinFree is the free space, in bytes, below which a node stops leading.
const DefaultMinFree = 32 << 20

// fault is an error and the time since which it has persisted.
type fault struct {
	err   error
	since time.Time
}

// Fault is a condition that keeps a node or one of its groups from working properly.
type Fault struct {
	Group string // name of the group; "" for the whole node
	Err   error
	Since time.Time
	Out   bool // the group's replica on this node is out of service; it recovers by itself
}

// Health returns the current faults: those of the node first, then those of its groups, by id. An
// empty result means healthy. Health is cheap and safe for concurrent use.
func (h *Host) Health() []Fault {
	var out []Fault
	if t := h.lowSpace.Load(); t != nil {
		out = append(out, Fault{Err: t.err, Since: t.since})
	}
	if t := h.latency.fault(); t != nil {
		out = append(out, Fault{Err: t.err, Since: t.since})
	}
	for _, g := range h.all() {
		if t := g.fault.Load(); t != nil {
			out = append(out, Fault{Group: g.name, Err: t.err, Since: t.since, Out: true})
		}
		if t := g.unsaved.Load(); t != nil {
			out = append(out, Fault{Group: g.name, Err: t.err, Since: t.since})
		}
		if i := g.cur.Load(); i != nil {
			if d := i.disk.stalled(); d > g.stallLimit() {
				out = append(out, Fault{Group: g.name, Err: fmt.Errorf("a write has not ended for %v", d.Round(time.Second)), Since: time.Now().Add(-d)})
			}
		}
	}
	return out
}

func (g *Group) stallLimit() time.Duration { return stallAfter * g.host.cfg.Timing.Election }

// fail ends an instance after one of its writes failed. It is called on raft's own goroutine.
func (g *Group) fail(i *instance, err error) {
	r := i.started.Load()
	led := r != nil && r.State() == raft.Leader
	g.fault.CompareAndSwap(nil, &fault{err, time.Now()})
	g.host.spawn(func() { g.suspend(i, led, err) })
}

// suspend ends a failed instance, makes another replica take over if this one led, and restarts
// the replica when the disk accepts writes again.
func (g *Group) suspend(i *instance, led bool, cause error) {
	if repeated, ok := g.host.limit.Allow("disk fault", time.Now(), 1, repeatEvery); ok {
		g.log.Error("disk writes fail; this replica is out of service until they succeed", "err", cause, "repeated", repeated)
	}
	if led {
		g.stepDown(i)
	}
	g.mu.Lock()
	mine := !g.closed.Load() && g.cur.CompareAndSwap(i, nil)
	if mine {
		i.stop()
		if t := i.disk.torn.Load(); t > 0 {
			g.torn = t
		}
	}
	g.mu.Unlock()
	if mine {
		g.restart()
	}
}

// stepDown asks the replica with the longest log to hold an election immediately: the others
// would wait for their timers. Raft itself transfers leadership only while it leads, and it has
// already stepped down.
func (g *Group) stepDown(i *instance) {
	ask := g.host.cfg.ReplicaProgress
	if ask == nil {
		return
	}
	t := g.host.cfg.Timing
	ctx, cancel := context.WithTimeout(g.host.ctx, t.Heartbeat/2)
	defer cancel()
	var successor quota.NodeID
	var most uint64
	for _, id := range g.successors(g.host.cfg.Self) {
		if index, _, err := ask(ctx, id, g.opts.ID); err == nil && index > most {
			successor, most = id, index
		}
	}
	if successor == "" {
		return
	}
	tr := newTransport(g.host.cfg.Net, g.host.batcher, g.host.cfg.Self, g.opts.ID, t)
	defer tr.cancel()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(g.host.cfg.Self), Addr: []byte(g.host.cfg.Self)}
	err := tr.TimeoutNow(raft.ServerID(successor), raft.ServerAddress(successor), &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
	i.group.log.Info("gave up leadership", "to", successor, "err", err)
}

// restart restarts a replica once the disk accepts writes. The pause doubles after each restart
// that fails again soon, up to restartMax.
func (g *Group) restart() {
	if g.sinceRestart() > recoveredAfter {
		g.pause = restartAfter
	} else {
		g.pause = min(2*g.pause, restartMax)
	}
	for g.host.sleep(g.pause) && !g.tryRestart() {
	}
}

// sinceRestart returns the time since the last restart; very long if the replica never restarted.
func (g *Group) sinceRestart() time.Duration { return time.Since(time.Unix(0, g.restarted.Load())) }

// tryRestart makes one attempt. It returns true when no further attempt is needed.
func (g *Group) tryRestart() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() || g.cur.Load() != nil {
		return true
	}
	err := g.host.checkWritable()
	if err == nil {
		err = g.reopen()
	}
	if err == nil {
		err = g.start(true)
	}
	old := g.fault.Load()
	if err != nil {
		if old == nil || old.err.Error() != err.Error() {
			g.log.Warn("this replica is still out of service", "err", err)
		}
		since := time.Now()
		if old != nil {
			since = old.since
		}
		g.fault.Store(&fault{err, since})
		return false
	}
	g.restarted.Store(time.Now().UnixNano())
	g.fault.Store(nil)
	if old != nil {
		g.log.Info("this replica is in service again", "after", time.Since(old.since).Round(time.Millisecond))
	}
	return true
}

// reopen reopens the node's log if it has failed; the first group that comes does it for all. It
// truncates what a failed append may have left in the group: that append was never acknowledged.
func (g *Group) reopen() error {
	if err := g.host.reopenLog(); err != nil {
		return err
	}
	g.snaps.sweep()
	if g.torn == 0 {
		return nil
	}
	last, err := g.store.LastIndex()
	if err == nil && last >= g.torn {
		err = g.store.DeleteRange(g.torn, last)
	}
	if err == nil {
		g.torn = 0
	}
	return err
}

// reopenLog takes the log into service again if a write has failed.
func (h *Host) reopenLog() error {
	err := h.logs.Reopen()
	if errors.Is(err, ErrDamaged) {
		return damaged(logPath(h.cfg.Dir), err)
	}
	return err
}

// checkWritable checks that the disk has room and accepts a write.
func (h *Host) checkWritable() error {
	if err := h.checkSpace(); err != nil {
		return err
	}
	h.probing.Lock()
	defer h.probing.Unlock()
	if time.Since(h.probed) > restartAfter/2 { // shared: many groups ask at once
		h.probeErr, h.probed = probe(filepath.Join(h.cfg.Dir, "raft")), time.Now()
	}
	return h.probeErr
}

// probe durably writes a small file and deletes it.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, "probe")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// checkSpace returns an error if less than MinFree is free. It returns nil where the system cannot
// report free space.
func (h *Host) checkSpace() error {
	if h.cfg.MinFree < 0 {
		return nil
	}
	free, err := freeSpace(h.cfg.Dir)
	if err != nil || free >= uint64(h.cfg.MinFree) {
		return nil // failing to query free space is not a disk fault
	}
	return fmt.Errorf("disk of %s: %d MiB free, at least %d needed; free some", h.cfg.Dir, free>>20, h.cfg.MinFree>>20)
}

// watchSpace checks the free space; the balancer calls it periodically. When space runs low, this
// node transfers its groups while the disk still accepts the writes needed for that, and accepts
// no leadership. It continues as a follower.
func (h *Host) watchSpace() {
	err, old := h.checkSpace(), h.lowSpace.Load()
	switch {
	case err != nil && old == nil:
		h.log.Error("low disk space; this node leads no range until space is free", "err", err)
		h.lowSpace.Store(&fault{err, time.Now()})
	case err != nil:
		h.lowSpace.Store(&fault{err, old.since})
	case old != nil:
		h.log.Info("disk space is available again", "after", time.Since(old.since).Round(time.Second))
		h.lowSpace.Store(nil)
	}
}

// mustNotLead reports that this node must give up the groups it leads: it is excluded or declines
// leadership.
func (h *Host) mustNotLead() bool { return h.isExcluded(h.cfg.Self) || h.declines() }

// declines reports that this node should not be given leadership: it is about to stop, its disk
// is nearly full or slow, or it is unfit.
func (h *Host) declines() bool {
	return h.retired.Load() || h.lowSpace.Load() != nil || h.latency.fault() != nil || h.cfg.Unfit()
}

// watchLatency probes a slow disk that has had no recent writes.
func (h *Host) watchLatency() {
	if !h.latency.idle(time.Now()) || !h.probingLatency.CompareAndSwap(false, true) {
		return
	}
	h.spawn(func() {
		defer h.probingLatency.Store(false)
		began := time.Now()
		if probe(filepath.Join(h.cfg.Dir, "raft")) == nil {
			h.latency.note(time.Now(), time.Since(began))
		}
	})
}
