package accounts

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// transact applies operations on several ranges, with parts[0] at the home. It commits them
// together with other calls that wait in line for the same accounts, or alone.
func (s *Service) transact(ctx context.Context, parts []part) (account.Outcome, error) {
	if !s.apart.any(parts) {
		if out, alone, err := s.runBundled(ctx, parts); !alone {
			return out, err
		}
	}
	defer s.lines.enter(ctx, parts)()
	return s.runAttempts(ctx, s.startAttempts(ctx, parts), parts)
}

// attempts is the state of a transaction between its attempts.
type attempts struct {
	tx        account.Tx // of the next attempt
	contended bool       // its accounts are contended, so it waits for turns at the ranges
	inTurn    bool
}

// startAttempts waits until a transaction may make its first attempt, and returns its state.
func (s *Service) startAttempts(ctx context.Context, parts []part) *attempts {
	w := &attempts{}
	if s.hot.any(parts) {
		s.awaitTurns(ctx, w, parts)
		return w
	}
	w.tx = account.Tx{ID: newTx(), Home: parts[0].id}
	for i := range parts {
		s.awaitOwn(ctx, &parts[i])
	}
	return w
}

// awaitTurns waits until a transaction that has met others may make another attempt. It waits for turns
// at one range after the other, in the same order for all calls, so that no two calls wait for each
// other. The attempt is made even without a turn at every range.
func (s *Service) awaitTurns(ctx context.Context, w *attempts, parts []part) {
	w.tx, w.contended, w.inTurn = account.Tx{ID: newTx(), Home: parts[0].id}, true, true
	for _, r := range ranges(parts) {
		i := slices.IndexFunc(parts, func(p part) bool { return p.id == r })
		w.inTurn = s.awaitTurn(ctx, w.tx.ID, &parts[i]) && w.inTurn
	}
}

// runAttempts makes attempts until one is not blocked by another transaction. An attempt that meets held
// accounts is retried under another name.
func (s *Service) runAttempts(ctx context.Context, w *attempts, parts []part) (account.Outcome, error) {
	for try := 0; ; try++ {
		out, ended, err := s.attempt(ctx, w.tx, parts)
		if w.contended {
			s.leaveTurns(w.tx.ID, parts, func(p *part) bool { return err != nil || !p.prepared() })
		}
		result := codeName(out.Code)
		if err != nil {
			result = unavailable
		}
		s.stats.transactions.WithLabelValues(result).Inc()
		if err != nil || (out.Code != account.Held && out.Code != account.Aborted) {
			return out, err
		}
		s.hot.note(parts)
		if w.inTurn || ended { // the obstacle is gone, or will be soon
			try = 0
		}
		if w.contended && !pause(ctx, try) {
			out.Code = account.Held
			return out, nil
		}
		s.awaitTurns(ctx, w, parts)
	}
}

// attempt makes one try under a new name. After Held and Aborted, nothing was applied and the
// caller may try again. ended means that the holder of the account no longer holds it.
func (s *Service) attempt(ctx context.Context, tx account.Tx, parts []part) (out account.Outcome, ended bool, err error) {
	for i := range parts {
		parts[i].doubt = false
	}
	s.prepareAll(ctx, tx, parts)
	if len(parts[0].more) == 0 { // otherwise each call of a failed bundle is retried alone
		s.checkAgain(ctx, tx, parts)
	}
	out, ready, err := conclude(parts)
	if !ready {
		s.end(tx, parts, false)
		if out.Code == account.Held && err == nil {
			ended = s.resolve(ctx, heldAt(parts), out.Holder)
		}
		return out, ended, err
	}
	out, err = s.decide(ctx, tx, parts)
	return out, false, err
}

// prepareAll sends Begin to the home and Prepare to the other ranges concurrently.
func (s *Service) prepareAll(ctx context.Context, tx account.Tx, parts []part) {
	var wg sync.WaitGroup
	for i := range parts[1:] {
		p := &parts[i+1]
		wg.Go(func() { s.prepare(ctx, tx, p, nil) })
	}
	s.prepare(ctx, tx, &parts[0], parts[1:])
	wg.Wait()
}

// prepare prepares one part; others is set only for the home. It is safe to repeat, since the
// command carries the name of the attempt.
func (s *Service) prepare(ctx context.Context, tx account.Tx, p *part, others []part) {
	cmd, step := account.Command{Prepare: &account.Prepare{Tx: tx, Part: p.request, More: p.more}}, "prepare"
	if others != nil {
		cmd, step = account.Command{Begin: &account.Begin{Tx: tx.ID, Home: tx.Home, Others: ranges(others), Part: p.request, More: p.more}}, "begin"
	}
	if s.stopAt(step, tx.Home) {
		p.out, p.err = account.Outcome{}, errStopped
		return
	}
	p.out, p.doubt, p.err = s.submitTracked(ctx, p.id, p.owner, &cmd, retry{unknown: true}, p.doubt)
}

