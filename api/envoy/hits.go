package envoy

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the rules in metrics. A set of values beyond maxDetailed is counted by its rule alone,
// and a longer label is cut off.
const (
	maxDetailed = 1000
	maxLabel    = 200 // bytes
)

// Hits counts the hits of rules that are used unchanged. A nil Hits counts nothing.
type Hits struct {
	total *prometheus.CounterVec

	mu       sync.Mutex
	detailed map[string]bool
}

// NewHits creates the metric and registers it.
func NewHits(reg prometheus.Registerer) *Hits {
	h := &Hits{detailed: map[string]bool{}, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_envoy_rls_hits_total",
		Help: "Hits of the rules from envoyproxy/ratelimit files, by domain, rule and result: within, near, over or shadow.",
	}, []string{"domain", "rule", "result"})}
	reg.MustRegister(h.total)
	return h
}

func (h *Hits) add(t *target, d *quota.Decision) {
	if h == nil || !t.asIs || t.negative || t.n == 0 || d.Limit == nil {
		return
	}
	result := "within"
	switch {
	case d.Shadow:
		result = "shadow"
	case !d.Allowed:
		result = "over"
	case d.Near:
		result = "near"
	}
	h.total.WithLabelValues(t.key.Namespace, h.label(t), result).Add(float64(t.n))
}

// label returns the rule, with the request's values if the rule asks for them and there is room.
func (h *Hits) label(t *target) string {
	plain := ruleLabel(t, false)
	label := ruleLabel(t, true)
	if label == plain {
		return plain
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.detailed[label] {
		if len(h.detailed) >= maxDetailed {
			return plain
		}
		h.detailed[label] = true
	}
	return label
}

// ruleLabel joins the steps of a rule. If detailed is set, it includes the values that the rule has in
// metrics. A shared value is always its pattern.
func ruleLabel(t *target, detailed bool) string {
	r := t.rule
	words := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		shared := i < len(r.Share) && r.Share[i]
		metric := i < len(r.Metric) && r.Metric[i]
		if detailed && !shared && (r.Detailed || metric) {
			s.Value = t.entries[i].Value
		}
		words[i] = s.String()
	}
	label := strings.Join(words, ", ")
	if len(label) > maxLabel {
		cut := maxLabel
		for !utf8.RuneStart(label[cut]) {
			cut--
		}
		label = label[:cut] + "..."
	}
	return label
}
