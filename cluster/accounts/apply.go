package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// ApplyOps applies all operations or none; see api.Accounts.
//
// It returns an [*UnavailableError] that says whether the operations may have been applied. If ctx
// has no deadline, the call times out after ten seconds.
func (s *Service) ApplyOps(ctx context.Context, by account.Caller, requestID string, ttl time.Duration, ops []account.Op) (account.Outcome, error) {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	out, err := s.applyOps(ctx, by.Owner, account.Request{By: by.By, ID: requestID, TTL: remembered(ctx, ttl), Ops: ops})
	name := codeName(out.Code)
	switch {
	case err != nil:
		name = unavailable
	case out.Code == account.Failed:
		s.tally.refuse(ops, &out)
	}
	s.stats.ops.WithLabelValues(name).Add(float64(len(ops)))
	return out, err
}

// afterCall is longer than a try of a call may take to go into the log after the call has ended.
const afterCall = 2 * tryLimit

// remembered returns how long the ranges remember the ID of a call: as long as the caller asks for,
// and at least until no try of this call can be applied any more. Otherwise a retry could be applied
// after a try whose answer was lost.
func remembered(ctx context.Context, ttl time.Duration) time.Duration {
	if ttl <= 0 {
		ttl = account.DefaultTTL
	}
	if end, ok := ctx.Deadline(); ok {
		ttl = max(ttl, min(time.Until(end), account.MaxTTL-afterCall)+afterCall)
	}
	return ttl
}

func (s *Service) applyOps(ctx context.Context, owner string, r account.Request) (account.Outcome, error) {
	if len(r.Ops) == 0 || len(r.Ops) > account.MaxOps {
		return account.Outcome{}, fmt.Errorf("%w: %d operations; 1 to %d", errRefused, len(r.Ops), account.MaxOps)
	}
	r.Hash = account.HashOps(r.Ops)
	var err error
	if r.Ops, err = s.withRules(ctx, r.Ops); err != nil {
		return account.Outcome{}, err
	}
	parts := s.split(owner, &r)
	if len(parts) > 1 {
		return s.transact(ctx, parts)
	}
	return s.applyHere(ctx, &parts[0])
}

// withRules returns a copy of the operations with the content of those policies that are loaded.
func (s *Service) withRules(ctx context.Context, ops []account.Op) ([]account.Op, error) {
	var refs []account.PolicyRef
	place := map[account.PolicyRef]int{}
	for i := range ops {
		if p := ops[i].Policy; p != nil {
			if _, ok := place[*p]; !ok {
				place[*p] = len(refs)
				refs = append(refs, *p)
			}
		}
	}
	if len(refs) == 0 {
		return ops, nil
	}
	rules, err := s.node.Policies(ctx, refs)
	switch {
	case err != nil:
		return nil, &UnavailableError{Reason: fmt.Sprintf("policies: %v", err)}
	case len(rules) != len(refs):
		return nil, fmt.Errorf("%w: asked for %d policies, got %d", errRefused, len(refs), len(rules))
	}
	out := make([]account.Op, len(ops))
	for i := range ops {
		out[i] = ops[i]
		if p := ops[i].Policy; p != nil {
			out[i].Rule = rules[place[*p]]
		}
	}
	return out, nil
}

// part is the part of a call that concerns one range.
type part struct {
	id      quota.RangeID
	owner   string // of the call; of the first one if there are more
	request account.Request
	more    []account.Request // requests of other calls on the same accounts, committed with this one
	out     account.Outcome   // holds the results of request and then of each in more
	err     error
	doubt   bool // an earlier try may have been applied, or may still be
}

// prepared reports whether the attempt may hold anything at the part's range.
func (p *part) prepared() bool { return p.err != nil || p.doubt || p.out.Code == account.Done }

// at returns the part's request of the given call: 0 is request, the others are in more.
func (p *part) at(call int) *account.Request {
	if call == 0 {
		return &p.request
	}
	return &p.more[call-1]
}