// checkAgain checks a failed part again while the others hold, so that all balances in the answer
// belong to one moment. If more parts have failed, it keeps only the statuses of these.
func (s *Service) checkAgain(ctx context.Context, tx account.Tx, parts []part) {
	failed, held := failures(parts), count(parts, func(p *part) bool { return p.err == nil && p.out.Code == account.Done })
	if failed == 0 || failed+held < len(parts) { // another attempt will follow
		return
	}
	first := true
	for i := range parts {
		p := &parts[i]
		switch {
		case p.out.Code != account.Failed:
			continue
		case !first: // without its balances
			for i, r := range p.out.Results {
				p.out.Results[i] = account.Result{Status: r.Status, Message: r.Message}
			}
		case held == 0: // the answer contains only this part's balances
		case i == 0:
			s.prepare(ctx, tx, p, parts[1:])
		default:
			s.prepare(ctx, tx, p, nil)
		}
		first = false
	}
}

func count(parts []part, match func(p *part) bool) (n int) {
	for i := range parts {
		if match(&parts[i]) {
			n++
		}
	}
	return n
}

func failures(parts []part) int {
	return count(parts, func(p *part) bool { return p.err == nil && p.out.Code == account.Failed })
}

// conclude combines the outcomes of the preparations: ready to commit, or an answer. The caller
// gets the first outcome that applies in the order of the checks.
func conclude(parts []part) (out account.Outcome, ready bool, err error) {
	home := &parts[0]
	if home.err == nil && home.out.Code == account.Repeated {
		return home.out, false, nil
	}
	for _, code := range []account.Code{account.Mismatched, account.Full} {
		for i := range parts {
			if parts[i].err == nil && parts[i].out.Code == code {
				return parts[i].out, false, nil
			}
		}
	}
	for i := range parts {
		if parts[i].err != nil {
			return account.Outcome{}, false, notDone(parts[i].err)
		}
	}
	for i := range parts {
		switch parts[i].out.Code {
		case account.Done, account.Failed:
		case account.Held:
			return parts[i].out, false, nil
		default: // aborted by a node that took this coordinator for dead, or remembered in one range only for a moment longer
			return account.Outcome{Code: account.Aborted}, false, nil
		}
	}
	if failures(parts) > 0 {
		return account.Outcome{Code: account.Failed, Results: merged(parts), Under: mergedUnder(parts), At: home.out.At}, false, nil
	}
	return account.Outcome{}, true, nil
}

// heldAt returns the range of the first part that met a holder.
func heldAt(parts []part) quota.RangeID {
	for i := range parts {
		if parts[i].err == nil && parts[i].out.Code == account.Held {
			return parts[i].id
		}
	}
	return parts[0].id
}

// notDone removes the doubt from a preparation's error: only the coordinator commits, and it will
// not.
func notDone(err error) error {
	if u := (*UnavailableError)(nil); errors.As(err, &u) {
		return &UnavailableError{Overloaded: u.Overloaded, Reason: u.Reason}
	}
	return err
}

// merged returns the results of all parts, in the order of the call.
func merged(parts []part) []account.Result {
	n := 0
	for i := range parts {
		n += len(parts[i].request.Ops)
	}
	out := make([]account.Result, n)
	for i := range parts {
		p := &parts[i]
		for j, at := range p.request.Indexes {
			if j < len(p.out.Results) {
				out[at] = p.out.Results[j]
			}
		}
	}
	return out
}

// mergedUnder returns the policies that applied to the operations of all parts, in the order of the
// call.
func mergedUnder(parts []part) []*account.PolicyRef {
	var out []*account.PolicyRef
	for i := range parts {
		p := &parts[i]
		for j, at := range p.request.Indexes {
			for int(at) >= len(out) {
				out = append(out, nil)
			}
			if j < len(p.out.Under) {
				out[at] = p.out.Under[j]
			}
		}
	}
	return out
}

// tallyCommitted adds the units that a committed transaction took to the tally.
func (s *Service) tallyCommitted(parts []part) {
	for i := range parts {
		p := &parts[i]
		ops := p.request.Ops
		for k := range p.more {
			ops = slices.Concat(ops, p.more[k].Ops)
		}
		s.tally.count(ops, p.out.Under)
	}
}

// decide commits a transaction that all ranges have prepared.
func (s *Service) decide(ctx context.Context, tx account.Tx, parts []part) (account.Outcome, error) {
	if s.stopAt("decide", tx.Home) {
		return account.Outcome{}, &UnavailableError{Unknown: true, Reason: errStopped.Error()}
	}
	results := merged(parts)
	cmd := account.Command{Decide: &account.Decide{Tx: tx.ID, Commit: true, Results: results}}
	for k := range parts[0].more {
		cmd.Decide.More = append(cmd.Decide.More, resultsOf(parts, k+1))
	}
	out, doubt, err := s.submitTracked(ctx, tx.Home, "", &cmd, retry{unknown: true, overloaded: true}, false)
	if err != nil {
		// err may hide the doubt: for a caller that has left, it is only context.Canceled.
		if !doubt { // otherwise any node that looks at the record learns the decision
			s.end(tx, parts, false)
		} else {
			s.learn(tx, parts)
		}
		return out, err
	}
	switch out.Code {
	case account.Done, account.Committed:
		s.tallyCommitted(parts)
		if !s.stopAt("decided", tx.Home) {
			s.end(tx, parts, true)
		}
		return account.Outcome{Code: account.Done, Results: results, At: out.At}, nil
	case account.Aborted:
		s.end(tx, parts, false)
	}
	return out, nil
}

// ranges returns the ranges of the parts, ascending.
func ranges(parts []part) []quota.RangeID {
	out := make([]quota.RangeID, len(parts))
	for i := range parts {
		out[i] = parts[i].id
	}
	slices.Sort(out)
	return out
}
