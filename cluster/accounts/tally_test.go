package accounts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// day is the policy of tallied accounts.
var day = account.PolicyRef{Config: account.ConfigID{App: "a", Realm: "r", Version: "#1"}, Key: account.PolicyKey{Namespace: "ns", Name: "day", Resource: "u"}}

// takes returns an operation that takes n units from an account, which has the policy or gets it.
func takes(name string, units int64, policy *account.PolicyRef) account.Op {
	return account.Op{Account: account.ID{App: "a", Realm: "r", Name: name, Resource: "u"}, Policy: policy, Delta: -units}
}

// taken returns everything tallied since the last call.
func (w *world) taken(t *testing.T) (admitted, refused int64) {
	t.Helper()
	w.Tally(func(l quota.LimitName, a, r quota.Units) {
		if l != day.LimitName() {
			t.Errorf("tallied as %v", l)
		}
		admitted, refused = admitted+a.Tokens(), refused+r.Tokens()
	})
	return admitted, refused
}

// TestTally: each unit is tallied once, whatever happens to the entries and answers.
func TestTally(t *testing.T) {
	for _, tc := range []struct {
		name              string
		fail              func(entry int) (error, bool)
		calls             func(ask func(id string, ops ...account.Op))
		admitted, refused int64
	}{
		{"once and refused", nil, func(ask func(string, ...account.Op)) {
			ask("1", takes("x", 3, &day))
			ask("2", takes("x", 4, nil)) // by the account's copy of the policy
			ask("3", takes("x", 4, nil)) // of which 3 are left
		}, 7, 4},
		{"the same request again", nil, func(ask func(string, ...account.Op)) {
			ask("1", takes("x", 3, &day))
			ask("1", takes("x", 3, &day))
		}, 3, 0},
		{"applied, not answered, asked again", func(entry int) (error, bool) {
			if entry == 0 {
				return raftgroup.ErrUncertain, true
			}
			return nil, false
		}, func(ask func(string, ...account.Op)) { ask("1", takes("x", 3, &day)) }, 3, 0},
		{"not led any more", func(entry int) (error, bool) {
			if entry == 0 {
				return raftgroup.ErrNotLeader, false
			}
			return nil, false
		}, func(ask func(string, ...account.Op)) { ask("1", takes("x", 3, &day)) }, 3, 0},
		{"what else operations do", nil, func(ask func(string, ...account.Op)) {
			ask("1", takes("x", -3, &day))                   // gives back
			ask("2", takes("x", 0, nil))                     // only looks
			ask("3", takes("y", 3, nil))                     // no such account
			ask("4", takes("x", 2, nil), takes("x", 9, nil)) // the second is refused, the first is not
		}, 0, 9},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.rule, w.fail = &account.Policy{Default: 10, Limit: 10}, tc.fail
				tc.calls(func(id string, ops ...account.Op) {
					if _, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, id, 0, ops); err != nil {
						t.Errorf("call %s: %v", id, err)
					}
				})
				if a, r := w.taken(t); a != tc.admitted || r != tc.refused {
					t.Errorf("tallied %d and %d refused, want %d and %d", a, r, tc.admitted, tc.refused)
				}
				if a, r := w.taken(t); a != 0 || r != 0 {
					t.Errorf("tallied again: %d and %d refused", a, r)
				}
			})
		})
	}
}

// TestTallyReplay: an entry that is applied long after its caller has left counts once, and an
// entry that a log replays, in this process or another one, does not count again.
func TestTallyReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule = &account.Policy{Default: 10, Limit: 10}
		w.fail = func(int) (error, bool) { return raftgroup.ErrUncertain, false }
		var log [][]byte
		w.logged = func(batch []byte) { log = append(log, batch) }
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if out, err := w.ApplyOps(ctx, account.Caller{By: "me"}, "1", 0, []account.Op{takes("x", 3, &day)}); err == nil {
			t.Fatalf("answered %+v", out)
		}
		if a, _ := w.taken(t); a != 0 || len(log) != 1 {
			t.Fatalf("%d tallied before it was applied, %d entries", a, len(log))
		}
		w.replica.Apply(log[0]) // another leader has committed it
		if a, _ := w.taken(t); a != 3 {
			t.Errorf("%d tallied, want 3", a)
		}
		w.replica.Clear()
		w.replica.Apply(log[0])
		next := newWorld(t)
		next.replica.Apply(log[0])
		if a, _ := w.taken(t); a != 0 {
			t.Errorf("%d tallied of a log that was replayed", a)
		}
		if a, _ := next.taken(t); a != 0 {
			t.Errorf("%d tallied of another process's log", a)
		}
	})
}

