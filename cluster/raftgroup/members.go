package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// Guards of membership changes.
const (
	voteLag    = 128             // maximum entries that a replica may lack to get a vote
	changeWait = 2 * time.Second // maximum wait for raft to accept a change
)

// Member is one replica of a group.
type Member struct {
	ID    quota.NodeID
	Voter bool
}

// Members returns the members of the group in the order of its configuration, the latest known to
// this replica, which may not be committed yet. It is empty on a replica that no leader has
// reached.
func (g *Group) Members() []Member {
	i := g.cur.Load()
	if i == nil {
		return nil
	}
	var out []Member
	for _, s := range servers(i.raft) {
		out = append(out, Member{quota.NodeID(s.ID), s.Suffrage == raft.Voter})
	}
	return out
}

// servers returns raft's latest configuration. The caller must not modify it.
func servers(r *raft.Raft) []raft.Server { return r.GetConfiguration().Configuration().Servers }

// voters returns the voters known to this replica.
func (g *Group) voters() []quota.NodeID {
	var out []quota.NodeID
	for _, m := range g.Members() {
		if m.Voter {
			out = append(out, m.ID)
		}
	}
	return out
}

// isVoter reports whether a node votes in the group.
func (g *Group) isVoter(id quota.NodeID) bool { return slices.Contains(g.voters(), id) }

// SetPreferred sets the node to which the balancer gives the leadership of this group. "" means
// no preference: the current leader stays. Initially it is the first of GroupOptions.Voters, or
// "" with Join. It is not stored.
func (g *Group) SetPreferred(id quota.NodeID) { g.preferred.Store(&id) }

// SetExcluded sets the nodes that should not lead, such as nodes being drained. This node gives
// them leadership only if no other node takes it, and the balancer of an excluded node gives away
// what it leads. The caller must not modify the map afterwards. It is not stored.
func (h *Host) SetExcluded(nodes map[quota.NodeID]bool) { h.excluded.Store(&nodes) }

func (h *Host) isExcluded(id quota.NodeID) bool {
	m := h.excluded.Load()
	return m != nil && (*m)[id]
}

// successors returns the voters except one, in the order in which they should lead: the preferred
// one first, excluded ones last, the rest in configuration order.
func (g *Group) successors(without quota.NodeID) []quota.NodeID {
	list := slices.DeleteFunc(g.voters(), func(id quota.NodeID) bool { return id == without })
	first := *g.preferred.Load()
	rank := func(id quota.NodeID) int {
		switch {
		case g.host.isExcluded(id):
			return 2
		case id == first:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b quota.NodeID) int { return rank(a) - rank(b) })
	return list
}

// AddNonvoter adds a node as a member that receives the log and has no vote. The node must open
// the group with Join; it may do so later. Adding an existing member, voter or not, does nothing.
//
// All membership changes need a serving leader (ErrNotLeader elsewhere). Only one runs at a time
// (ErrBusy), and only when the latest configuration is committed (ErrBusy). A change that was
// decided under an older configuration has no effect. After ErrUncertain the change may still
// happen; retry it, since a change that has already happened is not an error.
func (g *Group) AddNonvoter(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if c.has(id) {
			return nil
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), prev, wait)
		}
		return nil
	})
}

// Promote gives a member a vote. It returns ErrNotReady unless the replica itself reports that it
// lacks at most 128 entries and has heard from this leader within a heartbeat timeout. It returns
// ErrQuorum unless this leader has heard from a majority of all voters, including the new one, in
// that time: raft would grant the vote at once, and a lagging voter delays every commit. See
// AddNonvoter for the rest.
func (g *Group) Promote(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if slices.Contains(c.voters, id) {
			return nil
		}
		if !c.has(id) {
			return fmt.Errorf("%w: %s is not a member of group %s; add it first", ErrNotReady, id, g.name)
		}
		if err := g.upToDate(ctx, c.instance, id, voteLag, g.host.cfg.Timing.Heartbeat); err != nil {
			return err
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), prev, wait)
		}
		return c.keepsQuorum(append(slices.Clone(c.voters), id))
	})
}

