package accounts

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// TestReadingsAreOfOneMoment checks that accounts of two ranges, one read before midnight and the other after, are all
// as of the later moment: refilled, and gone if their lifetime has ended.
func TestReadingsAreOfOneMoment(t *testing.T) {
	midnight := quota.Time(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixNano())
	before, after := midnight.Add(-time.Millisecond), midnight.Add(time.Millisecond)
	ref := account.PolicyRef{
		Config: account.ConfigID{App: "a", Realm: "r", Version: "#1"}, Key: account.PolicyKey{Name: "p", Resource: "t"},
	}
	refilled := &account.Policy{Default: 10, Limit: 10, Refill: account.Refill{Units: 10, Interval: 86400}}
	short := *refilled
	short.Lifetime = 2 * time.Hour
	list := []account.ID{{App: "a", Realm: "r", Name: "refilled", Resource: "t"}, {App: "a", Realm: "r", Name: "short", Resource: "t"}}
	read := func(at quota.Time) reading {
		out := reading{at: at}
		for i, rule := range []*account.Policy{refilled, &short} {
			store := account.New(account.Bounds{})
			made := store.Apply(midnight.Add(-2*time.Hour), &account.Command{Apply: &account.Request{
				Ops: []account.Op{{Account: list[i], Policy: &ref, Rule: rule, Delta: -7}},
			}})
			if made.Code != account.Done {
				t.Fatalf("%+v", made)
			}
			out.states = append(out.states, store.View().Get(at, list[i]))
		}
		return out
	}
	states, at := inOrder([]reading{read(before), read(after)}, []place{{0, 0}, {1, 0}, {0, 1}, {1, 1}})
	if at != after {
		t.Errorf("as of %v; want %v", at, after)
	}
	for i, s := range states[:2] {
		if !s.Exists || s.Balance != 3 || s.Projected != 10 || s.Next != 0 {
			t.Errorf("account %d: %+v; want 10, refilled at midnight", i, s)
		}
	}
	for i, s := range states[2:] {
		if s.Exists || s.Version != 0 || s.ID != list[1] {
			t.Errorf("account %d: %+v; want none, for its lifetime has ended", 2+i, s)
		}
	}
}
