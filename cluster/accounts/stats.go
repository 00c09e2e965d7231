package accounts

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/internal/account"
)

// stats are the metrics. None has a label per account or per range.
type stats struct {
	ops           *prometheus.CounterVec // by outcome, one for each operation of a call
	transactions  *prometheus.CounterVec // by result
	batch, commit prometheus.Histogram
	overloads     prometheus.Counter
	held          prometheus.Counter
	carried       prometheus.Counter
}

func (t *stats) init(s *Service, reg prometheus.Registerer) {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		reg.MustRegister(c)
		return c
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		reg.MustRegister(c)
		return c
	}
	t.ops = vec("quorate_account_ops_total", "Operations on accounts requested by callers of this node, by outcome of the call.", "outcome")
	t.transactions = vec("quorate_account_transactions_total", "Attempts at transactions on several ranges that this node coordinated, by result.", "result")
	for _, code := range []account.Code{account.Done, account.Repeated, account.Failed, account.Mismatched, account.Held, account.Full} {
		t.ops.WithLabelValues(codeName(code)) // so that there is a 0 before the first
		t.transactions.WithLabelValues(codeName(code))
	}
	t.ops.WithLabelValues(unavailable)
	t.transactions.WithLabelValues(codeName(account.Aborted))
	t.transactions.WithLabelValues(unavailable)
	t.overloads = counter("quorate_account_overloads_total", "Commands on accounts refused because too many were queued.")
	t.held = counter("quorate_account_held_waits_total", "Waits of calls for accounts that a transaction held.")
	t.carried = counter("quorate_account_transactions_recovered_total", "Transactions abandoned by their coordinator that this node completed.")
	t.batch = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quorate_account_batch_commands", Help: "Commands in one entry of a range's log.", Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})
	t.commit = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "quorate_account_commit_seconds", Help: "Time to commit and apply a log entry, at the leader.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
	})
	reg.MustRegister(t.batch, t.commit)
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	sum := func(of func(account.Stats) int) func() float64 {
		return func() float64 {
			n := 0
			for _, r := range s.cfg.Replicas {
				n += of(r.Stats())
			}
			return float64(n)
		}
	}
	gauge("quorate_accounts", "Accounts in the replicas on this node.", sum(func(st account.Stats) int { return st.Accounts }))
	gauge("quorate_account_requests", "Request ids remembered by the replicas on this node.", sum(func(st account.Stats) int { return st.Requests }))
	gauge("quorate_account_transactions", "Transactions in progress, or not purged yet, in the replicas on this node.", sum(func(st account.Stats) int { return st.Transactions }))
	gauge("quorate_account_queue", "Commands on accounts queued on this node.", func() float64 {
		n := 0
		for i := range s.queues {
			n += s.queues[i].length()
		}
		return float64(n)
	})
}

// unavailable is the outcome, in metrics, of what has ended in an error.
const unavailable = "unavailable"

// codeName is an outcome in metrics.
func codeName(c account.Code) string {
	switch c {
	case account.Done:
		return "done"
	case account.Repeated:
		return "repeated"
	case account.Failed:
		return "failed"
	case account.Mismatched:
		return "mismatched"
	case account.Held:
		return "held"
	case account.Full:
		return "full"
	case account.Committed:
		return "committed"
	case account.Aborted:
		return "aborted"
	}
	return "unknown"
}
