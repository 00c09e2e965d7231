package raftgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// keepSnapshots is how many snapshots a group keeps on disk.
const keepSnapshots = 2

// Open opens the group's files and starts its replica. The preferred leader bootstraps a group
// that has no state.
func (h *Host) Open(o GroupOptions) (*Group, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("raftgroup: %w", err)
	}
	o.fill(h.cfg.Timing)
	g := &Group{host: h, opts: o, fsm: &fsm{machine: o.FSM}, log: h.log.With("group", o.Name)}
	if o.Join {
		g.SetPreferred("")
	} else {
		g.SetPreferred(o.Voters[0])
	}
	h.files.RLock()
	defer h.files.RUnlock()
	h.mu.RLock()
	closing, twice := h.closing, h.groups[o.ID] != nil
	h.mu.RUnlock()
	switch {
	case closing:
		return nil, ErrClosed
	case twice:
		return nil, fmt.Errorf("raftgroup: group %d is open already", o.ID)
	}
	if err := g.openFiles(); err != nil {
		return nil, fmt.Errorf("raftgroup: group %s: %w", o.Name, err)
	}
	g.mu.Lock() // a disk failure during start is handled after this
	err := g.start(false)
	g.mu.Unlock()
	if err != nil {
		_ = g.store.Close()
		return nil, fmt.Errorf("raftgroup: group %s: %w", o.Name, err)
	}
	return g, h.adopt(g)
}

// adopt registers the group and passes it the messages that were parked for it.
func (h *Host) adopt(g *Group) error {
	h.mu.Lock()
	ok := !h.closing && h.groups[g.opts.ID] == nil
	if ok {
		h.groups[g.opts.ID], h.names[g.opts.ID] = g, g.opts.Name
		delete(h.gone, g.opts.ID)
	}
	h.mu.Unlock()
	if !ok {
		return errors.Join(ErrClosed, g.close())
	}
	h.unpark(g)
	if *g.preferred.Load() == h.cfg.Self {
		h.spawn(func() { g.campaignFirst(g.cur.Load()) })
	} else if i := g.cur.Load(); i != nil && !g.opts.Join && slices.Contains(g.opts.Voters, h.cfg.Self) && i.raft.LastIndex() == 0 {
		h.spawn(func() { g.bootstrapLate(i) })
	}
	return nil
}

// openFiles opens the log and the snapshots, and bootstraps an empty group.
func (g *Group) openFiles() error {
	path, snapDir := logFile(g.host.cfg.Dir, g.opts.Name), snapshotDir(g.host.cfg.Dir, g.opts.Name)
	for _, d := range []string{filepath.Dir(path), snapDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	snaps, err := newPrivateSnapshots(snapDir, g.raftLogger())
	if err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	if g.snaps, err = newSnapshots(snaps, snapDir, g); err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	if g.store, err = openStore(path, !g.snaps.any()); err != nil {
		return err
	}
	if err := g.bootstrap(); err != nil {
		_ = g.store.Close()
		return err
	}
	return nil
}

// bootstrap writes the first configuration, on the preferred leader only. The other replicas
// learn it from that leader, so it wins the first election unopposed.
func (g *Group) bootstrap() error {
	if g.opts.Join || g.opts.Voters[0] != g.host.cfg.Self {
		return nil
	}
	has, err := raft.HasExistingState(g.store, g.store, g.snaps)
	if err != nil || has {
		return err
	}
	t := newTransport(g.host.cfg.Net, g.host.batcher, g.host.cfg.Self, g.opts.ID, g.host.cfg.Timing)
	defer t.cancel()
	if err := raft.BootstrapCluster(g.raftConfig(nil), g.store, g.store, g.snaps, t, g.bootstrapConfig()); err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// bootstrapConfig returns the initial configuration of a fresh group, the same on every node.
func (g *Group) bootstrapConfig() (c raft.Configuration) {
	add := func(ids []quota.NodeID, s raft.ServerSuffrage) {
		for _, id := range ids {
			c.Servers = append(c.Servers, raft.Server{Suffrage: s, ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
		}
	}
	add(g.opts.Voters, raft.Voter)
	add(g.opts.Nonvoters, raft.Nonvoter)
	return c
}
