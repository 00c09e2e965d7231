package accounts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

func (s *Service) readOnce(ctx context.Context, q *readRequest) (reading, error) {
	to := s.leader(q.id)
	if to == s.cfg.Self || q.stale && s.node.Current(q.id) {
		return s.readHere(ctx, q)
	}
	if to == "" && q.stale { // any other replica will do
		if others := slices.DeleteFunc(slices.Clone(s.node.Holders(q.id)), func(id quota.NodeID) bool { return id == s.cfg.Self }); len(others) > 0 {
			to = others[rand.IntN(len(others))]
		}
	}
	if to == "" {
		return reading{}, fmt.Errorf("%w: range %d has no leader known to %s", errNotLeader, q.id, s.cfg.Self)
	}
	return s.readThere(ctx, to, q)
}

// readHere reads this node's replica. It first confirms the range's leadership, unless the request
// is stale; a stale read needs a current replica.
func (s *Service) readHere(ctx context.Context, q *readRequest) (reading, error) {
	replica, g := s.cfg.Replicas[q.id], s.node.Group(q.id)
	if replica == nil || g == nil {
		return reading{}, fmt.Errorf("%w: range %d has no replica on %s", errNotLeader, q.id, s.cfg.Self)
	}
	if q.stale && !s.node.Current(q.id) {
		return reading{}, fmt.Errorf("%w: the replica of range %d on %s is not up to date yet", errNotLeader, q.id, s.cfg.Self)
	}
	if !q.stale {
		if err := g.ConfirmLeadership(ctx); err != nil {
			return reading{}, fmt.Errorf("%w: %w", errNotLeader, err)
		}
		if q.listed() {
			if err := s.awaitPrepared(ctx, q.id, replica); err != nil {
				return reading{}, err
			}
		}
	}
	v, now := replica.View(), s.now(replica)
	out := reading{at: now}
	switch {
	case q.list != nil:
		out.states = v.List(now, q.list.filter, q.list.after, q.list.limit)
	case q.realms != nil:
		out.realms = v.Realms(now, q.realms.after, q.realms.limit)
	case q.history:
		for _, id := range q.ids {
			out.states = append(out.states, v.History(now, id))
		}
	default:
		for _, id := range q.ids {
			out.states = append(out.states, v.Get(now, id))
		}
	}
	return out, nil
}

func (s *Service) readThere(ctx context.Context, to quota.NodeID, q *readRequest) (reading, error) {
	msg := &peerv1.CallReadAccounts{Range: uint32(q.id), Stale: q.stale, History: q.history}
	for _, id := range q.ids {
		msg.Accounts = append(msg.Accounts, encodeID(id))
	}
	if q.list != nil {
		msg.List = encodeFilter(&q.list.filter, q.list.after, q.list.limit)
	}
	if q.realms != nil {
		msg.Realms = &peerv1.ListAccountRealms{After: encodeRealm(q.realms.after), Limit: int32(q.realms.limit)}
	}
	a, err := s.ask(ctx, to, msg)
	if err != nil {
		return reading{}, err
	}
	out := reading{at: quota.Time(a.GetAtUnixNanos())}
	for _, v := range a.GetAccounts() {
		out.states = append(out.states, decodeState(v))
	}
	for _, r := range a.GetRealms().GetRealms() {
		out.realms = append(out.realms, decodeRealm(r))
	}
	if q.realms != nil && a.GetRealms() == nil {
		return reading{}, fmt.Errorf("%w: %s cannot list realms; upgrade it", errNotLeader, to)
	}
	if q.list == nil && len(out.states) != len(q.ids) {
		return reading{}, fmt.Errorf("%w: %s answered %d of %d accounts", errNotLeader, to, len(out.states), len(q.ids))
	}
	return out, nil
}

// ask sends a read to another node.
func (s *Service) ask(ctx context.Context, to quota.NodeID, msg *peerv1.CallReadAccounts) (*peerv1.CallReadAccountsResult, error) {
	ctx, cancel := context.WithTimeout(ctx, tryLimit)
	defer cancel()
	c, err := s.node.Call(ctx, to, &peerv1.Call{Body: &peerv1.Call_ReadAccounts{ReadAccounts: msg}})
	if err != nil {
		return nil, wireError(err)
	}
	a := c.GetReadAccountsResult()
	if a == nil {
		return nil, fmt.Errorf("%w: %s answered nothing", errNotLeader, to)
	}
	return a, faultError(a.GetFault(), a.GetReason())
}
