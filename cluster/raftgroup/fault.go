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
	restartMax     = 30 * time.Second // when it fails again and again
	recoveredAfter = time.Minute      // in service for so long, it has recovered
)

// DefaultMinFree is the free space under which a node stops leading, in bytes.
const DefaultMinFree = 32 << 20

// fault is what is wrong, and since when.
type fault struct {
	err   error
	since time.Time
}

// Fault is something that keeps a node or one of its groups from working as
// it should.
type Fault struct {
	Group string // name of the group; "" concerns the whole node
	Err   error
	Since time.Time
	Out   bool // the group's replica here is out of service; it comes back by itself
}

// Health returns all that is wrong here now: first the node's own faults, then
// that of its groups, by id. Empty is healthy. It is cheap, and safe to call at
// any time.
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
			out = append(out, Fault{Group: g.opts.Name, Err: t.err, Since: t.since, Out: true})
		}
		if t := g.unsaved.Load(); t != nil {
			out = append(out, Fault{Group: g.opts.Name, Err: t.err, Since: t.since})
		}
		if i := g.cur.Load(); i != nil {
			if d := i.disk.stalled(); d > g.stallLimit() {
				out = append(out, Fault{Group: g.opts.Name, Err: fmt.Errorf("a write has not ended for %v", d.Round(time.Second)), Since: time.Now().Add(-d)})
			}
		}
	}
	return out
}

func (g *Group) stallLimit() time.Duration { return stallAfter * g.host.cfg.Timing.Election }

// fail ends an instance when one of its writes has failed. It is called on raft's own
// goroutine.
func (g *Group) fail(i *instance, err error) {
	r := i.started.Load()
	led := r != nil && r.State() == raft.Leader
	g.fault.CompareAndSwap(nil, &fault{err, time.Now()})
	g.host.spawn(func() { g.suspend(i, led, err) })
}

// suspend ends an instance that has failed, has another replica lead if this one did,
// and restarts the replica when the disk takes writes again.
func (g *Group) suspend(i *instance, led bool, cause error) {
	if pass, held := g.host.limit.pass("disk fault", time.Now()); pass {
		g.log.Error("the disk does not take writes; this replica is out of service until it does", "err", cause, "repeated", held)
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

// stepDown asks the replica with the longest log to hold an election at once: the
// others would wait for their timers. Raft itself can transfer leadership only
// while it leads, and has stepped down already.
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
	i.group.log.Info("gave leadership up", "to", successor, "err", err)
}

// restart starts a replica again as soon as the disk takes writes. Each time that
// it fails soon after, it waits twice as long.
func (g *Group) restart() {
	if g.sinceRestart() > recoveredAfter {
		g.pause = restartAfter
	} else {
		g.pause = min(2*g.pause, restartMax)
	}
	for g.host.sleep(g.pause) && !g.tryRestart() {
	}
}

// sinceRestart is how long ago the replica was restarted; very long if never.
func (g *Group) sinceRestart() time.Duration { return time.Since(time.Unix(0, g.restarted.Load())) }

// tryRestart is one attempt; true when there is no more to do.
func (g *Group) tryRestart() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() || g.cur.Load() != nil {
		return true
	}
	err := g.host.writable()
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

// reopen opens the log anew: a file that has seen a failed write is not trusted
// as it is in memory. What the failed append may have left is cut off. Nobody
// was told that it was stored, and it may not be, even if it can be read.
func (g *Group) reopen() error {
	_ = g.store.Close()
	s, err := openStore(logFile(g.host.cfg.Dir, g.opts.Name), false)
	if err != nil {
		return err
	}
	g.store = s
	g.snaps.sweep()
	if g.torn == 0 {
		return nil
	}
	last, err := s.LastIndex()
	if err == nil && last >= g.torn {
		err = s.DeleteRange(g.torn, last)
	}
	if err == nil {
		g.torn = 0
	}
	return err
}

// writable tries whether the disk has room and takes a write.
func (h *Host) writable() error {
	if err := h.space(); err != nil {
		return err
	}
	h.probing.Lock()
	defer h.probing.Unlock()
	if time.Since(h.probed) > restartAfter/2 { // many groups ask
		h.probeErr, h.probed = probe(filepath.Join(h.cfg.Dir, "raft")), time.Now()
	}
	return h.probeErr
}

// probe writes a small file durably, and deletes it.
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

// space says that less than MinFree is free. On systems where it cannot be
// asked there is always enough.
func (h *Host) space() error {
	if h.cfg.MinFree < 0 {
		return nil
	}
	free, err := freeSpace(h.cfg.Dir)
	if err != nil || free >= uint64(h.cfg.MinFree) {
		return nil // an error of the question is none of the disk
	}
	return fmt.Errorf("disk of %s: %d MiB free, at least %d needed; free some", h.cfg.Dir, free>>20, h.cfg.MinFree>>20)
}

// watchSpace is called every now and then. With little space left this node
// gives up what it leads while the disk still takes the writes that it needs
// for that, and is given nothing to lead; it goes on as a follower.
func (h *Host) watchSpace() {
	err, old := h.space(), h.lowSpace.Load()
	switch {
	case err != nil && old == nil:
		h.log.Error("little space left; this node leads nothing until there is more", "err", err)
		h.lowSpace.Store(&fault{err, time.Now()})
	case err != nil:
		h.lowSpace.Store(&fault{err, old.since})
	case old != nil:
		h.log.Info("there is space again", "after", time.Since(old.since).Round(time.Second))
		h.lowSpace.Store(nil)
	}
}

// mustNotLead says that this node has to give up what it leads: it is excluded, or takes no
// leadership.
func (h *Host) mustNotLead() bool { return h.isExcluded(h.cfg.Self) || h.declines() }

// declines says that this node should be given no leadership: it is about to stop, its disk is
// nearly full or slow, or it is unfit.
func (h *Host) declines() bool {
	return h.retired.Load() || h.lowSpace.Load() != nil || h.latency.fault() != nil || h.cfg.Unfit()
}

// watchLatency tries a slow disk to which nothing is written any more.
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
