package account

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRealmsAgainstAll compares pages of realms with a scan of all accounts, and checks that a realm
// ends with its last account.
func TestRealmsAgainstAll(t *testing.T) {
	g := rand.New(rand.NewPCG(2, 2))
	w := newWorld(t)
	part := func() string { return []string{"a", "ab", "b", "a|b", " ", "aé"}[g.IntN(6)] }
	want := []Realm{{App: "z", Name: "b", Accounts: true}}
	for range 60 {
		r := Realm{App: part(), Name: part(), Accounts: true}
		want = append(want, r)
		w.must(Op{Account: ID{App: r.App, Realm: r.Name, Name: part(), Resource: "x"}, RelativeTo: Zero, Options: IgnorePolicyBounds})
	}
	short := w.load("short", Policy{Limit: 5, Lifetime: time.Minute})
	for _, id := range []ID{{App: "z", Realm: "a", Name: "n", Resource: "builds"}, {App: "z", Realm: "b", Name: "n", Resource: "builds"}} {
		w.must(Op{Account: id, Policy: short})
	}
	w.must(Op{Account: ID{App: "z", Realm: "b", Name: "o", Resource: "x"}, RelativeTo: Zero, Options: IgnorePolicyBounds})
	slices.SortFunc(want, Realm.Compare)
	want = slices.Compact(want)
	v := w.store.View()
	for _, c := range []struct {
		now  quota.Time
		want []Realm
	}{
		{w.now, slices.Insert(slices.Clone(want), len(want)-1, Realm{App: "z", Name: "a", Accounts: true})},
		{w.now.Add(time.Hour), want}, // z/a has expired
	} {
		for limit := 1; limit < 50; limit += 7 {
			var got []Realm
			for after := (Realm{}); ; after = got[len(got)-1] {
				page := v.Realms(c.now, after, limit)
				if len(page) > limit {
					t.Fatalf("%d realms on a page of %d", len(page), limit)
				}
				if got = append(got, page...); len(page) < limit || len(got) > 100 {
					break
				}
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("pages of %d:\n got %v\nwant %v", limit, got, c.want)
			}
		}
	}
	if got := v.Realms(w.now, Realm{}, 0); got != nil {
		t.Errorf("a page of none has %v", got)
	}
}

// TestMergeRealms checks that a realm of several lists is one, and that the list is cut after it.
func TestMergeRealms(t *testing.T) {
	a := []Realm{{App: "a", Name: "1", Accounts: true}, {App: "b", Name: "1", Accounts: true}}
	b := []Realm{{App: "a", Name: "1", Configs: 2}, {App: "a", Name: "2", Configs: 1}}
	want := []Realm{{App: "a", Name: "1", Accounts: true, Configs: 2}, {App: "a", Name: "2", Configs: 1}, {App: "b", Name: "1", Accounts: true}}
	for limit := range 5 {
		if got := MergeRealms(limit, a, b); !slices.Equal(got, want[:min(limit, 3)]) {
			t.Errorf("%d: %v", limit, got)
		}
	}
}
