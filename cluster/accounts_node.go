package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// ApplyOps applies all operations or none, through any node. It looks up the rules of policies;
// the caller leaves them unset in ops. A ctx
// without a deadline gets one of 10 seconds. An *accounts.UnavailableError says
// whether the operations may have been applied.
func (n *Node) ApplyOps(ctx context.Context, by account.Caller, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error) {
	return n.accounts.ApplyOps(ctx, by, requestID, ttl, ops)
}

// GetAccounts returns accounts in the order of ids, all as of the same moment. A stale read
// uses the nearest replica, and its accounts may be of different moments.
func (n *Node) GetAccounts(ctx context.Context, ids []account.ID, stale bool) ([]account.State, quota.Time, error) {
	return n.accounts.GetAccounts(ctx, ids, stale)
}

// ListAccounts returns up to limit accounts whose ids follow after, from all ranges, sorted
// by id.
func (n *Node) ListAccounts(ctx context.Context, f account.Filter, after account.ID, limit int) ([]account.State, error) {
	return n.accounts.ListAccounts(ctx, f, after, limit)
}

// ListRealms returns up to limit realms that have accounts or policy configs and sort after the
// given one, sorted.
func (n *Node) ListRealms(ctx context.Context, after account.Realm, limit int) ([]account.Realm, error) {
	list, err := n.accounts.ListRealms(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	return account.MergeRealms(limit, list, n.PolicyRealms(after, limit)), nil
}

// AccountHistory returns an account with its latest changes.
func (n *Node) AccountHistory(ctx context.Context, id account.ID) (account.State, error) {
	return n.accounts.AccountHistory(ctx, id)
}

func (n *Node) newAccounts() *accounts.Service {
	return accounts.New(accounts.Config{
		Self: n.cfg.Self, Ranges: n.cfg.Ranges, Replicas: n.ranges.Accounts(), Node: accountsNode{slow{part{n}}}, Logger: n.log, Registry: n.cfg.Registry,
	})
}

// accountsNode adapts Node to accounts.Node.
type accountsNode struct{ slow }

// Group implements accounts.Node.
func (n accountsNode) Group(r quota.RangeID) accounts.Group {
	if g := n.host.Group(raftgroup.OfRange(r)); g != nil {
		return g
	}
	return nil
}

// Current reports whether this node votes in the range: a node becomes a voter only once its
// replica has caught up.
func (n accountsNode) Current(r quota.RangeID) bool {
	g := n.host.Group(raftgroup.OfRange(r))
	return g != nil && slices.Contains(g.Members(), raftgroup.Member{ID: n.cfg.Self, Voter: true})
}

func (n accountsNode) Holders(r quota.RangeID) []quota.NodeID {
	return n.members.View().Ranges[r].Voters
}

func (n accountsNode) Policies(ctx context.Context, refs []account.PolicyRef) ([]*account.Policy, error) {
	return n.Resolve(ctx, refs)
}

func (n accountsNode) ClockAgreed() bool { return n.clock.Agreed() }
