package sim

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Trait is a property of scenarios that a campaign counts: a kind of limit, load or fault. A
// scenario has exactly one of the groups "limit", "ceiling" and "nodes", and any number of the
// others.
type Trait struct{ Group, Name string }

// TraitGroups returns all groups in the order of output.
func TraitGroups() []string { return []string{"limit", "ceiling", "nodes", "load", "fault", "network"} }

// Traits returns the traits of a scenario of [Campaign], without duplicates.
func Traits(s *Scenario) []Trait {
	t := traits{seen: map[Trait]bool{}}
	t.add("limit", limitKind(s), true)
	t.add("ceiling", s.Limit.Ceiling.String(), true)
	t.add("nodes", strconv.Itoa(s.Nodes), true)
	for i := range s.Loads {
		t.load(&s.Loads[i])
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		name := string(f.Kind)
		if f.Leader {
			name += " leader"
		}
		t.add("fault", name, true)
	}
	t.add("fault", "none", len(s.Faults) == 0)
	t.add("network", "client processes", s.Clients > 0)
	t.add("network", "streams that break", s.Breaks > 0)
	t.add("network", "loss", s.Loss > 0)
	t.add("network", "duplicate", s.Repeat > 0)
	t.add("network", "reorder", s.Reorder > 0)
	t.add("network", "jitter", s.Jitter > 0)
	t.add("network", "delay of 5 ms and more", s.Delay >= 5*time.Millisecond)
	t.add("network", "reports in parts", s.Entries > 0)
	t.add("network", "busy leader", s.PerEntry > 0)
	t.add("network", "clocks differ", s.Skew >= 0)
	t.add("network", "clocks drift", s.Drift > 0)
	return t.list
}

type traits struct {
	list []Trait
	seen map[Trait]bool
}

func (t *traits) add(group, name string, has bool) {
	if x := (Trait{group, name}); has && !t.seen[x] {
		t.seen[x] = true
		t.list = append(t.list, x)
	}
}

func (t *traits) load(l *Load) {
	t.add("load", "clumps", l.Clump > 1)
	t.add("load", "cost above 1", l.Cost > 1)
	t.add("load", "cost of 400 and more", l.Cost >= 400)
	t.add("load", "looks", l.Look)
	t.add("load", "gives back", l.Refund > 0)
	t.add("load", "charges", l.Charge)
	t.add("load", "moving", l.Spread.Moving > 0)
	t.add("load", "skewed", l.Spread.Skew > 0)
	t.add("load", "one node", len(l.Spread.Nodes) > 0)
	t.add("load", "on and off", l.On > 0)
	t.add("load", "begins late", l.From > 0)
}

// limitKind returns the name of a limit's kind in the counts of a campaign.
func limitKind(s *Scenario) string {
	l := &s.Limit
	switch {
	case len(l.More) > 0:
		return "tiers"
	case l.Kind == quota.Concurrency:
		return "in flight"
	case l.Kind != quota.TokenBucket:
		return l.Kind.String() + " window"
	case l.Decide == quota.AtLeader:
		return "bucket, decide: leader"
	case l.Decide == quota.Auto && l.Ceiling == quota.Soft:
		return "bucket, soft, decide: auto"
	case l.Decide == quota.Locally && l.Ceiling == quota.Hard:
		return "bucket, hard, decide: local"
	case l.MaxWait > 0:
		return "bucket, callers wait"
	case l.Durable:
		return "bucket, durable"
	case s.Keys.Count > 1:
		return "bucket, many keys"
	case rateOf(l)*s.Sync.Seconds() > float64(l.Burst):
		return "bucket, burst < rate x sync"
	}
	return "bucket"
}
