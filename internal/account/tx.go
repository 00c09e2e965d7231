package account

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// rememberEnded is how long the store remembers the result of an ended transaction: at home after
// Forget, elsewhere after Finish. No message is delivered later than this after it was sent.
const rememberEnded = 10 * time.Minute

// maxEnded bounds the remembered transactions; the oldest go first.
const maxEnded = 1 << 19

// txn is a transaction until Forget, or until Finish where another range is home. It is replaced,
// not changed, once it is stored.
type txn struct {
	tx              Tx
	atHome          bool
	since           quota.Time
	others          []quota.RangeID // at home
	decided, commit bool            // at home
	parts           []*part         // the parts prepared here, in order; none once decided
}

// part is the effect of a request on this range.
type part struct {
	by, id  string
	hash    Hash
	ttl     time.Duration
	records []*record // the new accounts, without version
	results []Result
	created int // how many of the accounts are new
}

// lasts returns how long the store remembers the request's id.
func (p *part) lasts() time.Duration {
	if p.ttl <= 0 {
		return DefaultTTL
	}
	return p.ttl
}

// hold marks an account as part of an undecided transaction.
type hold struct {
	key string
	tx  Tx
}

// ended records the result of a transaction that is over.
type ended struct {
	id     TxID
	commit bool
	until  quota.Time
}

