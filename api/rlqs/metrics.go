package rlqs

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api/rlqs/share"
)

// protocol is its name in metrics.
const protocol = "envoy_rlqs"

type metrics struct {
	reports, invalid, badBucket, tooMany, refused, slow prometheus.Counter
	assigned, denyAll, allowAll, abandoned              prometheus.Counter
	allowed, denied                                     prometheus.Counter

	reg prometheus.Registerer
}

func newMetrics(o Options) *metrics {
	of := func(code string) prometheus.Counter { return o.Meter.Of(protocol, code) }
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "quorate_rlqs_requests_total",
		Help: "Requests that proxies reported, by their decision.",
	}, []string{"result"})
	o.Registry.MustRegister(requests)
	return &metrics{
		reports: of("report"), invalid: of("invalid"), badBucket: of("bad_bucket"), tooMany: of("too_many_buckets"),
		refused: of("too_many_streams"), slow: of("slow_reader"),
		assigned: of("token_bucket"), denyAll: of("deny_all"), allowAll: of("allow_all"), abandoned: of("abandon"),
		allowed: requests.WithLabelValues("allowed"), denied: requests.WithLabelValues("denied"),
		reg: o.Registry,
	}
}

func (m *metrics) used(u share.Usage) {
	m.allowed.Add(float64(u.Allowed))
	m.denied.Add(float64(u.Denied))
}

func (m *metrics) sent(a share.Action) {
	switch a {
	case share.Bucket:
		m.assigned.Inc()
	case share.DenyAll:
		m.denyAll.Inc()
	case share.AllowAll:
		m.allowAll.Inc()
	case share.Abandon:
		m.abandoned.Inc()
	}
}

// watch exports the numbers of streams and buckets.
func (m *metrics) watch(s *assigner) {
	gauge := func(name, help string, f func() int) {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(f())
		}))
	}
	gauge("quorate_rlqs_streams", "Open streams of proxies.", func() int { return len(s.open) })
	gauge("quorate_rlqs_buckets", "Buckets of proxies, including those of closed streams whose assignment has not expired.", func() int { return s.table.Len() })
	m.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "quorate_rlqs_unpaid_tokens_total",
		Help: "Tokens that proxies admitted beyond what is kept as debt.",
	}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.table.Unpaid
	}))
}
