package account

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// View is a store at one moment. Safe for concurrent use. The zero value is empty.
type View struct {
	now      quota.Time
	changes  uint64
	accounts tree[*record]
	applied  tree[*applied]
	txs      tree[*txn]
	holds    tree[hold]
	ended    tree[ended]
}

// View returns the state as it is now, in constant time: it does not change with
// the store.
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

// State is an account as a view has it.
type State struct {
	ID        ID
	Exists    bool
	Balance   int64
	Projected int64 // with refills up to the asked time
	Updated   quota.Time
	Refilled  quota.Time // when a refill last changed the balance; 0 is never
	Expires   quota.Time // 0 is never
	Policy    *PolicyRef // nil: none
	Rule      *Policy
	PolicySet quota.Time
	Next      quota.Time // of the refill that would change it; 0 is none
	Version   uint64     // grows with every change, and when it is made anew; 0 does not exist
	Holder    Tx         // of the transaction that holds it; zero: nobody
	History   []Change   // newest first; only from History
}

// Change is what one request has done to an account.
type Change struct {
	At            quota.Time
	By, RequestID string
	Previous, New int64
	Policy        *PolicyRef // that it set, if it did
}

// Get returns an account as it is at now; one that has expired does not exist. A
// time below the newest that the store has seen counts as that.
func (v View) Get(now quota.Time, id ID) State {
	s, _ := v.get(now, id)
	return s
}

// History is Get with the last changes.
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

// Pending is a transaction that somebody has to bring to its end.
type Pending struct {
	Tx     Tx
	Since  quota.Time      // begun or prepared
	Others []quota.RangeID // at home
	// Decided and Commit are known at home only.
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

// Decision returns what home knows of a transaction, also for 10 minutes after it was
// forgotten or marked as aborted; AtHome is false then.
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