func lessTx(a, b *txn) bool   { return bytes.Compare(a.tx.ID[:], b.tx.ID[:]) < 0 }
func lessHold(a, b hold) bool { return a.key < b.key }
func lessEnded(a, b ended) bool {
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

func lessEndedOrder(a, b ended) bool {
	return a.until < b.until || a.until == b.until && lessEnded(a, b)
}

// begin makes a record at home and prepares the home's part.
func (s *Store) begin(at quota.Time, b *Begin) Outcome {
	requests := inOrder(&b.Part, b.More)
	if out, known := s.known(at, b.Tx, requests); known {
		return out
	}
	t := &txn{tx: Tx{ID: b.Tx, Home: b.Home}, atHome: true, since: at, others: b.Others}
	return s.hold(at, t, requests)
}

func (s *Store) prepare(at quota.Time, p *Prepare) Outcome {
	requests := inOrder(&p.Part, p.More)
	if out, known := s.known(at, p.Tx.ID, requests); known {
		return out
	}
	return s.hold(at, &txn{tx: p.Tx, since: at}, requests)
}

func inOrder(first *Request, more []Request) []*Request {
	out := []*Request{first}
	for i := range more {
		out = append(out, &more[i])
	}
	return out
}

// known answers a Begin or Prepare of a transaction that this range has seen before.
func (s *Store) known(at quota.Time, id TxID, requests []*Request) (Outcome, bool) {
	if t := s.tx(id); t != nil {
		if t.decided {
			return Outcome{Code: decision(t.commit), At: at}, true
		}
		out := Outcome{Code: Done, At: t.since}
		for i, p := range t.parts[:min(len(t.parts), len(requests))] {
			out.Results = append(out.Results, p.results...)
			out.Under = append(out.Under, policiesOf(requests[i].Ops, p.records)...)
		}
		return out, true
	}
	if e, ok := s.endedAt(at, id); ok {
		return Outcome{Code: decision(e.commit), At: at}, true
	}
	return Outcome{}, false
}

func decision(commit bool) Code {
	if commit {
		return Committed
	}
	return Aborted
}

func (s *Store) tx(id TxID) *txn {
	t, _ := s.txs.Get(&txn{tx: Tx{ID: id}})
	return t
}

// hold prepares all requests or none. It holds their accounts and request ids and reserves room, so
// that nothing can prevent the commit later.
func (s *Store) hold(at quota.Time, t *txn, requests []*Request) Outcome {
	if n := s.txs.Len(); n >= s.bounds.MaxTx {
		return Outcome{Code: Full, At: at, Message: fmt.Sprintf("the range has %d transactions under way: at most %d", n, s.bounds.MaxTx)}
	}
	s.preparing = t
	defer func() { s.preparing = nil }()
	all := Outcome{Code: Done, At: at}
	for _, r := range requests {
		p, out := s.try(at, r, t.atHome)
		if out.Code != Done {
			s.release(t)
			return out
		}
		s.holdPart(t, p)
		all.Results, all.Under = append(all.Results, out.Results...), append(all.Under, out.Under...)
	}
	s.txs.Set(t)
	return all
}

// prepared returns the account as the transaction being prepared will leave it, or nil if the
// transaction does not change it.
func (s *Store) prepared(key string) *record {
	if s.preparing == nil {
		return nil
	}
	for _, p := range slices.Backward(s.preparing.parts) {
		for _, r := range p.records {
			if r.key == key {
				return r
			}
		}
	}
	return nil
}

func (s *Store) holdPart(t *txn, p *part) {
	t.parts = append(t.parts, p)
	for _, r := range p.records {
		s.holds.Set(hold{key: r.key, tx: t.tx})
	}
	s.reserved.accounts += p.created
	if p.id != "" {
		s.reserved.requests++
		s.pending[appliedKey(p.by, p.id)] = t
	}
}

// release frees the accounts, request ids and room that hold took.
func (s *Store) release(t *txn) {
	for _, p := range t.parts {
		for _, r := range p.records {
			s.holds.Delete(hold{key: r.key})
		}
		s.reserved.accounts -= p.created
		if p.id != "" {
			s.reserved.requests--
			delete(s.pending, appliedKey(p.by, p.id))
		}
	}
}

// decide commits or aborts at home.
func (s *Store) decide(at quota.Time, d *Decide) Outcome {
	t := s.tx(d.Tx)
	switch {
	case t == nil:
		return s.decideUnknown(at, d)
	case !t.atHome: // only home decides
		return Outcome{Code: Held, Holder: t.tx, At: at}
	case t.decided:
		return Outcome{Code: decision(t.commit), At: at}
	}
	s.release(t)
	out := Outcome{Code: Done, At: at}
	if d.Commit {
		for i, p := range t.parts {
			s.commit(at, p, d.of(i), false)
		}
		out.Results = d.Results
	}
	s.txs.Set(&txn{tx: t.tx, atHome: true, since: t.since, others: t.others, decided: true, commit: d.Commit})
	return out
}

// of returns the results of one of the calls.
func (d *Decide) of(call int) []Result {
	switch {
	case call == 0:
		return d.Results
	case call <= len(d.More):
		return d.More[call-1]
	}
	return nil
}

// decideUnknown answers for a transaction without a record: its remembered result or, if it has
// none, an abort that keeps it from being begun.
func (s *Store) decideUnknown(at quota.Time, d *Decide) Outcome {
	if e, ok := s.endedAt(at, d.Tx); ok {
		return Outcome{Code: decision(e.commit), At: at}
	}
	s.end(at, d.Tx, false)
	if d.Commit {
		return Outcome{Code: Aborted, At: at}
	}
	return Outcome{Code: Done, At: at}
}

// finish carries out a decision where another range is home. At home, decide has already done so.
func (s *Store) finish(at quota.Time, f *Finish) Outcome {
	t := s.tx(f.Tx)
	if t != nil && t.atHome {
		return Outcome{Code: Done, At: at}
	}
	if t != nil {
		s.release(t)
		for _, p := range t.parts {
			if f.Commit {
				s.commit(at, p, nil, true)
			}
		}
		s.txs.Delete(t)
	}
	s.end(at, f.Tx, f.Commit)
	return Outcome{Code: Done, At: at}
}

// forget drops the record of a decided transaction.
func (s *Store) forget(at quota.Time, id TxID) Outcome {
	t := s.tx(id)
	switch {
	case t == nil:
		return Outcome{Code: Done, At: at}
	case !t.atHome || !t.decided:
		return Outcome{Code: Held, Holder: t.tx, At: at}
	}
	s.txs.Delete(t)
	s.end(at, id, t.commit)
	return Outcome{Code: Done, At: at}
}

// end remembers the result of an ended transaction, unless one is remembered already.
func (s *Store) end(at quota.Time, id TxID, commit bool) {
	if _, ok := s.endedAt(at, id); ok {
		return
	}
	s.dropEnded(id)
	e := ended{id: id, commit: commit, until: at.Add(rememberEnded)}
	s.ended.Set(e)
	s.endedOrder.Set(e)
	for s.ended.Len() > maxEnded {
		oldest, _ := s.endedOrder.Min()
		s.dropEnded(oldest.id)
	}
}

// endedAt returns the remembered result of a transaction, if it has not expired at that time.
func (s *Store) endedAt(at quota.Time, id TxID) (ended, bool) {
	e, ok := s.ended.Get(ended{id: id})
	return e, ok && e.until > at
}

func (s *Store) dropEnded(id TxID) {
	if e, ok := s.ended.Delete(ended{id: id}); ok {
		s.endedOrder.Delete(e)
	}
}

func (s *Store) collectEnded(at quota.Time, most int) {
	for range most {
		e, ok := s.endedOrder.Min()
		if !ok || e.until > at {
			return
		}
		s.dropEnded(e.id)
	}
}
