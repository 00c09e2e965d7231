package api

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/internal/quota"
)

// dynamicNode resolves any number of names and keys to its limits, and overrides every key that
// contains 77.
type dynamicNode struct {
	*apitest.Node
	set *quota.Limits
}

func (n *dynamicNode) Limits() *quota.Limits { return n.set }

func (n *dynamicNode) Check(k quota.Key, cost int64) quota.Decision {
	l, key := n.set.Resolve(k.LimitName, k.Key)
	if strings.Contains(key, "77") {
		changed := *l
		l = &changed
	}
	return quota.Decision{Allowed: cost == 1, Limit: l, Why: quota.WhyHeld}
}

// TestTrapSeriesPerKey checks that a million keys, names and overridden keys add no series and no
// rules beyond those of the existing limits. envoyproxy/ratelimit keeps statistics for every value
// of an override's descriptor forever, and quotaservice for every dynamic bucket.
func TestTrapSeriesPerKey(t *testing.T) {
	named := apitest.MustLimits(t, 1, "web/listed 10/s 20").All()[0]
	template, fallback := named, named
	template.LimitName = quota.LimitName{Namespace: "dynamic", Limit: quota.Template}
	fallback.LimitName = quota.Global
	set, err := quota.NewLimits(1, []quota.Limit{named, template, fallback})
	if err != nil {
		t.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	s := New(&dynamicNode{apitest.New(t), set}, Options{Registry: reg, Logger: slog.New(slog.DiscardHandler)})
	ask := func(i int) {
		id := "k" + strconv.Itoa(i)
		for _, k := range []quota.Key{
			{LimitName: named.LimitName, Key: id},
			{LimitName: quota.LimitName{Namespace: "dynamic", Limit: id}, Key: "*"},
			{LimitName: quota.LimitName{Namespace: id, Limit: id}, Key: id},
		} {
			cost := int64(1 + i%2)
			if _, _, err := s.Quota.Decide(&Check{Key: k, Cost: cost, Costs: true}); err != nil {
				t.Fatalf("%v: %v", k, err)
			}
		}
	}
	series := func() (n int) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.Metric)
		}
		return n
	}
	ask(0)
	ask(1)
	before := series()
	for i := range 333_333 {
		ask(i)
	}
	if after := series(); after != before {
		t.Errorf("%d series, %d before: a million keys and names added some", after, before)
	}
	if g := s.Meter.rules.current.Load(); len(s.Meter.rules.byName) != 3 || g.size > len(set.All())+maxSpare {
		t.Errorf("counts of %d limits and %d rules are kept", len(s.Meter.rules.byName), g.size)
	}
}

// TestTrapJoinedPlaces checks that a position in the list of overrides, which joins namespace,
// limit and key in one string, parses back whatever the key contains.
func TestTrapJoinedPlaces(t *testing.T) {
	for _, n := range []quota.LimitName{{Namespace: "a", Limit: "b"}, {Namespace: "a", Limit: quota.Template}, quota.Global} {
		for _, key := range []string{"k", "*", "/", "a/b", "b/k", "/k", "k/", "#2", "@template/x", " ", "a\x00b"} {
			k := quota.Key{LimitName: n, Key: key}
			if got, err := parseAfter(k.String()); err != nil || got != k {
				t.Errorf("%q: read as %q, %v", k, got, err)
			}
		}
	}
}
