package account

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// View is the state of a store at one moment. It is safe for concurrent use. The zero value is
// empty.
type View struct {
	now      quota.Time
	changes  uint64
	accounts tree[*record]
	applied  tree[*applied]
	txs      tree[*txn]
	holds    tree[hold]
	ended    tree[ended]
}

// View returns the current state, in constant time. Later changes of the store do not affect it.
func (s *Store) View() View {
	s.init()
	if s.view == nil {
		s.view = &View{
			now: s.now, changes: s.changes,
			accounts: s.accounts.copy(), applied: s.applied.copy(), txs: s.txs.copy(), holds: s.holds.copy(), ended: s.ended.copy(),
		}
	}
	return *s.view
}

// State is an account in a view.
type State struct {
	ID        ID
	Exists    bool
	Balance   int64
	Projected int64 // with refills up to the given time
	Updated   quota.Time
	Refilled  quota.Time // when a refill last changed the balance; 0 means never
	Expires   quota.Time // 0 means never
	Policy    *PolicyRef // nil means no policy
	Rule      *Policy
	PolicySet quota.Time
	Next      quota.Time // time of the next refill that changes the balance; 0 means no refill
	Version   uint64     // grows with every change, also when the account is created again; 0 if it does not exist
	Holder    Tx         // the transaction that holds the account, or zero
	History   []Change   // newest first; only from View.History
}

// Change is the effect of one request on an account.
type Change struct {
	At            quota.Time
	By, RequestID string
	Previous, New int64
	Policy        *PolicyRef // the policy that the request set, if any
}

// Get returns an account as of now; an expired one does not exist. A time before the newest that
// the store has seen counts as that.
func (v View) Get(now quota.Time, id ID) State {
	s, _ := v.get(now, id)
	return s
}

// History returns the account as Get does, with its last changes.
func (v View) History(now quota.Time, id ID) State {
	s, r := v.get(now, id)
	if r == nil {
		return s
	}
	s.History, _ = unpackHistory(make([]Change, 0, MaxHistory), r.history, r.policy)
	slices.Reverse(s.History)
	return s
}

func (v View) get(now quota.Time, id ID) (State, *record) {
	if v.accounts.none() {
		return State{ID: id}, nil
	}
	now = max(now, v.now)
	key := id.key()
	s := State{ID: id}
	r, ok := v.accounts.Get(&record{key: key})
	if ok && !r.expired(now) {
		s = r.state(now, id)
	} else {
		r = nil
	}
	s.Holder = v.holder(key)
	return s, r
}

func (v View) holder(key string) Tx {
	h, _ := v.holds.Get(hold{key: key})
	return h.tx
}

// Pending is a transaction that a coordinator must still end.
type Pending struct {
	Tx     Tx
	Since  quota.Time      // when begun or prepared
	Others []quota.RangeID // at home
	// Decided and Commit are set at home only.
	Decided, Commit bool
	AtHome          bool
}

// Pending returns up to limit transactions, oldest first.
func (v View) Pending(limit int) []Pending {
	if v.txs.none() || limit <= 0 {
		return nil
	}
	list := make([]Pending, 0, v.txs.Len())
	v.txs.Scan(func(t *txn) bool {
		list = append(list, t.pending())
		return true
	})
	slices.SortStableFunc(list, func(a, b Pending) int { return cmp.Compare(a.Since, b.Since) })
	return list[:min(limit, len(list))]
}

func (t *txn) pending() Pending {
	return Pending{Tx: t.tx, Since: t.since, Others: slices.Clone(t.others), Decided: t.decided, Commit: t.commit, AtHome: t.atHome}
}

// Decision returns the home's record of a transaction. For 10 minutes after the transaction was
// forgotten or marked as aborted it still returns the decision, with AtHome false.
func (v View) Decision(id TxID) (p Pending, known bool) {
	if v.txs.none() {
		return Pending{}, false
	}
	if t, ok := v.txs.Get(&txn{tx: Tx{ID: id}}); ok {
		return t.pending(), true
	}
	if e, ok := v.ended.Get(ended{id: id}); ok && e.until > v.now {
		return Pending{Tx: Tx{ID: id}, Decided: true, Commit: e.commit}, true
	}
	return Pending{}, false
}