// Demote turns a voter into a nonvoter that still receives the log. It fails under the same
// conditions as Remove. See AddNonvoter for the rest.
func (g *Group) Demote(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if !slices.Contains(c.voters, id) {
			return nil
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.DemoteVoter(raft.ServerID(id), prev, wait)
		}
		return g.losesVoter(c, id)
	})
}

// Remove ends a node's membership, voter or not. It returns ErrQuorum unless this leader has
// heard from a majority of the remaining voters within a heartbeat timeout. Thus removing a live
// voter while another is dead loses no quorum, and the last voter stays. It returns ErrLeads for
// this replica itself. The removed replica keeps running without effect until its node closes it.
// See AddNonvoter for the rest.
func (g *Group) Remove(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if !c.has(id) {
			return nil
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.RemoveServer(raft.ServerID(id), prev, wait)
		}
		return g.losesVoter(c, id)
	})
}

// losesVoter checks a change after which the node with that id is no voter.
func (g *Group) losesVoter(c *change, id quota.NodeID) error {
	if id == g.host.cfg.Self {
		return fmt.Errorf("%w: %s, group %s; transfer leadership first", ErrLeads, id, g.name)
	}
	return c.keepsQuorum(slices.DeleteFunc(slices.Clone(c.voters), func(v quota.NodeID) bool { return v == id }))
}

// change is one membership change, from reading the configuration until raft accepts it.
type change struct {
	*instance
	term    uint64
	members []raft.Server
	voters  []quota.NodeID
	submit  func(prev uint64, wait time.Duration) raft.IndexFuture // nil if there is nothing to do
}

func (c *change) has(id quota.NodeID) bool {
	return slices.ContainsFunc(c.members, func(s raft.Server) bool { return s.ID == raft.ServerID(id) })
}

// keepsQuorum returns ErrQuorum unless this leader has recently heard from a majority of the
// given voters. Promote has also asked the new voter itself for its progress.
func (c *change) keepsQuorum(voters []quota.NodeID) error {
	g, heard := c.group, 0
	var silent []string
	for _, id := range voters {
		if id == g.host.cfg.Self || g.readIndex.recent(id, c.term, g.host.cfg.Timing.Heartbeat) {
			heard++
		} else {
			silent = append(silent, string(id))
		}
	}
	if heard <= len(voters)/2 {
		return fmt.Errorf("%w: group %s would have %d voters, not heard from: %s", ErrQuorum, g.name, len(voters), strings.Join(silent, ", "))
	}
	return nil
}

// change makes one membership change. plan decides what to do, if anything.
func (g *Group) change(ctx context.Context, plan func(*change) error) error {
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return g.whyUnavailable()
	}
	_, term, serving := g.Leader()
	if !serving {
		return ErrNotLeader
	}
	if !g.changing.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer g.changing.Store(false)
	conf := g.fsm.conf.Load() // read before the latest configuration: a change in between makes it stale
	c := &change{instance: i, term: term, members: servers(i.raft), voters: g.voters()}
	if conf == nil || !slices.Equal(conf.servers, c.members) {
		return fmt.Errorf("%w: the latest configuration of group %s is not committed", ErrBusy, g.name)
	}
	if err := plan(c); err != nil || c.submit == nil {
		return err
	}
	wait := changeWait
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(end), time.Millisecond))
	}
	return changeError(i.wait(ctx, c.submit(conf.index, wait)))
}

// changeError converts raft's error to one of this package's errors for the caller of a
// membership change.
func changeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrBusy // raft accepts no change before the latest is committed
	case strings.HasPrefix(err.Error(), "configuration changed since"):
		return fmt.Errorf("%w: %s", ErrBusy, err.Error())
	}
	return publicError(err)
}
