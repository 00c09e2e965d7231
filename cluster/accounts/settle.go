package accounts

import (
	"context"
	"sync"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// transactionEnd identifies one end of a transaction: at most one goroutine of this node works on each.
type transactionEnd struct {
	tx account.TxID
	at quota.RangeID
}

// resolution is the work of a goroutine on an end of a transaction. ended means that nothing is held
// there any more; read it only after done is closed.
type resolution struct {
	done  chan struct{}
	ended bool
}

// beginResolution returns the claim on an end of a transaction. If mine is true, the caller must release it.
func (s *Service) beginResolution(tx account.Tx, r quota.RangeID) (c *resolution, mine bool) {
	v, taken := s.resolutions.LoadOrStore(transactionEnd{tx.ID, r}, &resolution{done: make(chan struct{})})
	c, _ = v.(*resolution)
	return c, !taken
}

func (s *Service) release(tx account.Tx, r quota.RangeID, c *resolution, ended bool) {
	s.resolutions.Delete(transactionEnd{tx.ID, r})
	c.ended = ended
	close(c.done)
}

// resolve helps a caller that met a held account in range r. If the holding transaction is decided,
// resolve carries the decision out there and returns true: the account is free. Otherwise its
// coordinator may still be working on it; if not, the leader of the range aborts it.
func (s *Service) resolve(ctx context.Context, r quota.RangeID, holder account.Tx) (ended bool) {
	s.stats.held.Inc()
	if holder == (account.Tx{}) || holder.Home == r {
		return false
	}
	c, mine := s.beginResolution(holder, r)
	if !mine { // many callers have met it
		select {
		case <-c.done:
			return c.ended
		case <-ctx.Done():
			return false
		}
	}
	defer func() { s.release(holder, r, c, ended) }()
	d, err := s.decision(ctx, holder)
	if err == nil && d.decided {
		err = s.finishAt(ctx, holder, r, d.commit)
	}
	if err != nil {
		s.log.Debug("outcome of a transaction not known yet", "home_range", holder.Home, "range", r, "err", err)
	}
	return err == nil && d.decided
}

// decision is a home's decision on a transaction.
type decision struct{ decided, commit bool }

func decisionIn(v account.View, id account.TxID) (d decision, known bool) {
	p, known := v.Decision(id)
	return decision{p.Decided, p.Decided && p.Commit}, known
}

// decision asks a transaction's home for its decision. Any replica may report that the transaction
// is decided; any other answer may be outdated, so only the leader can give it.
func (s *Service) decision(ctx context.Context, tx account.Tx) (decision, error) {
	if r := s.cfg.Replicas[tx.Home]; r != nil {
		if d, _ := decisionIn(r.View(), tx.ID); d.decided {
			return d, nil
		}
	}
	leader := s.leader(tx.Home)
	if leader == s.cfg.Self || leader == "" {
		return decision{}, nil
	}
	a, err := s.ask(ctx, leader, &peerv1.CallReadAccounts{Range: uint32(tx.Home), Decision: tx.ID[:]})
	t := a.GetTransaction()
	return decision{t.GetDecided(), t.GetCommit()}, err
}

// finishLeftovers looks once a second for unfinished work in the ranges that this node leads.
func (s *Service) finishLeftovers() {
	tick := time.NewTicker(finishEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, 8)
		for r, replica := range s.cfg.Replicas {
			if s.leader(r) != s.cfg.Self {
				continue
			}
			s.carryOn(r, replica)
			slots <- struct{}{}
			wg.Go(func() {
				s.collect(r, replica)
				<-slots
			})
		}
		wg.Wait()
	}
}

// Bounds of one deletion: an entry blocks the range while it is applied.
const (
	maxCollect  = 1000 // per entry
	maxCollects = 16   // consecutive entries
)

func (s *Service) collect(r quota.RangeID, replica *Replica) {
	ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
	defer cancel()
	for range maxCollects {
		if !replica.Due(s.now(replica)) {
			return
		}
		if _, err := s.queues[r].tryOnce(ctx, "", &account.Command{Collect: &account.Collect{Max: maxCollect}}); err != nil {
			s.log.Debug("not collected", "range", r, "err", err) // tend retries in a second
			return
		}
	}
}

// carryOn finishes the pending transactions of a range that this node leads, whether the range is
// their home or has prepared a part, unless they are young enough to be their coordinator's or
// another goroutine is working on them. It aborts those that stay undecided for too long.
func (s *Service) carryOn(r quota.RangeID, replica *Replica) {
	now := s.now(replica)
	for _, p := range replica.View().Pending(maxEnding) {
		age := now.Sub(p.Since)
		if age < leftAlone {
			continue
		}
		s.later(p.Tx, r, func(ctx context.Context) error {
			d := decision{p.Decided, p.Commit}
			var err error
			if !p.AtHome {
				if d, err = s.decision(ctx, p.Tx); err != nil {
					return err
				}
			}
			if !d.decided {
				if age < abandoned {
					return nil
				}
				if d.commit, err = s.abort(ctx, p.Tx); err != nil {
					return err
				}
			}
			s.stats.carried.Inc()
			if p.AtHome {
				return s.finish(ctx, p.Tx, p.Others, d.commit, func() {})
			}
			return s.finishAt(ctx, p.Tx, r, d.commit)
		})
	}
}
