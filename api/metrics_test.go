package api

import (
	"testing"

	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

// TestCountsOutliveLimitChanges checks that a changed limit keeps its counter, that a removed limit
// loses it, and that a call with the old limits disturbs neither.
func TestCountsOutliveLimitChanges(t *testing.T) {
	r := rules{Guard: series.New(0)}
	old := apitest.MustLimits(t, 1, "web/a 1/s 1", "web/b 1/s 1")
	now := apitest.MustLimits(t, 2, "web/b 2/s 2", "web/c 1/s 1")
	get := func(set *quota.Limits, name string) *Prepared {
		l, ok := set.Find(quota.LimitName{Namespace: "web", Limit: name})
		if !ok {
			t.Fatal(name)
		}
		return r.of(l, set)
	}
	b := get(old, "b")
	if get(old, "b") != b {
		t.Error("a rule is made twice")
	}
	get(old, "a")
	changed := get(now, "b")
	if changed == b || changed.Counts != b.Counts || changed.PB.Rate != "2/s" {
		t.Error("the changed limit must have a new rule on the same counts")
	}
	c := get(now, "c")
	get(old, "b")
	if get(now, "c") != c {
		t.Error("a call with the old limits dropped the new rules")
	}
	if r.byName[quota.LimitName{Namespace: "web", Limit: "a"}] != nil {
		t.Error("a removed limit's counts are kept")
	}
}

// TestOverridesDoNotFillTheRules checks that rules stay bounded although every overridden key has
// its own limit.
func TestOverridesDoNotFillTheRules(t *testing.T) {
	r := rules{Guard: series.New(0)}
	set := apitest.MustLimits(t, 1, "web/a 1/s 1")
	first, most := r.of(&set.All()[0], set), 0
	for range 3 * maxSpare {
		changed := set.All()[0]
		changed.Burst = 7
		if got := r.of(&changed, set); got.PB.Burst != 7 || got.Counts != first.Counts {
			t.Fatalf("%v on counts of its own: %v", got.PB, got.Counts != first.Counts)
		}
		most = max(most, r.current.Load().size)
	}
	if most > maxSpare+1 || len(r.byName) != 1 {
		t.Errorf("up to %d rules are kept, and counts of %d limits", most, len(r.byName))
	}
}
