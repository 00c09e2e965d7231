package sim

import (
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestCampaign plays the first seeds of "quorate sim --campaign" and checks that all invariants
// hold and that the scenarios together exercise every property.
func TestCampaign(t *testing.T) {
	t.Parallel()
	seeds := uint64(300)
	if testing.Short() {
		seeds = 10
	}
	asked := map[Property]int{}
	for seed := range seeds {
		v := Judge(Campaign(seed))
		for _, p := range v.Asked {
			asked[p]++
		}
		for _, b := range v.Broken {
			t.Errorf("quorate sim --campaign 1 --seed %d: %s: %s", seed, b.Property, b.What)
		}
	}
	t.Log(asked)
	for _, p := range Properties() {
		if asked[p] == 0 && !testing.Short() {
			t.Errorf("%s was asked for in none of %d scenarios", p, seeds)
		}
	}
}

// TestAskAfterFirstGrant: one tier's leader has answered, and the first grant of the other tier does not come. The
// simulator must ask that tier's leader then, as a node does; otherwise the first answer is counted and never used.
func TestAskAfterFirstGrant(t *testing.T) {
	for _, b := range Judge(Campaign(7471)).Broken {
		t.Errorf("%s: %s", b.Property, b.What)
	}
}

// TestCampaignDraws checks that a seed always draws the same scenario, that every scenario is
// valid, and that the seeds cover all kinds.
func TestCampaignDraws(t *testing.T) {
	kinds, faults, more := map[quota.Kind]int{}, map[FaultKind]int{}, map[string]int{}
	for seed := range uint64(1000) {
		s := Campaign(seed)
		if !reflect.DeepEqual(s, Campaign(seed)) {
			t.Fatalf("seed %d is another scenario the second time", seed)
		}
		if err := s.Limit.Validate(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		kinds[s.Limit.Kind]++
		for _, f := range s.Faults {
			faults[f.Kind]++
		}
		for _, x := range Traits(&s) {
			more[x.Name]++
		}
	}
	if len(kinds) < 6 || len(faults) < 14 || more["looks"] < 100 || more["busy leader"] < 100 || more["cost of 400 and more"] < 100 || more["gives back"] < 100 || more["charges"] < 100 || more["client processes"] < 100 || more["streams that break"] < 50 {
		t.Errorf("kinds %v, faults %v, traits %v: not all are drawn", kinds, faults, more)
	}
}

// TestJudge checks that the judge finds violations, and that a panic is a verdict too.
func TestJudge(t *testing.T) {
	s := calm()
	s.Limit.Ceiling = quota.Hard
	s.Algorithm = CountSync // enforces no ceiling
	s.Loads[0].Rate = 3000
	broken := map[Property]bool{}
	for _, b := range Judge(s).Broken {
		broken[b.Property] = true
	}
	if !broken[HardExact] {
		t.Errorf("count-sync at 30 times a hard limit: %v", broken)
	}
	s.Nodes, s.Faults = 3, []Fault{{Kind: Kill, Nodes: []int{7}}}
	if v := Judge(s); len(v.Broken) == 0 || v.Broken[0].Property != NoPanic {
		t.Errorf("a node that is not there: %+v", v.Broken)
	}
}
