package account

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds bounds a store. The zero value of a field means its default.
type Bounds struct {
	MaxAccounts int // default 4,000,000
	MaxRequests int // remembered request ids, default 2,000,000
	MaxAnswers  int // bytes of the remembered requests and their answers, default 512 MiB; one answer may exceed it
	MaxTx       int // transactions under way or not yet forgotten, default 10,000
}

func (b Bounds) orDefaults() Bounds {
	or := func(v, otherwise int) int {
		if v > 0 {
			return v
		}
		return otherwise
	}
	return Bounds{
		MaxAccounts: or(b.MaxAccounts, 4_000_000),
		MaxRequests: or(b.MaxRequests, 2_000_000),
		MaxAnswers:  or(b.MaxAnswers, 512<<20),
		MaxTx:       or(b.MaxTx, 10_000),
	}
}

// Store holds the accounts of one range: a deterministic state machine. The same commands at the
// same times give the same state on every replica, byte for byte in its snapshot. The bounds affect
// the outcome, so they must be the same on all replicas. The zero value is an empty store with
// default bounds. A Store is not safe for concurrent use; a [View] is.
type Store struct {
	bounds  Bounds
	now     quota.Time // newest time seen
	changes uint64     // number of account changes so far, the version of the newest

	accounts tree[*record]
	applied  tree[*applied]
	txs      tree[*txn]
	holds    tree[hold]
	ended    tree[ended]

	// The fields below are derived from those above, and no view has them.
	accountExpiry tree[expiry]
	appliedExpiry tree[expiry]
	appliedBytes  int // of all applied
	endedOrder    tree[ended]
	pending       map[string]*txn        // by request, keyed as in applied
	policies      map[policy]*policyUses // the policies that accounts have
	reserved      reserved
	preparing     *txn   // set while its requests are tried: each sees the accounts as those before it prepared them
	view          *View  // of the current state; nil when stale
	pivot         record // for look-ups
}

// reserved counts what prepared transactions will add.
type reserved struct{ accounts, requests int }

type policyUses struct {
	policy *policy
	uses   int
}

// New returns an empty store.
func New(b Bounds) *Store {
	s := &Store{bounds: b}
	s.init()
	return s
}

func (s *Store) init() {
	if !s.accounts.none() {
		return
	}
	s.bounds = s.bounds.orDefaults()
	s.accounts = newTree(lessRecord)
	s.applied = newTree(lessApplied)
	s.txs = newTree(lessTx)
	s.holds = newTree(lessHold)
	s.ended = newTree(lessEnded)
	s.accountExpiry = newTree(lessExpiry)
	s.appliedExpiry = newTree(lessExpiry)
	s.endedOrder = newTree(lessEndedOrder)
	s.pending = map[string]*txn{}
	s.policies = map[policy]*policyUses{}
}

// Apply runs one command. at is the time in the log entry; a time before an earlier entry's counts
// as that entry's.
func (s *Store) Apply(at quota.Time, c *Command) Outcome {
	s.init()
	s.view = nil
	s.now = max(s.now, at)
	switch {
	case c.Apply != nil:
		return s.applyRequest(s.now, c.Apply)
	case c.Begin != nil:
		return s.begin(s.now, c.Begin)
	case c.Prepare != nil:
		return s.prepare(s.now, c.Prepare)
	case c.Decide != nil:
		return s.decide(s.now, c.Decide)
	case c.Finish != nil:
		return s.finish(s.now, c.Finish)
	case c.Forget != nil:
		return s.forget(s.now, *c.Forget)
	case c.Collect != nil:
		most := min(c.Collect.Max, maxCollect)
		s.collectAccounts(s.now, most)
		s.collectApplied(s.now, most)
		s.collectEnded(s.now, most)
	}
	return Outcome{At: s.now}
}

// Now returns the time of the newest entry.
func (s *Store) Now() quota.Time { return s.now }

// Stats returns the store's size, for metrics and status.
func (s *Store) Stats() Stats {
	s.init()
	return Stats{Accounts: s.accounts.Len(), Requests: s.applied.Len(), Transactions: s.txs.Len()}
}

// Stats is the size of a store.
type Stats struct {
	Accounts, Requests, Transactions int
}

