package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// liveErrors keeps what the ledgers have measured whose terms are over, so that
// the node's counters never fall. At most one entry for each limit that there has
// been a report of.
type liveErrors struct {
	mu   sync.Mutex
	past map[quota.LimitName]*quota.LiveError
	kept int // how many ledgers
}

// keep takes over the counters of a ledger that ends.
func (e *liveErrors) keep(l *leader.Ledger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.past == nil {
		e.past = map[quota.LimitName]*quota.LiveError{}
	}
	addAll(e.past, l)
	e.kept++
}

func (e *liveErrors) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.kept
}

func addAll(to map[quota.LimitName]*quota.LiveError, l *leader.Ledger) {
	l.LiveErrors(func(n quota.LimitName, o *quota.LiveError) {
		if to[n] == nil {
			to[n] = &quota.LiveError{}
		}
		to[n].Add(o)
	})
}

// liveErrors is what the node has measured of each limit in force, as a leader. A
// ledger that ends meanwhile would be counted twice, so all is read anew then.
func (n *Node) liveErrors() map[quota.LimitName]*quota.LiveError {
	for range 3 {
		kept := n.live.count()
		out := map[quota.LimitName]*quota.LiveError{}
		for _, s := range n.seats {
			s.with(func(l *leader.Ledger, _ quota.Time) { addAll(out, l) })
		}
		if n.live.addPast(out, kept, n.meta.current()) {
			return out
		}
	}
	return nil // leaderships move too fast; ask again
}

// addPast adds what was measured in terms that are over, and forgets limits that
// are gone. It returns false if a term has ended since there were kept of them.
func (e *liveErrors) addPast(out map[quota.LimitName]*quota.LiveError, kept int, limits *quota.Limits) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kept != kept {
		return false
	}
	for name, past := range e.past {
		if _, there := limits.Find(name); !there {
			delete(e.past, name)
			continue
		}
		if out[name] == nil {
			out[name] = &quota.LiveError{}
		}
		out[name].Add(past)
	}
	return true
}

// election is how long a range has no leader after a crash, as measured:
// docs/ARCHITECTURE.md.
const election = 600 * time.Millisecond

// bounds is what the stated bound depends on, as it is now.
func (n *Node) bounds() bound.Cluster {
	return bound.Cluster{
		Nodes: len(n.view.Load().ids), Delay: n.routes.worstTrip() / 2, Sync: n.sync(), Lease: n.lease(), Election: election, CutOff: time.Minute,
	}
}

func (n *Node) sync() time.Duration  { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Sync }
func (n *Node) lease() time.Duration { return leader.Config{Sync: n.cfg.Sync}.WithDefaults().Lease }

// ownErrors answers for this node, encoded for a peer.
func (n *Node) ownErrors(match func(quota.LimitName) bool) [][]byte {
	var out [][]byte
	limits, at := n.meta.current(), n.bounds()
	for name, e := range n.liveErrors() {
		l, there := limits.Find(name)
		if there && match(name) {
			out = append(out, encode(errorProto(name, e, bound.Most(l, at))))
		}
	}
	return out
}

func errorProto(n quota.LimitName, e *quota.LiveError, most float64) *quoratev1.LimitError {
	return &quoratev1.LimitError{
		Namespace: n.Namespace, Limit: n.Limit, Attempted: e.Attempted.Tokens(), Admitted: e.Admitted.Tokens(),
		OverAdmitted: tokens(e.OverAdmitted), OverAdmittedCutOff: tokens(e.CutOff),
		NeedlessRefusals: tokens(e.Needless), NeedlessRefusalsAtMost: tokens(e.NeedlessAtMost),
		WorstExcess: tokens(e.Worst), WorstExcessBursts: e.WorstBurst, LongestGap: durationpb.New(e.Gap), Bound: most,
	}
}

func tokens(u quota.Units) float64 { return float64(u) / float64(quota.Token) }

