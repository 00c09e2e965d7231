package account

import (
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// model is a slow and simple implementation of the store: it copies whole maps, and refills in a
// loop over seconds.
type model struct {
	now      quota.Time
	accounts map[ID]modelAccount
	requests map[[2]string]modelRequest
	txs      map[TxID]modelTx
	ended    map[TxID]ended
}

type modelAccount struct {
	balance           int64
	updated, refilled quota.Time
	policySet         quota.Time
	ref               *PolicyRef
	rule              Policy
	history           []Change
}

type modelRequest struct {
	hash        Hash
	results     []Result
	at, expires quota.Time
	elsewhere   bool
}

type modelTx struct {
	home            quota.RangeID
	atHome          bool
	decided, commit bool
	since           quota.Time
	requests        []*Request
	accounts        []map[ID]modelAccount // the accounts as each request leaves them
	results         []Result
}

func (tx *modelTx) changes(id ID) bool {
	return slices.ContainsFunc(tx.accounts, func(m map[ID]modelAccount) bool { _, ok := m[id]; return ok })
}

func newModel() *model {
	return &model{
		accounts: map[ID]modelAccount{}, requests: map[[2]string]modelRequest{},
		txs: map[TxID]modelTx{}, ended: map[TxID]ended{},
	}
}

// cron refills a balance second by second.
func cron(balance int64, p Policy, from, to quota.Time) int64 {
	if p.Refill.Interval == 0 {
		if p.Refill.Units > 0 && balance < p.Limit {
			return p.Limit
		}
		return balance
	}
	first := time.Unix(0, int64(from)).Unix() + 1
	last := time.Unix(0, int64(to)).Unix()
	for s := first; s <= last && !settled(balance, p); s++ {
		balance = cronAt(balance, p, s)
	}
	return balance
}

// settled reports that the job no longer changes the balance.
func settled(balance int64, p Policy) bool {
	return p.Refill.Units >= 0 && balance >= p.Limit || p.Refill.Units <= 0 && balance <= 0 || p.Refill.Units == 0
}

// cronAt returns the balance after the job of one second.
func cronAt(balance int64, p Policy, s int64) int64 {
	r := p.Refill
	ofDay := ((s-int64(r.Offset))%86400 + 86400) % 86400
	switch {
	case ofDay%int64(r.Interval) != 0:
	case r.Units > 0 && balance < p.Limit:
		return min(balance+r.Units, p.Limit)
	case r.Units < 0 && balance > 0:
		return max(balance+r.Units, 0)
	}
	return balance
}

func (m *model) alive(id ID) (modelAccount, bool) {
	a, ok := m.accounts[id]
	if !ok || a.ref != nil && a.rule.Lifetime > 0 && a.updated.Add(a.rule.Lifetime) <= m.now {
		return modelAccount{}, false
	}
	return a, true
}

// try runs a request on copies.
func (m *model) try(r *Request) (map[ID]modelAccount, []Result, bool) {
	work, before := map[ID]modelAccount{}, map[ID]modelAccount{}
	results := make([]Result, len(r.Ops))
	good := true
	for i, o := range r.Ops {
		a, exists := work[o.Account]
		if !exists {
			if a, exists = m.alive(o.Account); exists {
				a = m.touch(a)
				before[o.Account] = a
			}
		}
		next, res := m.op(a, exists, o)
		results[i] = res
		if res.Status == Success {
			next.updated = m.now
			work[o.Account] = next
		}
		good = good && res.Status == Success
	}
	for id, a := range work {
		c := Change{At: m.now, By: r.By, RequestID: r.ID, Previous: before[id].balance, New: a.balance}
		if a.ref != nil && a.policySet == m.now && (before[id].ref == nil || changedPolicy(before[id].ref, r, id)) {
			c.Policy = a.ref
		}
		a.history = append([]Change{c}, a.history...)
		a.history = a.history[:min(len(a.history), MaxHistory)]
		work[id] = a
	}
	return work, results, good
}

// changedPolicy reports whether an operation set a policy other than the one before.
func changedPolicy(ref *PolicyRef, r *Request, id ID) bool {
	for _, o := range r.Ops {
		if o.Account == id && o.Policy != nil && *o.Policy != *ref {
			return true
		}
	}
	return false
}

func (m *model) touch(a modelAccount) modelAccount {
	if a.ref != nil {
		if b := cron(a.balance, a.rule, a.updated, m.now); b != a.balance {
			a.balance, a.refilled = b, m.now
		}
	}
	a.updated = m.now
	return a
}

func (m *model) op(a modelAccount, exists bool, o Op) (modelAccount, Result) {
	res := Result{Previous: a.balance, Adjusted: a.balance, Created: !exists}
	fail := func(s Status) (modelAccount, Result) {
		return a, Result{Previous: res.Previous, Adjusted: res.Adjusted, Created: res.Created, Status: s}
	}
	has := func(bit OpOptions) bool { return o.Options&bit != 0 }
	if has(IgnorePolicyBounds) && has(DoNotCapProposed) {
		return a, Result{Status: Unknown}
	}
	n := a
	if o.Policy != nil {
		if o.Rule == nil {
			return fail(UnknownPolicy)
		}
		if n.ref == nil || *n.ref != *o.Policy {
			if n.ref != nil && has(WithPolicyLimitDelta) {
				n.balance = n.balance + o.Rule.Limit - n.rule.Limit
				res.Adjusted = n.balance
			}
			n.ref, n.rule, n.policySet = o.Policy, *o.Rule, m.now
		}
		if !exists {
			n.balance = n.rule.Default
		}
		n.balance = infinite(n, n.balance)
	}
	var want int64
	if o.RelativeTo == Zero {
		want = o.Delta
	} else {
		if !exists && n.ref == nil {
			return fail(MissingAccount)
		}
		if o.RelativeTo != Balance && n.ref == nil {
			return fail(PolicyRequired)
		}
		want = map[RelativeTo]int64{Balance: n.balance, Default: n.rule.Default, Limit: n.rule.Limit}[o.RelativeTo] + o.Delta
	}
	if !has(IgnorePolicyBounds) {
		if n.ref == nil {
			return fail(PolicyRequired)
		}
		adds := o.RelativeTo == Balance && o.Delta >= 0
		if !has(DoNotCapProposed) && want > n.rule.Limit {
			if want = n.rule.Limit; adds && n.balance > want {
				want = n.balance
			}
		}
		if want < 0 && want < n.balance {
			return fail(Underflow)
		}
		if want > n.rule.Limit && want > n.balance {
			return fail(Overflow)
		}
		if want >= 0 && want <= n.rule.Limit {
			want = infinite(n, want)
		}
	}
	for _, v := range []int64{res.Adjusted, want} {
		if v > Most {
			return fail(Overflow)
		}
		if v < -Most {
			return fail(Underflow)
		}
	}
	n.balance, res.New = want, want
	return n, res
}

func infinite(a modelAccount, balance int64) int64 {
	if a.rule.Refill.Units > 0 && a.rule.Refill.Interval == 0 && balance < a.rule.Limit {
		return a.rule.Limit
	}
	return balance
}

func (m *model) admit(r *Request, home bool) (Outcome, bool) {
	q, known := m.requests[[2]string{r.By, r.ID}]
	if r.ID != "" && known && q.expires > m.now {
		if q.hash != r.Hash || home && q.elsewhere {
			return Outcome{Code: Mismatched, At: m.now}, false
		}
		if home {
			return Outcome{Code: Repeated, Results: q.results, At: q.at}, false
		}
	}
	for id, tx := range m.txs { // all matches give the same answer
		if tx.decided {
			continue
		}
		if r.ID != "" && slices.ContainsFunc(tx.requests, func(o *Request) bool { return o.ID == r.ID && o.By == r.By }) {
			return Outcome{Code: Held, Holder: Tx{ID: id, Home: tx.home}, At: m.now}, false
		}
	}
	for _, o := range r.Ops {
		for id, tx := range m.txs {
			if tx.changes(o.Account) && !tx.decided {
				return Outcome{Code: Held, Holder: Tx{ID: id, Home: tx.home}, At: m.now}, false
			}
		}
	}
	return Outcome{}, true
}

func (m *model) store(work map[ID]modelAccount) {
	maps.Copy(m.accounts, work)
}

func (m *model) remember(r *Request, results []Result, elsewhere bool) {
	if r.ID == "" {
		return
	}
	ttl := r.TTL
	if ttl == 0 {
		ttl = 2 * time.Hour
	}
	m.requests[[2]string{r.By, r.ID}] = modelRequest{r.Hash, results, m.now, m.now.Add(ttl), elsewhere}
}

func (m *model) hold(id TxID, tx modelTx, requests []*Request) Outcome {
	if old, ok := m.txs[id]; ok {
		if old.decided {
			return Outcome{Code: map[bool]Code{true: Committed, false: Aborted}[old.commit], At: m.now}
		}
		return Outcome{Code: Done, Results: old.results, At: old.since}
	}
	if e, ok := m.ended[id]; ok && e.until > m.now {
		return Outcome{Code: map[bool]Code{true: Committed, false: Aborted}[e.commit], At: m.now}
	}
	now := maps.Clone(m.accounts)
	defer func() { m.accounts = now }()
	for i, r := range requests {
		if out, ok := m.admit(r, tx.atHome); !ok {
			return out
		}
		if r.ID != "" && slices.ContainsFunc(requests[:i], func(o *Request) bool { return o.ID == r.ID && o.By == r.By }) {
			return Outcome{Code: Held, Holder: Tx{ID: id, Home: tx.home}, At: m.now}
		}
		work, results, good := m.try(r)
		if !good {
			return Outcome{Code: Failed, Results: results, At: m.now}
		}
		m.store(work) // visible to the next requests
		tx.accounts, tx.results = append(tx.accounts, work), append(tx.results, results...)
	}
	tx.since, tx.requests = m.now, requests
	m.txs[id] = tx
	return Outcome{Code: Done, Results: tx.results, At: m.now}
}

func (m *model) end(id TxID, commit bool) {
	if e, ok := m.ended[id]; !ok || e.until <= m.now {
		m.ended[id] = ended{id, commit, m.now.Add(10 * time.Minute)}
	}
}

func (m *model) apply(at quota.Time, c *Command) Outcome {
	if at > m.now {
		m.now = at
	}
	switch {
	case c.Apply != nil:
		if out, ok := m.admit(c.Apply, true); !ok {
			return out
		}
		work, results, good := m.try(c.Apply)
		if !good {
			return Outcome{Code: Failed, Results: results, At: m.now}
		}
		m.store(work)
		m.remember(c.Apply, results, false)
		return Outcome{Code: Done, Results: results, At: m.now}
	case c.Begin != nil:
		return m.hold(c.Begin.Tx, modelTx{home: c.Begin.Home, atHome: true}, inOrder(&c.Begin.Part, c.Begin.More))
	case c.Prepare != nil:
		return m.hold(c.Prepare.Tx.ID, modelTx{home: c.Prepare.Tx.Home}, inOrder(&c.Prepare.Part, c.Prepare.More))
	case c.Decide != nil:
		return m.decide(c.Decide)
	case c.Finish != nil:
		tx, ok := m.txs[c.Finish.Tx]
		if ok && tx.atHome {
			return Outcome{At: m.now}
		}
		for i := range tx.accounts {
			if c.Finish.Commit {
				m.store(tx.accounts[i])
				m.remember(tx.requests[i], nil, true)
			}
		}
		delete(m.txs, c.Finish.Tx)
		m.end(c.Finish.Tx, c.Finish.Commit)
	case c.Forget != nil:
		tx, ok := m.txs[*c.Forget]
		if ok && (!tx.atHome || !tx.decided) {
			return Outcome{Code: Held, Holder: Tx{*c.Forget, tx.home}, At: m.now}
		}
		if ok {
			delete(m.txs, *c.Forget)
			m.end(*c.Forget, tx.commit)
		}
	}
	return Outcome{At: m.now}
}

func (m *model) decide(d *Decide) Outcome {
	code := map[bool]Code{true: Committed, false: Aborted}
	tx, ok := m.txs[d.Tx]
	switch {
	case ok && !tx.atHome:
		return Outcome{Code: Held, Holder: Tx{d.Tx, tx.home}, At: m.now}
	case ok && tx.decided:
		return Outcome{Code: code[tx.commit], At: m.now}
	case !ok:
		if e, known := m.ended[d.Tx]; known && e.until > m.now {
			return Outcome{Code: code[e.commit], At: m.now}
		}
		m.end(d.Tx, false)
		if d.Commit {
			return Outcome{Code: Aborted, At: m.now}
		}
		return Outcome{At: m.now}
	}
	out := Outcome{At: m.now}
	if d.Commit {
		for i, answer := range append([][]Result{d.Results}, d.More...)[:len(tx.accounts)] {
			m.store(tx.accounts[i])
			m.remember(tx.requests[i], answer, false)
		}
		out.Results = d.Results
	}
	tx.decided, tx.commit, tx.accounts = true, d.Commit, nil
	m.txs[d.Tx] = tx
	return out
}