// applyRequest applies a request that involves this range alone.
func (s *Store) applyRequest(at quota.Time, r *Request) Outcome {
	part, out := s.try(at, r, true)
	if out.Code == Done {
		s.commit(at, part, part.results, false)
	}
	return out
}

// try computes the effect of a request, or of a part of one, without changing an account. Any code
// but Done says why the request cannot be applied. home says that this range answers repetitions.
func (s *Store) try(at quota.Time, r *Request, home bool) (*part, Outcome) {
	if err := r.checkHead(); err != nil {
		return nil, refused(at, r, err)
	}
	key := appliedKey(r.By, r.ID)
	if r.ID != "" {
		if out, known := s.repeated(at, key, r.Hash, home); known {
			return nil, out
		}
	}
	if holder := s.holder(key, r); holder != nil {
		return nil, Outcome{Code: Held, Holder: holder.tx, At: at}
	}
	d, results, ok := s.attempt(at, r)
	if !ok {
		return nil, Outcome{Code: Failed, Results: results, Under: d.under, At: at}
	}
	p := &part{by: r.By, id: r.ID, hash: r.Hash, ttl: r.TTL, results: results}
	p.records = d.records(at, r)
	if message := s.room(at, p); message != "" {
		return nil, Outcome{Code: Full, Message: message, At: at}
	}
	return p, Outcome{Code: Done, Results: results, Under: policiesOf(r.Ops, p.records), At: at}
}

// refused returns the outcome of a request that is invalid as a whole.
func refused(at quota.Time, r *Request, err error) Outcome {
	results := make([]Result, len(r.Ops))
	for i := range results {
		results[i] = Result{Status: Unknown, Message: err.Error()}
	}
	return Outcome{Code: Failed, Results: results, At: at}
}

// repeated looks up a request's id. If another range is home, only that range knows whether the id
// has expired.
func (s *Store) repeated(at quota.Time, key string, hash Hash, home bool) (Outcome, bool) {
	a, ok := s.applied.Get(&applied{key: key})
	switch {
	case !ok || a.expires <= at:
		return Outcome{}, false
	case a.hash != hash || home && a.elsewhere:
		return Outcome{Code: Mismatched, At: at}, true
	case !home:
		return Outcome{}, false
	}
	results, _ := unpackResults(a.results)
	return Outcome{Code: Repeated, Results: results, At: a.at}, true
}

// holder returns the transaction that a request would have to wait for, or nil.
func (s *Store) holder(key string, r *Request) *txn {
	if r.ID != "" {
		if t := s.pending[key]; t != nil { // possibly the one being prepared
			return t
		}
	}
	if s.holds.Len() == 0 {
		return nil
	}
	for i := range r.Ops {
		if h, ok := s.holds.Get(hold{key: r.Ops[i].Account.key()}); ok && (s.preparing == nil || h.tx != s.preparing.tx) {
			t, _ := s.txs.Get(&txn{tx: h.tx})
			return t
		}
	}
	return nil
}

// collectAtBound is how many expired entries a command deletes when it meets a bound.
const collectAtBound = 16

// room counts the accounts that p creates. It returns why the store has no room for p, or an empty
// string.
func (s *Store) room(at quota.Time, p *part) string {
	p.created = s.missing(p.records)
	if p.created > 0 && s.accounts.Len()+s.reserved.accounts+p.created > s.bounds.MaxAccounts {
		s.collectAccounts(at, collectAtBound)
		p.created = s.missing(p.records)
		if n := s.accounts.Len() + s.reserved.accounts; n+p.created > s.bounds.MaxAccounts {
			return fmt.Sprintf("the range has %d accounts, and %d more do not fit: at most %d", n, p.created, s.bounds.MaxAccounts)
		}
	}
	if p.id == "" {
		return ""
	}
	requests := func() int { return s.applied.Len() + s.reserved.requests }
	if requests() >= s.bounds.MaxRequests || s.appliedBytes >= s.bounds.MaxAnswers {
		s.collectApplied(at, collectAtBound)
	}
	switch {
	case requests() >= s.bounds.MaxRequests:
		return fmt.Sprintf("the range remembers %d request ids: at most %d; ids are forgotten when their request_id_ttl is over", requests(), s.bounds.MaxRequests)
	case s.appliedBytes >= s.bounds.MaxAnswers:
		return fmt.Sprintf("the range remembers %d bytes of request ids and their answers: at most %d; ids are forgotten when their request_id_ttl is over", s.appliedBytes, s.bounds.MaxAnswers)
	}
	return ""
}

