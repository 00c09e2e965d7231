package raftgroup

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/quorate/quorate/internal/quota"
)

// Demote turns a voter into a nonvoter that still receives the log. It fails under the same
// conditions as Remove. See AddNonvoter for the rest.
func (g *Group) Demote(ctx context.Context, id quota.NodeID) error {
	return g.change(ctx, func(c *change) error {
		if !slices.Contains(c.voters, id) {
			return nil
		}
		if id == g.host.cfg.Self {
			return fmt.Errorf("%w: %s, group %s; transfer leadership first", ErrLeads, id, g.opts.Name)
		}
		c.submit = func(prev uint64, wait time.Duration) raft.IndexFuture {
			return c.raft.DemoteVoter(raft.ServerID(id), prev, wait)
		}
		return c.keepsQuorum(slices.DeleteFunc(slices.Clone(c.voters), func(v quota.NodeID) bool { return v == id }))
	})
}
