package accounts

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/quota"
)

// end finishes an attempt in the background, at every range that may hold part of it. If too many
// are in flight, it leaves the attempt to the leaders, which look for pending transactions once a
// second.
func (s *Service) end(tx account.Tx, parts []part, commit bool) {
	if count(parts, func(p *part) bool { return errors.Is(p.err, errStopped) }) > 0 {
		return
	}
	home, others := parts[0].prepared(), []quota.RangeID{}
	for i := range parts[1:] {
		if p := &parts[i+1]; p.prepared() {
			others = append(others, p.id)
		}
	}
	if !home && len(others) == 0 {
		return
	}
	over := func() {}
	if commit {
		over = s.recordOwned(parts[1:])
	}
	started := s.later(tx, tx.Home, func(ctx context.Context) error {
		if !home {
			defer over()
			return s.finishAll(ctx, tx, others, commit)
		}
		return s.finish(ctx, tx, others, commit, over)
	})
	if !started {
		over()
	}
}

// learn finds out, for the tally, what became of a transaction whose decision got no answer: once
// other nodes may abort it, this node tries to abort it too. learn gives up before the home forgets
// the transaction, and returns at once if there is no free slot.
func (s *Service) learn(tx account.Tx, parts []part) {
	parts = slices.Clone(parts) // the caller may soon reuse them for another attempt
	select {
	case s.learning <- struct{}{}:
	default:
		return
	}
	started := s.spawn(func() {
		defer func() { <-s.learning }()
		for try := abandoned; try < learnLimit; try *= 2 {
			if backoff.Sleep(s.ctx, try) != nil {
				return
			}
			ctx, cancel := context.WithTimeout(s.ctx, endLimit)
			commit, err := s.abort(ctx, tx)
			cancel()
			if err != nil {
				continue
			}
			if commit {
				s.tallyCommitted(parts)
			}
			return
		}
	})
	if !started {
		<-s.learning
	}
}

// learnLimit bounds the pauses of learn. The sum of the pauses and tries is well below the ten
// minutes for which a transaction is remembered.
const learnLimit = 2 * time.Minute

// later runs f in the background. It returns false if there is no free slot, or if another
// goroutine of this node is already finishing the transaction at that range.
func (s *Service) later(tx account.Tx, r quota.RangeID, f func(ctx context.Context) error) bool {
	select {
	case s.ending <- struct{}{}:
	default:
		return false
	}
	c, mine := s.beginResolution(tx, r)
	if !mine {
		<-s.ending
		return false
	}
	started := s.spawn(func() {
		defer func() { <-s.ending }()
		defer s.release(tx, r, c, false)
		ctx, cancel := context.WithTimeout(s.ctx, endLimit)
		defer cancel()
		if err := f(ctx); err != nil && s.ctx.Err() == nil {
			s.log.Debug("transaction not ended yet", "home_range", tx.Home, "range", r, "err", err)
		}
	})
	if !started {
		s.release(tx, r, c, false)
		<-s.ending
	}
	return started
}

// finish carries out a decision in the other ranges and then makes the home forget it. It records
// an abort at the home too, which may have nothing to abort. It calls finished before it informs the
// home: by then the other ranges hold nothing, or could not be reached.
func (s *Service) finish(ctx context.Context, tx account.Tx, others []quota.RangeID, commit bool, finished func()) error {
	var aborted error
	var wg sync.WaitGroup
	if !commit {
		wg.Go(func() { _, aborted = s.abort(ctx, tx) })
	}
	err := s.finishAll(ctx, tx, others, commit)
	finished()
	wg.Wait()
	if err = errors.Join(err, aborted); err != nil || s.stopAt("forget", tx.Home) {
		return err
	}
	_, err = s.submit(ctx, tx.Home, &account.Command{Forget: &tx.ID}, retry{true, true})
	return err
}

func (s *Service) finishAll(ctx context.Context, tx account.Tx, others []quota.RangeID, commit bool) error {
	errs := make([]error, len(others))
	var wg sync.WaitGroup
	for i, r := range others {
		wg.Go(func() { errs[i] = s.finishAt(ctx, tx, r, commit) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Service) finishAt(ctx context.Context, tx account.Tx, r quota.RangeID, commit bool) error {
	if s.stopAt("finish", tx.Home) {
		return errStopped
	}
	_, err := s.submit(ctx, r, &account.Command{Finish: &account.Finish{Tx: tx.ID, Commit: commit}}, retry{true, true})
	return err
}

// abort decides to abort a transaction unless it is already decided, and reports whether the
// decision is to commit.
func (s *Service) abort(ctx context.Context, tx account.Tx) (commit bool, err error) {
	out, err := s.submit(ctx, tx.Home, &account.Command{Decide: &account.Decide{Tx: tx.ID}}, retry{true, true})
	return out.Code == account.Committed, err
}