// commit stores a part that try returned, and remembers the request. elsewhere says that another
// range keeps the results.
func (s *Store) commit(at quota.Time, p *part, results []Result, elsewhere bool) {
	for _, r := range p.records {
		s.changes++
		stored := *r
		stored.version = s.changes
		s.put(&stored)
	}
	if p.id == "" {
		return
	}
	a := &applied{key: appliedKey(p.by, p.id), hash: p.hash, at: at, expires: at.Add(p.lasts()), elsewhere: elsewhere}
	if !elsewhere {
		a.results = packResults(results)
	}
	s.remember(a)
}

// missing counts the records whose accounts do not exist yet.
func (s *Store) missing(list []*record) int {
	n := 0
	for _, r := range list {
		if s.find(r.key) == nil {
			n++
		}
	}
	return n
}

// find returns the account that a request sees, including prepared changes of its own transaction.
func (s *Store) find(key string) *record {
	if r := s.prepared(key); r != nil {
		return r
	}
	s.pivot.key = key
	r, _ := s.accounts.Get(&s.pivot)
	return r
}

// put stores an account and updates the indexes.
func (s *Store) put(r *record) {
	r.policy = s.use(r.policy)
	if old, ok := s.accounts.Set(r); ok {
		s.dropped(old)
	}
	s.added(r)
}

// putLast is put for an account that sorts after all others, as in a snapshot.
func (s *Store) putLast(r *record) {
	r.policy = s.use(r.policy)
	s.accounts.Load(r)
	s.added(r)
}

func (s *Store) added(r *record) {
	if e := r.expires(); e != 0 {
		s.accountExpiry.Set(expiry{at: e, key: r.key})
	}
}

// dropped removes a replaced or deleted record from the indexes. Call it before adding the
// replacement's entries.
func (s *Store) dropped(old *record) {
	if e := old.expires(); e != 0 {
		s.accountExpiry.Delete(expiry{at: e, key: old.key})
	}
	if old.policy == nil {
		return
	}
	u := s.policies[*old.policy]
	if u.uses--; u.uses == 0 {
		delete(s.policies, *old.policy)
	}
}

// use returns the shared copy of a policy and increments its count of uses.
func (s *Store) use(p *policy) *policy {
	if p == nil {
		return nil
	}
	u := s.policies[*p]
	if u == nil {
		u = &policyUses{policy: p}
		s.policies[*p] = u
	}
	u.uses++
	return u.policy
}

func (s *Store) remember(a *applied) {
	if old, ok := s.applied.Set(a); ok {
		s.appliedExpiry.Delete(expiry{at: old.expires, key: old.key})
		s.appliedBytes -= old.size()
	}
	s.appliedBytes += a.size()
	s.appliedExpiry.Set(expiry{at: a.expires, key: a.key})
}

// maxCollect bounds what one Collect deletes, per kind.
const maxCollect = 10_000

// collectAccounts skips held accounts; they count towards most.
func (s *Store) collectAccounts(at quota.Time, most int) {
	var over []expiry
	s.accountExpiry.Scan(func(e expiry) bool {
		if e.at > at || len(over) >= most {
			return false
		}
		over = append(over, e)
		return true
	})
	for _, e := range over {
		if _, held := s.holds.Get(hold{key: e.key}); held {
			continue
		}
		if old, ok := s.accounts.Delete(&record{key: e.key}); ok {
			s.dropped(old)
		}
	}
}

func (s *Store) collectApplied(at quota.Time, most int) {
	for range most {
		e, ok := s.appliedExpiry.Min()
		if !ok || e.at > at {
			return
		}
		s.appliedExpiry.Delete(e)
		if old, ok := s.applied.Delete(&applied{key: e.key}); ok {
			s.appliedBytes -= old.size()
		}
	}
}
