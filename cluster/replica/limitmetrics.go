package replica

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

// limitMetrics exports the live error as metrics. Each current limit has its own series, so that a
// count of nothing reads 0. Limits that the guard has no room for share series.Other, which omits the
// values that cannot be added up.
type limitMetrics struct {
	set                                    *Set
	guard                                  *series.Guard
	attempted, admitted, over, least, most *prometheus.Desc
	worst, bound, unnamed                  *prometheus.Desc

	mu   sync.Mutex
	last map[quota.LimitName]*quota.LiveError // limits that were in Other at the last collection
	gone quota.LiveError                      // sum of limits that have left Other, so that Other never falls
}

func newLimitMetrics(s *Set) *limitMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "limit"}, labels...), nil)
	}
	guard := s.cfg.Series
	if guard == nil {
		guard = series.New(0)
	}
	return &limitMetrics{
		set: s, guard: guard,
		attempted: desc("quorate_attempted_tokens_total", "Tokens attempted, as this node counted them as a leader."),
		admitted:  desc("quorate_admitted_tokens_total", "Tokens admitted, as this node counted them as a leader."),
		over:      desc("quorate_over_admitted_tokens_total", "Tokens admitted beyond burst + rate x time, as this node measured as a leader, by cause (estimate, cut_off).", "cause"),
		least:     desc("quorate_needless_refusals_total", "Tokens refused although the limit would have covered them, as this node measured as a leader: lower bound."),
		most:      desc("quorate_needless_refusals_at_most_total", "Tokens refused although the limit would have covered them, as this node measured as a leader: upper bound."),
		worst:     desc("quorate_worst_excess_tokens", "Largest excess of a key over burst + rate x time, as this node measured as a leader."),
		bound:     desc("quorate_over_admission_bound_tokens", "Stated bound of quorate_worst_excess_tokens while all nodes are connected."),
		unnamed:   prometheus.NewDesc("quorate_limits_without_series", "Active limits that these metrics count together as @other, because there are too many limits.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *limitMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.attempted, m.admitted, m.over, m.least, m.most, m.worst, m.bound, m.unnamed} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *limitMetrics) Collect(ch chan<- prometheus.Metric) {
	measured, at := m.set.liveErrors(), m.set.node.Bounds()
	if measured == nil {
		return // no series is better than one that falls
	}
	limits := m.set.node.Committed()
	m.guard.Prune(func(n quota.LimitName) bool { _, ok := limits.Find(n); return ok })
	others := map[quota.LimitName]*quota.LiveError{}
	for _, l := range limits.All() {
		e := measured[l.LimitName]
		if e == nil {
			e = &quota.LiveError{}
		}
		if m.guard.Of(l.LimitName) != l.LimitName {
			others[l.LimitName] = e
			continue
		}
		m.counters(ch, l.LimitName, e)
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, l.Namespace, l.Limit)
		}
		gauge(m.worst, tokens(e.Worst))
		gauge(m.bound, bound.Most(&l, at))
	}
	ch <- prometheus.MustNewConstMetric(m.unnamed, prometheus.GaugeValue, float64(len(others)))
	if sum, any := m.together(others); any {
		m.counters(ch, quota.LimitName{Namespace: series.Other, Limit: series.Other}, sum)
	}
}

func (m *limitMetrics) counters(ch chan<- prometheus.Metric, n quota.LimitName, e *quota.LiveError) {
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{n.Namespace, n.Limit}, labels...)...)
	}
	send(m.attempted, tokens(e.Attempted))
	send(m.admitted, tokens(e.Admitted))
	send(m.over, tokens(e.OverAdmitted), "estimate")
	send(m.over, tokens(e.CutOff), "cut_off")
	send(m.least, tokens(e.Needless))
	send(m.most, tokens(e.NeedlessAtMost))
}

// together adds up the limits without series of their own, including those that are gone or have since
// got one. It returns false if there never were any.
func (m *limitMetrics) together(others map[quota.LimitName]*quota.LiveError) (sum *quota.LiveError, some bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, was := range m.last {
		if is := others[n]; is == nil || is.Attempted < was.Attempted { // gone, or deleted and created again
			m.gone.Add(was)
		}
	}
	m.last = others
	sum = &quota.LiveError{}
	sum.Add(&m.gone)
	for _, e := range others {
		sum.Add(e)
	}
	return sum, len(others) > 0 || m.gone != (quota.LiveError{})
}
