package account

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestListAgainstAll compares pages of random filters with a scan of all accounts.
func TestListAgainstAll(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 1))
	w := newWorld(t)
	part := func() string { return []string{"a", "ab", "b", "a|b", " ", "aé"}[g.IntN(6)] }
	maybe := func() string { return []string{"", part()}[g.IntN(2)] }
	var all []ID
	for range 600 {
		id := ID{App: "a" + maybe(), Realm: part(), Identity: maybe(), Namespace: maybe(), Name: part(), Resource: part()}
		w.must(Op{Account: id, RelativeTo: Zero, Options: IgnorePolicyBounds})
		all = append(all, id)
	}
	slices.SortFunc(all, func(a, b ID) int { return strings.Compare(a.key(), b.key()) })
	all = slices.Compact(all)
	v := w.store.View()
	found := 0
	for range 2000 {
		f := Filter{App: "a" + maybe(), Realm: part(), NamePrefix: maybe(), Resource: maybe()}
		if identity := maybe(); g.IntN(2) == 0 {
			f.Identity = &identity
		}
		if namespace := maybe(); g.IntN(2) == 0 {
			f.Namespace = &namespace
		}
		var want []ID
		for _, id := range all {
			if id.App == f.App && id.Realm == f.Realm && (f.Identity == nil || *f.Identity == id.Identity) &&
				(f.Namespace == nil || *f.Namespace == id.Namespace) && strings.HasPrefix(id.Name, f.NamePrefix) &&
				(f.Resource == "" || f.Resource == id.Resource) {
				want = append(want, id)
			}
		}
		var got []ID
		for after := (ID{}); ; {
			page := v.List(w.now, f, after, 1+g.IntN(4))
			if len(page) == 0 {
				break
			}
			for i := range page {
				got = append(got, page[i].ID)
			}
			after = got[len(got)-1]
			if len(got) > len(all) {
				t.Fatal("the pages come to no end")
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v:\n got %v\nwant %v", f, got, want)
		}
		found += len(want)
	}
	if found < 1000 {
		t.Errorf("only %d accounts were found", found)
	}
}
