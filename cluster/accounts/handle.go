package accounts

import (
	"context"
	"fmt"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// AddCalls registers the calls that this service answers for other nodes.
func (s *Service) AddCalls(t peercall.Table) {
	peercall.Handle(t, tryLimit, func(ctx context.Context, from quota.NodeID, c *peerv1.CallAccounts) (*peerv1.CallAccountsResult, error) {
		ctx, end := s.limited(ctx)
		defer end()
		return s.passed(ctx, from, c), nil
	})
	peercall.Handle(t, tryLimit, func(_ context.Context, from quota.NodeID, c *peerv1.CallTurn) (*peerv1.CallTurnResult, error) {
		return s.turnFor(from, c), nil
	})
	peercall.Handle(t, tryLimit, func(ctx context.Context, _ quota.NodeID, c *peerv1.CallReadAccounts) (*peerv1.CallReadAccountsResult, error) {
		ctx, end := s.limited(ctx)
		defer end()
		return s.readFor(ctx, c), nil
	})
}

// readFor answers a read of another node.
func (s *Service) readFor(ctx context.Context, c *peerv1.CallReadAccounts) *peerv1.CallReadAccountsResult {
	out := &peerv1.CallReadAccountsResult{}
	q := readRequest{id: quota.RangeID(c.GetRange()), stale: c.GetStale(), history: c.GetHistory()}
	if n := len(c.GetAccounts()); int(q.id) >= s.cfg.Ranges || n > maxPage {
		out.Fault, out.Reason = faultOf(fmt.Errorf("%w: range %d, %d accounts; at most range %d, %d accounts", errRefused, q.id, n, s.cfg.Ranges-1, maxPage))
		return out
	}
	if name := decodeTx(c.GetDecision(), c.GetRange()); name != (account.Tx{}) {
		if r := s.cfg.Replicas[name.Home]; r != nil { // if the replica does not know, the caller must ask the log
			d, known := decisionIn(r.View(), name.ID)
			out.Transaction = &peerv1.TransactionView{Known: known, Decided: d.decided, Commit: d.commit}
		}
		return out
	}
	if c.GetList() != nil {
		q.list = &page{}
		q.list.filter, q.list.after, q.list.limit = decodeFilter(c.GetList())
	}
	if l := c.GetRealms(); l != nil {
		q.realms = &realmPage{limit: int(min(max(l.GetLimit(), 0), maxPage))}
		if a := l.GetAfter(); a != nil {
			q.realms.after = account.Realm{App: a.GetApp(), Name: a.GetRealm()}
		}
		out.Realms = &peerv1.AccountRealms{}
	}
	for _, id := range c.GetAccounts() {
		q.ids = append(q.ids, decodeID(id))
	}
	r, err := s.readHere(ctx, &q)
	out.Fault, out.Reason = faultOf(err)
	out.AtUnixNanos = int64(r.at)
	for i := range r.states {
		out.Accounts = append(out.Accounts, encodeState(&r.states[i]))
	}
	for _, one := range r.realms {
		out.Realms.Realms = append(out.Realms.Realms, encodeRealm(one))
	}
	return out
}
