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

// Guards of changes of members.
const (
	voteLag    = 128             // entries that a replica may lack when it is given a vote
	changeWait = 2 * time.Second // for raft to take a change
)

// Member is one replica of a group.
type Member struct {
	ID    quota.NodeID
	Voter bool
}

// Members returns who has a replica of the group, in the order of the group's
// own configuration: the latest that this replica knows, which may not be
// committed yet. It is empty on a replica that no leader has reached.
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

// servers is raft's latest configuration. It must not be changed.
func servers(r *raft.Raft) []raft.Server { return r.GetConfiguration().Configuration().Servers }

// voters returns who votes, as this replica knows.
func (g *Group) voters() []quota.NodeID {
	var out []quota.NodeID
	for _, m := range g.Members() {
		if m.Voter {
			out = append(out, m.ID)
		}
	}
	return out
}

// isVoter says whether a node votes in the group.
func (g *Group) isVoter(id quota.NodeID) bool { return slices.Contains(g.voters(), id) }

// SetPreferred says whom the balancer gives the leadership of this group to; ""
// is nobody: whoever leads stays. It is the first of GroupOptions.Voters at
// first, or nobody with Join. It is not stored.
func (g *Group) SetPreferred(id quota.NodeID) { g.preferred.Store(&id) }

// SetExcluded says which nodes should lead nothing, such as those that are being
// drained: this node gives leadership to them only if nobody else takes it, and
// the balancer of a excluded node gives away what it leads. The map must not be
// changed afterwards. It is not stored.
func (h *Host) SetExcluded(nodes map[quota.NodeID]bool) { h.excluded.Store(&nodes) }

func (h *Host) isExcluded(id quota.NodeID) bool {
	m := h.excluded.Load()
	return m != nil && (*m)[id]
}

// successors returns the voters without one, in the order in which they should lead:
// the preferred one first, the excluded ones last, else as configured.
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

// AddNonvoter makes a node a member that gets the log and has no vote. The node
// must open the group with Join; it may do so later. Adding a member, voter or
// not, changes nothing.
//
// This and the other changes of members work on a leader that serves
// (ErrNotLeader elsewhere), one at a time (ErrBusy), and only when the latest
// configuration is committed (ErrBusy). A change that was decided on under an
// older configuration changes nothing. After ErrUncertain the change may yet
// happen; ask again, since what has happened already is no error.
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

// Promote gives a member a vote. It is refused with ErrNotReady unless the
// replica itself reports that it lacks at most 128 entries and has heard this
// leader within a heartbeat timeout, and with ErrQuorum unless this leader has
// heard a majority of all voters, the new one included, in that time: raft
// would give the vote at once, and a voter that lags holds up every commit. See
// AddNonvoter for the rest.
func (g *Group) Promote(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if slices.Contains(c.voters, id) {
			return nil
		}
		if !c.has(id) {
			return fmt.Errorf("%w: %s is no member of group %s; add it first", ErrNotReady, id, g.opts.Name)
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

// Remove ends a node's membership, with or without a vote. It is refused with
// ErrQuorum unless this leader has heard a majority of the voters that remain
// within a heartbeat timeout, so that removing a living voter while another is
// dead loses no quorum, and the last voter stays; and with ErrLeads for this
// replica itself. The removed replica goes on without a part in anything until
// its node closes it. See AddNonvoter for the rest.
func (g *Group) Remove(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if !c.has(id) {
			return nil
		}
		if id == g.host.cfg.Self {
			return fmt.Errorf("%w: %s, group %s; transfer leadership first", ErrLeads, id, g.opts.Name)
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.RemoveServer(raft.ServerID(id), prev, wait)
		}
		return c.keepsQuorum(slices.DeleteFunc(slices.Clone(c.voters), func(v quota.NodeID) bool { return v == id }))
	})
}

// change is one change of the members, from the look at the configuration until
// raft has taken it.
type change struct {
	*instance
	term    uint64
	members []raft.Server
	voters  []quota.NodeID
	submit  func(prev uint64, wait time.Duration) raft.IndexFuture // nil: nothing to do
}

func (c *change) has(id quota.NodeID) bool {
	return slices.ContainsFunc(c.members, func(s raft.Server) bool { return s.ID == raft.ServerID(id) })
}

// keepsQuorum checks that a majority of those voters has been heard of late.
// A promoted one has been asked itself, and answered.
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
		return fmt.Errorf("%w: group %s would have %d voters, not heard from: %s", ErrQuorum, g.opts.Name, len(voters), strings.Join(silent, ", "))
	}
	return nil
}

// change holds one change. plan decides what to do, or that nothing is.
func (g *Group) change(ctx context.Context, plan func(*change) error) error {
	i := g.cur.Load()
	if i == nil || g.closed.Load() {
		return g.absent()
	}
	_, term, serving := g.Leader()
	if !serving {
		return ErrNotLeader
	}
	if !g.changing.CompareAndSwap(false, true) {
		return ErrBusy
	}
	defer g.changing.Store(false)
	conf := g.fsm.conf.Load() // before the latest: a change in between makes it stale
	c := &change{instance: i, term: term, members: servers(i.raft), voters: g.voters()}
	if conf == nil || !slices.Equal(conf.servers, c.members) {
		return fmt.Errorf("%w: the latest configuration of group %s is not committed", ErrBusy, g.opts.Name)
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

// changeError says what raft's error means to who asked for a change.
func changeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return ErrBusy // raft takes none before the latest is committed
	case strings.HasPrefix(err.Error(), "configuration changed since"):
		return fmt.Errorf("%w: %s", ErrBusy, err.Error())
	}
	return publicError(err)
}
