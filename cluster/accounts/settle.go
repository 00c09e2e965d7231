package accounts

import (
	"context"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// claimed is what this node is at: one goroutine per end of a transaction.
type claimed struct {
	tx account.TxID
	at quota.RangeID
}

// claim is somebody's work at an end of a transaction. ended, which is read after done is
// closed, says that nothing is held there any more.
type claim struct {
	done  chan struct{}
	ended bool
}

// claim returns the work, and whether it is the caller's, who has to release it.
func (s *Service) claim(tx account.Tx, r quota.RangeID) (c *claim, mine bool) {
	v, taken := s.claims.LoadOrStore(claimed{tx.ID, r}, &claim{done: make(chan struct{})})
	c, _ = v.(*claim)
	return c, !taken
}

func (s *Service) release(tx account.Tx, r quota.RangeID, c *claim, ended bool) {
	s.claims.Delete(claimed{tx.ID, r})
	c.ended = ended
	close(c.done)
}

// look is for who has met an account of range r that is held: if that transaction
// is decided, it is carried out there, and nothing is in the way any more. If not, its
// coordinator may be at it; the leader of the range aborts it when it is not.
func (s *Service) look(ctx context.Context, r quota.RangeID, holder account.Tx) (ended bool) {
	s.stats.held.Inc()
	if holder == (account.Tx{}) || holder.Home == r {
		return false
	}
	c, mine := s.claim(holder, r)
	if !mine { // many have met it
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

// decision is what a home knows of a transaction.
type decision struct{ decided, commit bool }

func decisionIn(v account.View, id account.TxID) (d decision, known bool) {
	p, known := v.Decision(id)
	return decision{p.Decided, p.Decided && p.Commit}, known
}

// decision asks a transaction's home. That it is decided is right whoever says it;
// all else may be over already: only the log can tell.
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
	return s.askDecision(ctx, leader, tx)
}

// tend looks once a second at what the ranges led here have left to do.
func (s *Service) tend() {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.tendAll()
		}
	}
}

func (s *Service) tendAll() {
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

// Bounds of what is deleted at a time: an entry holds up the range.
const (
	maxCollect  = 1000 // in an entry
	maxCollects = 16   // entries, one after the other
)

func (s *Service) collect(r quota.RangeID, replica *Replica) {
	ctx, cancel := context.WithTimeout(s.ctx, tryLimit)
	defer cancel()
	for range maxCollects {
		if !replica.Due(s.now(replica)) {
			return
		}
		if _, err := s.queues[r].once(ctx, &account.Command{Collect: &account.Collect{Max: maxCollect}}); err != nil {
			s.log.Debug("not collected", "range", r, "err", err) // in a second again
			return
		}
	}
}

// carryOn takes up the transactions that a range led here has pending and that
// nobody else seems to be at.
func (s *Service) carryOn(r quota.RangeID, replica *Replica) {
	now := s.now(replica)
	for _, p := range replica.View().Pending(maxEnding) {
		age := now.Sub(p.Since)
		if age < leftAlone {
			continue
		}
		s.later(p.Tx, r, func(ctx context.Context) error {
			if p.AtHome {
				return s.carryHome(ctx, &p, age)
			}
			return s.carryPart(ctx, p.Tx, r, age)
		})
	}
}

// carryHome brings a transaction of this home to its end.
func (s *Service) carryHome(ctx context.Context, p *account.Pending, age time.Duration) error {
	commit := p.Commit
	if !p.Decided {
		if age < abandoned {
			return nil
		}
		var err error
		if commit, err = s.abort(ctx, p.Tx); err != nil {
			return err
		}
	}
	s.stats.carried.Inc()
	return s.finish(ctx, p.Tx, p.Others, commit, func() {})
}

// carryPart brings what is prepared here, for another home, to its end.
func (s *Service) carryPart(ctx context.Context, tx account.Tx, r quota.RangeID, age time.Duration) error {
	d, err := s.decision(ctx, tx)
	if err != nil {
		return err
	}
	if !d.decided {
		if age < abandoned {
			return nil
		}
		if d.commit, err = s.abort(ctx, tx); err != nil {
			return err
		}
	}
	s.stats.carried.Inc()
	return s.finishAt(ctx, tx, r, d.commit)
}
