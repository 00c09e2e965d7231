package cluster

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

// TestLimitsWithoutSeries sets 30 limits, of which 10 may have series of their own.
func TestLimitsWithoutSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	c := newThreeNodes(t, 3, func(cfg *Config) {
		if cfg.Self == "n1" {
			cfg.Series, cfg.Registry = series.New(10), reg
		}
	})
	var all []quota.Limit
	for i := range 30 {
		all = append(all, limit(fmt.Sprintf("l%02d", i), 10, quota.Soft))
	}
	c.apply(all...)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, f := range families {
		count[f.GetName()] = len(f.GetMetric())
		if f.GetName() == "quorate_limits_without_series" && f.GetMetric()[0].GetGauge().GetValue() != 20 {
			t.Errorf("without series: %v; want 20", f)
		}
	}
	for name, want := range map[string]int{
		"quorate_attempted_tokens_total": 11, "quorate_over_admitted_tokens_total": 22, "quorate_worst_excess_tokens": 10,
	} {
		if count[name] != want {
			t.Errorf("%s has %d series; want %d", name, count[name], want)
		}
	}
}
