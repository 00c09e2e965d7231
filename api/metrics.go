package api

import (
	"runtime"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

// Meter holds the metrics of all transports.
type Meter struct {
	rules     rules
	decisions *prometheus.Desc
	shadow    *prometheus.Desc
	near      *prometheus.Desc
	noLimit   prometheus.Counter
	Duration  *prometheus.HistogramVec
	build     prometheus.Gauge
	denied    *prometheus.CounterVec
	// The observers of most calls, looked up once.
	allowOK, batchOK prometheus.Observer
}

var _ prometheus.Collector = (*Meter)(nil)

// newMeter returns a meter that o.Registry holds.
func newMeter(o *Options) *Meter {
	m := &Meter{
		decisions: prometheus.NewDesc("quorate_decisions_total",
			"Decisions made through the API, by limit, result (allowed, refused) and why.", []string{"namespace", "limit", "result", "why"}, nil),
		shadow: prometheus.NewDesc("quorate_shadow_refusals_total",
			"Decisions that would have been refused if their limit were enforced, by limit.", []string{"namespace", "limit"}, nil),
		near: prometheus.NewDesc("quorate_near_limit_total",
			"Decisions that left their limit nearly used up, by limit.", []string{"namespace", "limit"}, nil),
		noLimit: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "quorate_no_limit_total", Help: "Checks through the API that named a limit that does not exist.",
		}),
		Duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "quorate_request_duration_seconds",
			Help:    "Time to serve an API call, by protocol (http, grpc), method and code.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5, 2.5},
		}, []string{"protocol", "method", "code"}),
		denied: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quorate_denied_calls_total", Help: "API calls denied because the caller lacks the permission or failed authentication, by method and reason.",
		}, []string{"method", "reason"}),
		build: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "quorate_build_info", Help: "Always 1; its labels are the version, revision and Go version of this process.",
			ConstLabels: prometheus.Labels{"version": o.Version, "revision": Revision(), "goversion": runtime.Version()},
		}),
	}
	if m.rules.Guard = o.Series; o.Series == nil {
		m.rules.Guard = series.New(0)
	}
	m.build.Set(1)
	o.Registry.MustRegister(m) // invariant: a registry has one service, and only this package names metrics like this
	ok := codes.OK.String()
	m.allowOK, m.batchOK = m.Duration.WithLabelValues("grpc", quoratev1.QuotaService_Allow_FullMethodName, ok), m.Duration.WithLabelValues("grpc", quoratev1.QuotaService_AllowBatch_FullMethodName, ok)
	return m
}

// Hot returns the observer of a successful check, or of a successful batch.
func (m *Meter) Hot(method string) prometheus.Observer {
	if method == quoratev1.QuotaService_AllowBatch_FullMethodName {
		return m.batchOK
	}
	return m.allowOK
}

// Revision returns the commit of the build, or "unknown".
func Revision() string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// Observe measures a call. trace is the id of its sampled trace, or "".
func (m *Meter) Observe(protocol, method, code string, start time.Time, trace string) {
	ObserveTraced(m.Duration.WithLabelValues(protocol, method, code), time.Since(start).Seconds(), trace)
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.decisions
	ch <- m.shadow
	ch <- m.near
	m.noLimit.Describe(ch)
	m.Duration.Describe(ch)
	m.build.Describe(ch)
	m.denied.Describe(ch)
}

// Collect implements prometheus.Collector. A series appears with its first decision: all whys of
// every limit would be twenty series per limit.
func (m *Meter) Collect(ch chan<- prometheus.Metric) {
	m.noLimit.Collect(ch)
	m.Duration.Collect(ch)
	m.build.Collect(ch)
	m.denied.Collect(ch)
	m.rules.each(func(n quota.LimitName, c *Counts) {
		for w := range whyCount {
			m.send(ch, m.decisions, c.allowed[w].Load(), n, "allowed", quota.Why(w).String())
			m.send(ch, m.decisions, c.refused[w].Load(), n, "refused", quota.Why(w).String())
		}
		m.send(ch, m.shadow, c.shadow.Load(), n)
		m.send(ch, m.near, c.near.Load(), n)
	})
}

func (m *Meter) send(ch chan<- prometheus.Metric, d *prometheus.Desc, v uint64, n quota.LimitName, labels ...string) {
	if v > 0 {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append([]string{n.Namespace, n.Limit}, labels...)...)
	}
}

// SampledTrace returns the trace id of a sampled traceparent (W3C Trace Context), else "". The
// duration of a traced and sampled call carries the trace id as an exemplar, so that a slow bucket
// on a dashboard leads to a trace. This works without any tracing set up here.
func SampledTrace(parent string) string {
	const version, trace, span, end = 2, 35, 52, 55 // where each part ends
	if len(parent) < end || parent[version] != '-' || parent[trace] != '-' || parent[span] != '-' ||
		parent[:version] == "ff" || len(parent) > end && parent[end] != '-' {
		return ""
	}
	id, zero := parent[version+1:trace], true
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return ""
		}
		zero = zero && c == '0'
	}
	if flags := parent[end-1]; zero || !hexOdd(flags) {
		return ""
	}
	return id
}

// hexOdd reports whether a hexadecimal digit is odd: the lowest bit of the flags means sampled.
func hexOdd(c byte) bool {
	switch c {
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return true
	}
	return false
}

// ObserveTraced observes a duration, with the trace id as its exemplar unless empty.
func ObserveTraced(o prometheus.Observer, seconds float64, trace string) {
	if e, ok := o.(prometheus.ExemplarObserver); ok && trace != "" {
		e.ObserveWithExemplar(seconds, prometheus.Labels{"trace_id": trace})
		return
	}
	o.Observe(seconds)
}
