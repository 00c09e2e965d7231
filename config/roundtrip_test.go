package config

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// TestFormatAnyLimits writes random limits of every form, as the API can make them, and reads them
// back.
func TestFormatAnyLimits(t *testing.T) {
	const seed = 20261121
	rng := rand.New(rand.NewPCG(seed, 0))
	berlin, err := zone.Load("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]int{}
	for i := range 20000 {
		l := anyLimit(rng, berlin)
		if l.Validate() != nil {
			continue
		}
		forms[fmt.Sprint(l.Kind, l.Class, len(l.More) > 0)]++
		tenant := quota.Limit{LimitName: quota.LimitName{Namespace: l.Namespace, Limit: "tenant"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
		text := FormatLimits([]quota.Limit{tenant, l})
		again, err := ParseLimits("f", text)
		if err != nil || !slices.ContainsFunc(again, func(a quota.Limit) bool { return a.Equal(&l) }) {
			t.Fatalf("seed %d, limit %d: %+v\nwritten as\n%s\nand read again, %v: %+v", seed, i, l, text, err, again)
		}
	}
	for kind, n := range forms {
		if n < 20 {
			t.Errorf("only %d of %s; seed %d", n, kind, seed)
		}
	}
	if want := len(quota.Kinds()) + len(tierKinds()) + 2; len(forms) < want { // and unlimited and ban
		t.Errorf("only the forms %v; seed %d", forms, seed)
	}
}

// tierKinds returns the kinds that a tier may have: all but Concurrency.
func tierKinds() []quota.Kind {
	return slices.DeleteFunc(quota.Kinds(), func(k quota.Kind) bool { return k == quota.Concurrency })
}

func anyTier(rng *rand.Rand, berlin *time.Location) quota.Tier {
	n := rng.Int64N(1000)
	switch k := pick(rng, tierKinds()...); k {
	case quota.TokenBucket:
		return quota.Tier{Rate: quota.Rate{Tokens: n, Per: pick(rng, time.Second, time.Hour, 90*time.Second, 10*time.Millisecond)}, Burst: rng.Int64N(1000)}
	case quota.CalendarWindow:
		return quota.Per(n, quota.Calendar{Unit: pick(rng, quota.CalendarUnits()...), Zone: pick(rng, nil, berlin)})
	default:
		return quota.Window(k, n, pick(rng, time.Millisecond, time.Minute, 36*time.Hour, 24*time.Hour, 14*24*time.Hour))
	}
}

// anyLimit makes a limit that is usually valid.
func anyLimit(rng *rand.Rand, berlin *time.Location) quota.Limit {
	l := quota.Limit{
		LimitName:   quota.LimitName{Namespace: pick(rng, "web", "7", "off"), Limit: pick(rng, "a", "-", "null", quota.Default, quota.Template)},
		Enforcement: pick(rng, quota.Enforcements()...), Fraction: pick(rng, int64(0), 0, 1, 250000, quota.Million),
	}
	if l.Limit == quota.Template {
		l.MaxKeys, l.Idle = pick(rng, int64(0), 5), pick(rng, 0, time.Hour)
	}
	if rng.IntN(3) == 0 {
		l.Match = &quota.Match{Methods: pick(rng, nil, []string{"GET"}, []string{"PUT", "GET"}), Path: pick(rng, "/", "/a/*/**", "/[x]")}
	}
	switch rng.IntN(10) {
	case 0:
		l.Class, l.Rate.Per = pick(rng, quota.Unlimited, quota.Banned), time.Second
		return l
	case 1:
		l.Kind, l.Burst = quota.Concurrency, rng.Int64N(100)
	default:
		l.SetFirst(anyTier(rng, berlin))
		for range pick(rng, 0, 0, 0, 1, 3) {
			l.More = append(l.More, anyTier(rng, berlin))
		}
	}
	l.Ceiling, l.Decide = pick(rng, quota.Soft, quota.Hard), pick(rng, quota.Decides()...)
	l.MaxCost, l.Near, l.Lease = pick(rng, int64(0), 7), pick(rng, int64(0), 1, 100), pick(rng, 0, time.Second, 48*time.Hour)
	if rng.IntN(4) == 0 {
		l.MaxWait, l.MaxDebt = pick(rng, 0, time.Second), pick(rng, time.Second, time.Hour)
	}
	if rng.IntN(4) == 0 && l.Kind != quota.Concurrency {
		l.Parent = "tenant"
		l.Floor, l.FloorBurst = pick(rng, quota.Rate{}, quota.Rate{Tokens: 1, Per: time.Second}), 0
		if l.Floor.Per > 0 {
			l.FloorBurst = rng.Int64N(3)
		}
	}
	l.CutOff.Policy = pick(rng, slices.Concat(quota.CutOffPolicies(), []quota.CutOffPolicy{quota.CutOffDefault, quota.CutOffRate})...)
	if l.CutOff.Policy == quota.CutOffRate {
		l.CutOff.Rate = quota.Rate{Tokens: rng.Int64N(5), Per: time.Minute}
	}
	if rng.IntN(3) == 0 {
		l.CutOff.After, l.CutOff.Then = time.Minute, pick(rng, slices.Concat(quota.CutOffPolicies(), []quota.CutOffPolicy{quota.CutOffRate})...)
		if l.CutOff.Then == quota.CutOffRate {
			l.CutOff.ThenRate = quota.Rate{Tokens: 1, Per: time.Hour}
		}
	}
	return l
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