// split divides a call by range. If the call spans several ranges, it puts the range of the lowest
// account first: the home. So calls on the same accounts have the same home.
func (s *Service) split(owner string, r *account.Request) []part {
	var parts []part
	place := map[quota.RangeID]int{}
	for i := range r.Ops {
		id := s.rangeOf(r.Ops[i].Account)
		at, ok := place[id]
		if !ok {
			at = len(parts)
			place[id] = at
			parts = append(parts, part{id: id, owner: owner, request: account.Request{By: r.By, ID: r.ID, Hash: r.Hash, TTL: r.TTL}})
		}
		q := &parts[at].request
		q.Ops = append(q.Ops, r.Ops[i])
		q.Indexes = append(q.Indexes, int32(i))
	}
	if len(parts) == 1 {
		parts[0].request.Indexes = nil
		return parts
	}
	lowest := slices.MinFunc(r.Ops, func(a, b account.Op) int { return a.Account.Compare(b.Account) })
	home := place[s.rangeOf(lowest.Account)]
	parts[0], parts[home] = parts[home], parts[0]
	return parts
}

// applyHere applies operations on a single range.
func (s *Service) applyHere(ctx context.Context, p *part) (account.Outcome, error) {
	cmd := account.Command{Apply: &p.request}
	s.awaitOwn(ctx, p)
	doubt := false
	var tx account.TxID // names its turn
	defer func() {
		if tx != (account.TxID{}) {
			s.leaveTurns(tx, []part{*p}, func(*part) bool { return true })
		}
	}()
	for try := 0; ; try++ {
		var out account.Outcome
		var err error
		out, doubt, err = s.submitTracked(ctx, p.id, p.owner, &cmd, retry{unknown: p.request.ID != ""}, doubt)
		if err == nil && out.Code == account.Held {
			ended := s.resolve(ctx, p.id, out.Holder)
			if tx == (account.TxID{}) {
				tx = newTx()
				s.awaitTurn(ctx, tx, p)
				continue
			}
			if ended || pause(ctx, try) {
				continue
			}
		}
		if err == nil && doubt && !final(out.Code) {
			return account.Outcome{}, &UnavailableError{Unknown: true, Reason: "an earlier try may yet be carried out; a later one was answered: " + codeName(out.Code)}
		}
		return out, err
	}
}

// final reports whether the answer to one try also holds for every earlier try, whenever that
// arrives: with such an answer, the range remembers the request's ID.
func final(c account.Code) bool {
	return c == account.Done || c == account.Repeated || c == account.Mismatched
}

// retry says after which errors to retry a command. After errNotLeader, it is always retried.
type retry struct{ unknown, overloaded bool }

// submit sends a command of this node to the leader of a range and retries, through elections, until ctx ends.
// It returns an *UnavailableError, or an error that a retry cannot fix.
func (s *Service) submit(ctx context.Context, r quota.RangeID, c *account.Command, again retry) (account.Outcome, error) {
	out, _, err := s.submitTracked(ctx, r, "", c, again, false)
	return out, err
}

// submitTracked is like submit, but the command counts for an owner, and it also reports as doubt whether a try other than the answered one
// may have been applied or may still be. before carries that doubt over from the caller's earlier
// tries.
func (s *Service) submitTracked(ctx context.Context, r quota.RangeID, owner string, c *account.Command, again retry, before bool) (out account.Outcome, doubt bool, err error) {
	doubt = before
	for try := 0; ; try++ {
		out, err = s.queues[r].tryOnce(ctx, owner, c)
		switch {
		case err == nil:
			return out, doubt, nil
		case errors.Is(err, errRefused):
			return out, doubt, err
		case errors.Is(err, errOverloaded) && !again.overloaded:
			return out, doubt, callerError(err, doubt)
		case errors.Is(err, errUnknown):
			if doubt = true; !again.unknown {
				return out, doubt, callerError(err, doubt)
			}
		}
		if !pause(ctx, try) {
			return out, doubt, callerError(err, doubt)
		}
	}
}

// leader returns the leader of a range, or "" if unknown. It returns this node only if it can serve
// the range.
func (s *Service) leader(r quota.RangeID) quota.NodeID {
	if g := s.node.Group(r); g != nil {
		id, _, serving := g.Leader()
		if serving {
			return s.cfg.Self
		}
		if id != "" && id != s.cfg.Self {
			return id
		}
	}
	if id := s.node.Leader(r); id != s.cfg.Self {
		return id
	}
	return ""
}
