package account

import (
	"maps"
	"testing"
	"time"
)

// TestHashPolicies pins hashes that another program computed: versions of configs are stored for
// ever.
func TestHashPolicies(t *testing.T) {
	one := map[PolicyKey]Policy{
		{"ci", "per_user", "builds"}: {
			Default: 10, Limit: 10, Refill: Refill{Units: 10, Interval: 86400, Offset: 3600}, Lifetime: 30 * 24 * time.Hour,
		},
	}
	two := maps.Clone(one)
	two[PolicyKey{"", "größe", "disk"}] = Policy{Limit: Most, Refill: Refill{Units: -5, Interval: 60}, Options: AbsoluteResource}
	for want, policies := range map[string]map[PolicyKey]Policy{
		"$c1d614a43257f6a2fcc2159c4fbed97e5ece53d02a3d7547bc85eb0ae946f354": nil,
		"$2d99d551d2e0024aec0cd798294d9550346e60057b69308d979aff8f732f247f": one,
		"$9f11d8fd473cb2f0a0cd7dac8318344817c80a00297bce102643a5902f09c6b8": two,
	} {
		for range 10 { // the order of a map differs each time
			if got := HashPolicies(policies); got != want {
				t.Fatalf("%d policies have the hash %s; want %s", len(policies), got, want)
			}
		}
	}
}

// TestHashPoliciesDiffers checks that any change of the content changes the hash.
func TestHashPoliciesDiffers(t *testing.T) {
	key := PolicyKey{"n", "m", "r"}
	policy := Policy{Default: 1, Limit: 2, Refill: Refill{Units: 3, Interval: 4, Offset: 5}, Options: 0, Lifetime: 6}
	seen := map[string]string{HashPolicies(map[PolicyKey]Policy{key: policy}): "nothing"}
	look := func(what string, k PolicyKey, p Policy) {
		h := HashPolicies(map[PolicyKey]Policy{k: p})
		if other, ok := seen[h]; ok {
			t.Errorf("with another %s the hash is that of another %s", what, other)
		}
		seen[h] = what
	}
	for what, k := range map[string]PolicyKey{
		"namespace": {"x", "m", "r"}, "name": {"n", "x", "r"}, "resource": {"n", "m", "x"},
		"boundary": {"nm", "", "r"}, "other boundary": {"", "nm", "r"},
	} {
		look(what, k, policy)
	}
	for what, change := range map[string]func(p *Policy){
		"default": func(p *Policy) { p.Default++ }, "limit": func(p *Policy) { p.Limit++ },
		"units": func(p *Policy) { p.Refill.Units = -3 }, "interval": func(p *Policy) { p.Refill.Interval++ },
		"offset": func(p *Policy) { p.Refill.Offset++ }, "options": func(p *Policy) { p.Options = AbsoluteResource },
		"lifetime": func(p *Policy) { p.Lifetime++ },
	} {
		p := policy
		change(&p)
		look(what, key, p)
	}
}
