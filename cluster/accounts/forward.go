package accounts

import (
	"context"
	"fmt"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// forward sends the commands to the range's leader and stores the outcomes.
func (q *queue) forward(leader quota.NodeID, batch []*pending) {
	s := q.service
	data, err := account.EncodeBatch(0, q.commands(batch))
	if err != nil {
		fail(batch, fmt.Errorf("%w: %w", errRefused, err))
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
	defer cancel()
	c, err := s.node.Call(ctx, leader, &peerv1.Call{Body: &peerv1.Call_Accounts{Accounts: &peerv1.CallAccounts{Range: uint32(q.id), Batch: data}}})
	if err != nil {
		fail(batch, wireError(err))
		return
	}
	list := c.GetAccountsResult().GetOutcomes()
	if len(list) != len(batch) {
		fail(batch, fmt.Errorf("%w: %s answered %d of %d commands", errUnknown, leader, len(list), len(batch)))
		return
	}
	for i, p := range batch {
		p.out, p.err = decodeOutcome(list[i])
	}
}

// passed carries out commands that another node forwarded. They count for that node: its callers share its own queue,
// and are not known here.
func (s *Service) passed(ctx context.Context, from quota.NodeID, c *peerv1.CallAccounts) *peerv1.CallAccountsResult {
	out := &peerv1.CallAccountsResult{}
	_, commands, err := account.DecodeBatch(c.GetBatch())
	if err != nil || int(c.GetRange()) >= s.cfg.Ranges || len(commands) > maxBatch {
		return out
	}
	q := &s.queues[c.GetRange()]
	batch := make([]*pending, len(commands))
	for i := range commands {
		batch[i] = newPending(commands[i], ownerOf(from), true)
		if err := q.push(batch[i]); err != nil {
			batch[i].err = err
			close(batch[i].done)
		}
	}
	for _, p := range batch {
		err := q.await(ctx, p)
		out.Outcomes = append(out.Outcomes, encodeOutcome(&p.out, err))
	}
	return out
}

// ownerOf returns the owner of what another node sends for its callers.
func ownerOf(n quota.NodeID) string { return "node:" + string(n) }
