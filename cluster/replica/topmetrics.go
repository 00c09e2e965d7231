package replica

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// maxKeyLabel bounds a key in a label, in bytes. A longer key is cut off.
const maxKeyLabel = 128

// topMetrics names the busiest keys of the ranges led here. It exists only if an operator has asked for
// some number of keys, knowing that keys may reveal who uses the service.
type topMetrics struct {
	set    *Set
	demand *prometheus.Desc
}

func newTopMetrics(s *Set) *topMetrics {
	return &topMetrics{s, prometheus.NewDesc("quorate_top_key_demand_tokens",
		"Recent demand, in tokens a second, of the busiest keys in the ranges that this node leads (metrics.top_keys).", []string{"namespace", "limit", "key"}, nil)}
}

// Describe implements prometheus.Collector.
func (m *topMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.demand }

// Collect implements prometheus.Collector.
func (m *topMetrics) Collect(ch chan<- prometheus.Metric) {
	top := m.set.cfg.TopKeys
	var all []quota.KeyRate
	for _, r := range m.set.replicas {
		keys, _, _ := r.rates(leader.Query{Order: quota.ByDemand, Top: top, Limits: func(quota.LimitName) bool { return true }})
		all = append(all, keys...)
		all = busiest(all, top)
	}
	sum := map[quota.Key]float64{} // cut-off keys may coincide
	for _, k := range all {
		if k.Demand > 0 {
			k.Key.Key = keyLabel(k.Key.Key)
			sum[k.Key] += k.Demand
		}
	}
	for k, v := range sum {
		ch <- prometheus.MustNewConstMetric(m.demand, prometheus.GaugeValue, v, k.Namespace, k.Limit, k.Key)
	}
}

// busiest sorts all by demand and returns its first most elements, in the same memory.
func busiest(all []quota.KeyRate, most int) []quota.KeyRate {
	slices.SortFunc(all, func(a, b quota.KeyRate) int { return cmp.Compare(b.Demand, a.Demand) })
	return all[:min(most, len(all))]
}

// keyLabel converts a key to a label value: valid UTF-8 of bounded length.
func keyLabel(k string) string {
	k = strings.ToValidUTF8(k, "�")
	if len(k) > maxKeyLabel {
		cut := maxKeyLabel
		for !utf8.RuneStart(k[cut]) {
			cut--
		}
		k = k[:cut] + "..."
	}
	return k
}
