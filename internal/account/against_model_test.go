package account

import (
	"bytes"
	"reflect"
	"strconv"
	"testing"
	"time"
)

// TestAgainstModel plays random commands on a store, on the model, and on a second store that is
// written and restored in between.
func TestAgainstModel(t *testing.T) {
	const commands = 700
	codes, statuses := map[Code]int{}, map[Status]int{}
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			playModel(t, seed, commands, codes, statuses)
		})
	}
	for c := Done; c <= Aborted; c++ {
		if codes[c] == 0 && c != Full {
			t.Errorf("no command had outcome %d", c)
		}
	}
	for s := Success; s <= PolicyRequired; s++ {
		if statuses[s] == 0 {
			t.Errorf("no operation had status %d", s)
		}
	}
}

func playModel(t *testing.T, seed uint64, commands int, codes map[Code]int, statuses map[Status]int) {
	w := newWorld(t)
	g, m := newRandom(w, seed), newModel()
	second := New(Bounds{})
	for i := range commands {
		if g.IntN(3) == 0 {
			w.pass(time.Duration(g.Int64N(int64([]time.Duration{time.Second, time.Minute, 20 * time.Minute, 2 * time.Hour}[g.IntN(4)]))))
		}
		if g.IntN(50) == 0 {
			w.now-- // as from a new leader's clock
		}
		c := g.command()
		got := w.apply(w.store, c)
		want := m.apply(w.now, &c)
		other := w.apply(second, c)
		if !reflect.DeepEqual(got, other) {
			t.Fatalf("command %d: two stores answered %+v and %+v", i, got, other)
		}
		codes[got.Code]++
		for j := range got.Results {
			statuses[got.Results[j].Status]++
			got.Results[j].Message = ""
		}
		if !same(got, want) {
			t.Fatalf("command %d at %d: %+v\n got %+v\nwant %+v", i, w.now, c, got, want)
		}
		compareAccounts(t, w, m, g)
		if g.IntN(40) == 0 {
			second = New(Bounds{})
			if err := second.Restore(bytes.NewReader(snapshotOf(t, w.store.View()))); err != nil {
				t.Fatal(err)
			}
		}
		if t.Failed() {
			t.Fatalf("after command %d: %+v", i, c)
		}
	}
	if !bytes.Equal(snapshotOf(t, w.store.View()), snapshotOf(t, second.View())) {
		t.Error("the snapshots of two stores differ")
	}
	checkIndexes(t, w.store)
}

// same compares outcomes, with nil and empty results equal. The model has no Under; TestUnder
// covers it.
func same(a, b Outcome) bool {
	a.Under, b.Under = nil, nil
	if len(a.Results) == 0 && len(b.Results) == 0 {
		a.Results, b.Results = nil, nil
	}
	return reflect.DeepEqual(a, b)
}

func compareAccounts(t *testing.T, w *world, m *model, g *random) {
	t.Helper()
	v := w.store.View()
	for name := 'a'; name < 'a'+6; name++ {
		id := testID(string(name))
		got := v.History(m.now, id)
		a, ok := m.alive(id)
		if got.Exists != ok {
			t.Fatalf("%v exists: %v, want %v", id, got.Exists, ok)
		}
		if !ok {
			continue
		}
		projected := a.balance
		if a.ref != nil {
			projected = cron(a.balance, a.rule, a.updated, m.now)
		}
		if got.Balance != a.balance || got.Projected != projected || got.Updated != a.updated || got.Refilled != a.refilled ||
			got.PolicySet != a.policySet || !reflect.DeepEqual(got.History, a.history) {
			t.Fatalf("account %s:\n got %+v\nwant %+v, projected %d", id.Name, got, a, projected)
		}
	}
}

// checkIndexes checks the store's indexes against its primary data.
func checkIndexes(t *testing.T, s *Store) {
	t.Helper()
	expiring, requests := 0, 0
	uses := map[policy]int{}
	s.accounts.Scan(func(r *record) bool {
		if e := r.expires(); e != 0 {
			expiring++
			if _, ok := s.accountExpiry.Get(expiry{at: e, key: r.key}); !ok {
				t.Errorf("account %q is not in the index by expiry", r.key)
			}
		}
		if r.policy != nil {
			uses[*r.policy]++
		}
		return true
	})
	check(t, "index of accounts by expiry", s.accountExpiry.Len(), expiring)
	check(t, "policies", len(s.policies), len(uses))
	for p, n := range uses {
		check(t, "uses of "+p.Ref.String(), s.policies[p].uses, n)
	}
	s.applied.Scan(func(a *applied) bool {
		if _, ok := s.appliedExpiry.Get(expiry{at: a.expires, key: a.key}); ok {
			requests++
		}
		return true
	})
	check(t, "index of requests", requests, s.applied.Len())
	check(t, "index of requests", requests, s.appliedExpiry.Len())
	check(t, "index of what ended", s.endedOrder.Len(), s.ended.Len())
	held, reservedRequests, reservedAccounts := 0, 0, 0
	s.txs.Scan(func(x *txn) bool {
		keys, made := map[string]bool{}, map[string]bool{}
		for _, p := range x.parts {
			for _, r := range p.records {
				keys[r.key] = true
				if _, ok := s.accounts.Get(&record{key: r.key}); !ok {
					made[r.key] = true
				}
			}
			if p.id != "" {
				reservedRequests++
			}
		}
		held += len(keys)
		reservedAccounts += len(made)
		return true
	})
	check(t, "holds", s.holds.Len(), held)
	check(t, "reserved requests", s.reserved.requests, reservedRequests)
	check(t, "reserved accounts", s.reserved.accounts, reservedAccounts)
	check(t, "pending", len(s.pending), reservedRequests)
}