// mergeErrors adds up what all nodes have measured, worst first.
func mergeErrors(answers []*peerv1.CallRatesResult) []*quoratev1.LimitError {
	sums := map[quota.LimitName]*quoratev1.LimitError{}
	for _, a := range answers {
		for _, data := range a.GetLimits() {
			e := &quoratev1.LimitError{}
			if proto.Unmarshal(data, e) != nil {
				continue
			}
			n := quota.LimitName{Namespace: e.Namespace, Limit: e.Limit}
			if sums[n] == nil {
				sums[n] = e
				continue
			}
			addError(sums[n], e)
		}
	}
	out := make([]*quoratev1.LimitError, 0, len(sums))
	for _, e := range sums {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *quoratev1.LimitError) int {
		return cmp.Or(cmp.Compare(b.OverAdmitted, a.OverAdmitted), cmp.Compare(b.NeedlessRefusals, a.NeedlessRefusals),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Limit, b.Limit))
	})
	return out[:min(len(out), MaxTop)]
}

func addError(to, e *quoratev1.LimitError) {
	to.Attempted += e.Attempted
	to.Admitted += e.Admitted
	to.OverAdmitted += e.OverAdmitted
	to.OverAdmittedCutOff += e.OverAdmittedCutOff
	to.NeedlessRefusals += e.NeedlessRefusals
	to.NeedlessRefusalsAtMost += e.NeedlessRefusalsAtMost
	to.WorstExcess = max(to.WorstExcess, e.WorstExcess)
	to.WorstExcessBursts = max(to.WorstExcessBursts, e.WorstExcessBursts)
	to.Bound = max(to.Bound, e.Bound)
	to.LongestGap = durationpb.New(max(to.LongestGap.AsDuration(), e.LongestGap.AsDuration()))
}

// errorMetrics are the live error as metrics: one series for each limit in force,
// so that what never happened reads 0.
type errorMetrics struct {
	node                                   *Node
	attempted, admitted, over, least, most *prometheus.Desc
	worst, bound                           *prometheus.Desc
}

func newErrorMetrics(n *Node) *errorMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"namespace", "limit"}, labels...), nil)
	}
	return &errorMetrics{
		node:      n,
		attempted: desc("quorate_attempted_tokens_total", "Tokens attempted, as this node booked them as a leader."),
		admitted:  desc("quorate_admitted_tokens_total", "Tokens admitted, as this node booked them as a leader."),
		over:      desc("quorate_over_admitted_tokens_total", "Tokens admitted beyond burst + rate x time, as this node measured as a leader, by cause (estimate, cut_off).", "cause"),
		least:     desc("quorate_needless_refusals_total", "Tokens refused that the limit would have covered on top of all that was admitted, as this node measured as a leader: at least."),
		most:      desc("quorate_needless_refusals_at_most_total", "The same, at most."),
		worst:     desc("quorate_worst_excess_tokens", "The most that a key was beyond burst + rate x time, as this node measured as a leader."),
		bound:     desc("quorate_over_admission_bound_tokens", "The stated bound of that, while all nodes hear of each other."),
	}
}

// Describe implements prometheus.Collector.
func (m *errorMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.attempted, m.admitted, m.over, m.least, m.most, m.worst, m.bound} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *errorMetrics) Collect(ch chan<- prometheus.Metric) {
	measured, at := m.node.liveErrors(), m.node.bounds()
	if measured == nil {
		return // no series is better than one that falls
	}
	for _, l := range m.node.meta.current().All() {
		e := measured[l.LimitName]
		if e == nil {
			e = &quota.LiveError{}
		}
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, kind, v, append([]string{l.Namespace, l.Limit}, labels...)...)
		}
		send(m.attempted, prometheus.CounterValue, tokens(e.Attempted))
		send(m.admitted, prometheus.CounterValue, tokens(e.Admitted))
		send(m.over, prometheus.CounterValue, tokens(e.OverAdmitted), "estimate")
		send(m.over, prometheus.CounterValue, tokens(e.CutOff), "cut_off")
		send(m.least, prometheus.CounterValue, tokens(e.Needless))
		send(m.most, prometheus.CounterValue, tokens(e.NeedlessAtMost))
		send(m.worst, prometheus.GaugeValue, tokens(e.Worst))
		send(m.bound, prometheus.GaugeValue, bound.Most(&l, at))
	}
}