// TestTallyModel makes random calls on several ranges, whose entries are lost, or written without
// an answer. The tally matches what accounts have lost and what callers were refused.
func TestTallyModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ranges, names, each = 3, 9, 1000
				rng := rand.New(rand.NewPCG(seed, 1))
				w := newWorldOf(t, ranges)
				w.rule = &account.Policy{Default: each, Limit: each}
				var mu sync.Mutex
				faults := rand.New(rand.NewPCG(seed, 2))
				w.fail = func(int) (error, bool) {
					mu.Lock()
					defer mu.Unlock()
					switch faults.IntN(10) {
					case 0:
						return raftgroup.ErrNotLeader, false
					case 1:
						return raftgroup.ErrUncertain, true
					}
					return nil, false
				}
				w.Start()
				refused, doubts := int64(0), 0
				for i := range 60 {
					var ops []account.Op
					for range 1 + rng.IntN(3) {
						ops = append(ops, takes(fmt.Sprint("x", rng.IntN(names)), rng.Int64N(120), &day))
					}
					for range 1 + rng.IntN(2) { // some calls are repeated
						out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, strconv.Itoa(i), 0, ops)
						if err != nil {
							doubts++
						}
						for j := range out.Results {
							if out.Code == account.Failed && out.Results[j].Status == account.Underflow {
								refused += ops[j].Demand()
							}
						}
					}
				}
				time.Sleep(time.Minute) // for all work in progress to end
				left := int64(0)
				for i := range names {
					id := takes(fmt.Sprint("x", i), 0, nil).Account
					if s := w.replicas[RangeOf(id, ranges)].View().Get(w.Now(), id); s.Exists {
						left += each - s.Balance
					}
				}
				if a, r := w.taken(t); a != left || r != refused || a == 0 {
					t.Errorf("tallied %d and %d refused; accounts have lost %d, and %d were refused; %d calls ended in doubt", a, r, left, refused, doubts)
				}
			})
		})
	}
}

// TestTallyBounds: names beyond the bound share one count.
func TestTallyBounds(t *testing.T) {
	var ty tally
	for i := range maxTallied + 5 {
		ref := day
		ref.Key.Name = strconv.Itoa(i)
		ty.count([]account.Op{takes("x", 1, &ref)}, []*account.PolicyRef{&ref})
	}
	names, rest := 0, quota.Units(0)
	ty.drain(func(l quota.LimitName, admitted, _ quota.Units) {
		if names++; l == tooMany {
			rest = admitted
		}
	})
	if names != maxTallied+1 || rest != 5*quota.Token {
		t.Errorf("%d names, %d of the last", names, rest)
	}
	var p proposed
	for i := range maxProposed + 1 {
		p.add(fmt.Append(nil, i))
	}
	if p.remove([]byte("0")) || !p.remove([]byte("1")) || len(p.count) != maxProposed-1 {
		t.Errorf("%d entries are remembered", len(p.count))
	}
}

// TestTallyInDoubt: a transaction that is committed after its caller has left is tallied; one that
// was aborted meanwhile is not.
func TestTallyInDoubt(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(strconv.FormatBool(committed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorldOf(t, 3)
				w.rule = &account.Policy{Default: 10, Limit: 10}
				ctx, leave := context.WithCancel(t.Context())
				lost := false
				w.logged = func(batch []byte) {
					_, all, _ := account.DecodeBatch(batch)
					if d := all[0].Decide; d != nil && d.Commit {
						leave()
						lost = !committed
					}
				}
				w.fail = func(int) (error, bool) {
					if !lost {
						return nil, false
					}
					lost = false
					return raftgroup.ErrUncertain, false
				}
				w.meet = func(_ quota.RangeID, c *account.Command) {
					if c.Decide != nil && c.Decide.Commit {
						time.Sleep(time.Second)
					}
				}
				w.Start()
				ops := in(3)
				for i := range ops {
					ops[i].RelativeTo, ops[i].Delta, ops[i].Options, ops[i].Policy = account.Balance, -2, 0, &day
				}
				if out, err := w.ApplyOps(ctx, account.Caller{By: "me"}, "1", 0, ops); err == nil {
					t.Fatalf("answered %+v", out)
				}
				if a, _ := w.taken(t); a != 0 {
					t.Errorf("%d tallied of what is not decided", a)
				}
				time.Sleep(time.Minute)
				want := int64(0)
				if committed {
					want = 6
				}
				if a, r := w.taken(t); a != want || r != 0 {
					t.Errorf("tallied %d and %d refused, want %d", a, r, want)
				}
			})
		})
	}
}
