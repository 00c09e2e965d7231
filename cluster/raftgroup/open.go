package raftgroup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// keepSnapshots is how many snapshots a group keeps on disk.
const keepSnapshots = 2

// Open opens the group's files and starts its replica. The preferred leader bootstraps a group
// that has no state.
func (h *Host) Open(o GroupOptions) (*Group, error) {
	name := GroupName(o.ID)
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("raftgroup: group %s: %w", name, err)
	}
	o.fill(h.cfg.Timing)
	g := &Group{host: h, opts: o, name: name, fsm: &fsm{machine: o.FSM}, log: h.log.With("group", name)}
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
		return nil, fmt.Errorf("raftgroup: group %s: %w", name, err)
	}
	g.mu.Lock() // a disk failure during start is handled after this
	err := g.start(false)
	g.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("raftgroup: group %s: %w", name, err)
	}
	return g, h.adopt(g)
}

// adopt registers the group and passes it the messages that were parked for it.
func (h *Host) adopt(g *Group) error {
	h.mu.Lock()
	ok := !h.closing && h.groups[g.opts.ID] == nil
	if ok {
		h.groups[g.opts.ID] = g
		delete(h.gone, g.opts.ID)
	}
	h.mu.Unlock()
	if !ok {
		return errors.Join(ErrClosed, g.close())
	}
	h.unpark(g)
	if *g.preferred.Load() == h.cfg.Self {
		h.spawn(func() { g.campaignFirst(g.cur.Load()) })
	} else if !g.opts.Join && slices.Contains(g.opts.Voters, h.cfg.Self) && !g.hasState() {
		h.spawn(g.bootstrapLate)
	}
	return nil
}

// openFiles opens the group's part of the log and its snapshots, and bootstraps an empty group.
func (g *Group) openFiles() (err error) {
	if slices.Contains(g.host.logs.Dropped(), g.opts.ID) { // and the deletion failed
		if err := g.host.sweep(g.opts.ID); err != nil {
			return fmt.Errorf("complete the deletion: %w", err)
		}
	}
	snapDir := snapshotDir(g.host.cfg.Dir, g.opts.ID)
	snaps, err := newPrivateSnapshots(snapDir, g.raftLogger())
	if err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	if g.snaps, err = newSnapshots(snaps, snapDir, g); err != nil {
		return fmt.Errorf("open snapshots: %w", err)
	}
	if g.store, err = g.host.logs.Group(g.opts.ID); err != nil {
		return err
	}
	if g.store.Term() == 0 && g.snaps.any() {
		return damaged(logPath(g.host.cfg.Dir), errors.New("it has no data of the group, but the group has snapshots"))
	}
	if g.opts.Join || g.opts.Voters[0] != g.host.cfg.Self || g.hasState() {
		return nil
	}
	return g.bootstrap()
}

// hasState reports whether the group has entries or a snapshot here.
func (g *Group) hasState() bool {
	last, _ := g.store.LastIndex() // which never fails
	return last != 0 || g.snaps.any()
}

// bootstrap writes the first configuration, which every voter would write alike. At the start, only
// the preferred leader does, so it wins the first election unopposed; the other replicas learn the
// entry from it. A replica may have a term without any entry: it has voted in an election that
// nobody survived. It keeps that term, and the entry is the same.
func (g *Group) bootstrap() error {
	err := g.store.Found(max(g.store.Term(), 1), &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(g.bootstrapConfig())})
	if err != nil {
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
