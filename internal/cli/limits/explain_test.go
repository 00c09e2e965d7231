package limits

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
)

// TestExplainWhoDecides: the leader decides a limit with max_wait, as one with decide: leader. So
// explain must describe it as such, and must not suggest decide: leader.
func TestExplainWhoDecides(t *testing.T) {
	bucket := quota.Limit{Rate: quota.Rate{Tokens: 100, Per: time.Second}, Burst: 100}
	asked, waits := bucket, bucket
	asked.Decide, waits.MaxWait, waits.MaxDebt = quota.AtLeader, time.Second, 2*time.Second
	for name, tc := range map[string]struct {
		l      *quota.Limit
		leader bool
		surge  float64
	}{
		"soft":           {&bucket, false, 2*100 + 3*100*.204 + 6 + 100*.004},
		"decide: leader": {&asked, true, 0},
		"max_wait":       {&waits, true, 200}, // the debt counts
	} {
		e := explanation{c: bound.Cluster{Nodes: 3, Delay: time.Millisecond, Sync: assumedSync, Election: election}}
		e.explain(tc.l)
		if got := strings.Contains(e.Rule, "leader of the key's range decides"); got != tc.leader {
			t.Errorf("%s: %q; want the leader named: %v", name, e.Rule, tc.leader)
		}
		if got := strings.Contains(strings.Join(e.Tighter, "\n"), "decide: leader"); got == tc.leader {
			t.Errorf("%s: tighter: %q; want decide: leader offered: %v", name, e.Tighter, !tc.leader)
		}
		if got := *e.Situations[1].Worst; amount(got) != amount(tc.surge) {
			t.Errorf("%s: %v beyond in a surge; want %v", name, got, tc.surge)
		}
	}
}

// TestTierWords checks that different kinds of limits have different descriptions.
func TestTierWords(t *testing.T) {
	words := map[string]quota.Kind{}
	for _, k := range quota.Kinds() {
		tier := quota.Window(k, 10, time.Minute)
		if k == quota.CalendarWindow {
			tier = quota.Per(10, quota.Calendar{Unit: quota.Minute})
		}
		text := tierWords(&tier)
		if other, ok := words[text]; ok && k != quota.Concurrency {
			t.Errorf("%v and %v are both described as %q", other, k, text)
		}
		words[text] = k
	}
}

// TestExplainAsAccuracy checks the statements that docs/explanation/accuracy.md makes for each
// ceiling, place of decision and kind of tier.
func TestExplainAsAccuracy(t *testing.T) {
	const limits = `version: 1
namespaces:
  a:
    limits:
      soft: {rate: 1000/s, burst: 1000}
      soft-local: {rate: 1000/s, burst: 1000, decide: local}
      soft-leader: {rate: 1000/s, burst: 1000, decide: leader}
      soft-few: {rate: 1/s, burst: 1}
      soft-fast: {rate: 1000/s, burst: 40}
      soft-slow: {rate: 400/s, burst: 40}
      soft-fast-local: {rate: 1000/s, burst: 40, decide: local}
      soft-durable: {rate: 1000/s, burst: 1000, durable: true}
      hard: {rate: 1000/s, burst: 1000, ceiling: hard}
      hard-local: {rate: 1000/s, burst: 1000, ceiling: hard, decide: local}
      hard-leader: {rate: 1000/s, burst: 1000, ceiling: hard, decide: leader}
      hard-few: {rate: 1/s, burst: 1, ceiling: hard}
      hard-durable: {rate: 1000/s, burst: 1000, ceiling: hard, durable: true}
      hard-day: {limit: 100, per: day, window: calendar, ceiling: hard}
      hard-tiers: {ceiling: hard, tiers: [{limit: 1000, per: 1s, window: sliding}, {limit: 5000, per: 1m}]}
      places: {in_flight: 10}
      hard-places: {in_flight: 10, ceiling: hard}
`
	const (
		asks, waits = "asks the leader", "waits for the leader's next grant"
		central     = "the leader decides each check that it could admit"
		paused      = "refuses connections"
		answers     = "TestAnswersOutliveLeaders"
		divided     = "up to a fifth where tokens are few"
		commit      = "a commit of the leader's log"
	)
	list, err := config.ParseLimits("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"soft":            {waits, "0.2 %"},
		"soft-local":      {"in memory, without waiting.", divided, "wait of at most 20ms"},
		"soft-leader":     {"decides each check", "within 200 ms", "refusals while no leader answers"},
		"soft-few":        {central, "a round trip for each check that the limit could admit"},
		"soft-fast":       {waits, "more than half the rate", central, "a round trip for each check that the limit could admit"},
		"soft-slow":       {waits, "a round trip for each check that the limit could admit"},
		"soft-fast-local": {"in memory, without waiting.", divided, "counts to the token where few tokens are shared"},
		"soft-durable":    {waits, divided},
		"hard":            {asks, paused, answers},
		"hard-local":      {"refuse what they do not hold", paused, "hardly any refusals"},
		"hard-leader":     {"decides each check", paused},
		"hard-few":        {central, paused, answers},
		"hard-durable":    {waits, paused, commit},
		"hard-day":        {waits, "windows overlap", commit, "(UTC)"},
		"hard-tiers":      {"Tier 1", central, "Tier 2", waits, answers, commit},
		"places":          {waits, "released", "5.5 %"},
		"hard-places":     {waits, "longer than the lease"},
	}
	for _, l := range list {
		e := explanation{c: bound.Cluster{Nodes: 3, Delay: time.Millisecond, Sync: assumedSync, Election: election}}
		e.explain(&l)
		text := strings.Join(append(append([]string{e.Rule}, e.Exceptions...), e.Tighter...), "\n")
		for _, s := range e.Situations {
			text += "\n" + s.Basis
		}
		for _, phrase := range []string{asks, waits, central, paused, answers, divided, commit} {
			if strings.Contains(text, phrase) != slices.Contains(want[l.Limit], phrase) {
				t.Errorf("%s: contains %q: %v; want the opposite", l.Limit, phrase, strings.Contains(text, phrase))
			}
		}
		for _, phrase := range want[l.Limit] {
			if !strings.Contains(text, phrase) {
				t.Errorf("%s: %q is missing in:\n%s", l.Limit, phrase, text)
			}
		}
	}
}
