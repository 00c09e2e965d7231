package series

import (
	"fmt"
	"sync"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func limit(name string) quota.LimitName { return quota.LimitName{Namespace: "web", Limit: name} }

// TestFirstComeFirstNamed: who has series keeps them, and a place is free when its
// limit is gone.
func TestFirstComeFirstNamed(t *testing.T) {
	g := New(2)
	other := quota.LimitName{Namespace: Other, Limit: Other}
	for i, one := range []struct {
		gone string
		ask  quota.LimitName
		want quota.LimitName
	}{
		{"", limit("a"), limit("a")},
		{"", limit("@inline"), limit("@inline")},
		{"", limit("c"), other},
		{"", limit("a"), limit("a")},
		{"c", limit("c"), other},
		{"@inline", limit("c"), other}, // stands for several limits: stays
		{"a", limit("c"), limit("c")},
		{"", limit("a"), other},
	} {
		if one.gone != "" {
			g.Prune(func(n quota.LimitName) bool { return n.Limit != one.gone && n.Limit[0] != '@' })
		}
		if got := g.Of(one.ask); got != one.want {
			t.Errorf("%d: %v is %v; want %v", i, one.ask, got, one.want)
		}
	}
	if own, most := g.Len(); own != 2 || most != 2 {
		t.Errorf("%d of %d", own, most)
	}
}

func TestNoGuardNamesNone(t *testing.T) {
	var g *Guard
	if got := g.Of(limit("a")); got.Limit != Other {
		t.Error(got)
	}
	g.Prune(func(quota.LimitName) bool { return true })
	if own, most := g.Len(); own != 0 || most != 0 {
		t.Error(own, most)
	}
	if _, most := New(0).Len(); most != DefaultLimits {
		t.Error(most)
	}
}

// TestAtOnce: many that ask at once get no more than there is room for.
func TestAtOnce(t *testing.T) {
	g := New(10)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 100 {
				g.Of(limit(fmt.Sprint(i, j)))
			}
		})
	}
	wg.Wait()
	if own, _ := g.Len(); own != 10 {
		t.Errorf("%d have series of their own; want 10", own)
	}
}
