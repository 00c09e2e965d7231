package load

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// loadReport is the output of "quorate load -o json". Fields may be added, but not renamed.
type loadReport struct {
	Limit    ruleReport `json:"limit"`
	Rate     float64    `json:"rate"`
	Spread   string     `json:"spread"`
	Keys     int        `json:"keys"`
	Dist     string     `json:"dist"`
	Seed     uint64     `json:"seed"`
	Prefix   string     `json:"key_prefix"`
	Batch    int        `json:"batch"`
	Seconds  float64    `json:"seconds"`
	Offered  int64      `json:"offered"` // checks on the schedule until the end
	Sent     int64      `json:"sent"`
	Answered int64      `json:"answered"`
	Allowed  int64      `json:"allowed"`
	Refused  int64      `json:"refused"`
	Errors   int64      `json:"errors"` // checks without an answer
	LastErr  string     `json:"last_error,omitempty"`
	Rerouted int64      `json:"rerouted"` // calls that went to another node than intended

	Throughput float64          `json:"throughput"` // answers per second
	Why        map[string]int64 `json:"why"`
	Modes      map[string]int64 `json:"modes,omitempty"` // with --client: decisions by the way in which they were made
	Latency    latencyReport    `json:"latency_ms"`
	Sender     senderReport     `json:"sender"`
	Admission  admissionReport  `json:"admission"`
	Nodes      []nodeReport     `json:"nodes"`
}

type latencyReport struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// admissionReport compares the admitted tokens with what the limit admits.
type admissionReport struct {
	Tokens      int64   `json:"tokens"`       // admitted
	LimitTokens int64   `json:"limit_tokens"` // burst + rate x elapsed, at most what was attempted, summed over all keys
	Pct         float64 `json:"pct"`          // of limit_tokens
	OverTokens  int64   `json:"over_tokens"`  // beyond the limit, summed over all keys
	WorstKey    string  `json:"worst_key,omitempty"`
	WorstOver   int64   `json:"worst_over_tokens"`
	WorstPct    float64 `json:"worst_over_pct"` // of that key's limit
}

type nodeReport struct {
	Addr       string  `json:"addr"`
	Calls      int64   `json:"calls"`
	Errors     int64   `json:"errors"`
	Rerouted   int64   `json:"rerouted"`
	LongestGap float64 `json:"longest_gap_ms"` // between two successive answers
	GapAt      float64 `json:"longest_gap_at_s"`
	LastAnswer float64 `json:"last_answer_s"`
}

func (l *loader) report() *loadReport {
	elapsed := time.Since(l.pace.start)
	s := l.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &loadReport{
		Limit: newRuleReport(&l.rule), Rate: l.rate, Spread: l.skew, Keys: l.keys, Dist: l.dist, Seed: l.seed, Prefix: l.prefix, Batch: l.batch,
		Seconds: elapsed.Seconds(), Offered: int64(l.rate * min(elapsed, l.duration).Seconds()),
		Sent: s.totals.sent, Answered: s.totals.answered, Allowed: s.totals.allowed, Refused: s.totals.refused, Errors: s.totals.errors,
		Throughput: float64(s.totals.answered) / elapsed.Seconds(), Why: make(map[string]int64),
		Latency: newLatencyReport(s.latency), Sender: l.pace.report(), Admission: l.admission(),
	}
	if s.lastErr != nil {
		r.LastErr = remote.Explain(status.Convert(s.lastErr))
	}
	if l.local != nil {
		r.Modes = l.local.modes()
	}
	for w, n := range s.why {
		r.Why[w.String()] = n
	}
	for _, n := range l.pool.nodes {
		n.mu.Lock()
		node := nodeReport{Addr: n.addr, Calls: n.calls, Errors: n.errors, Rerouted: n.rerouted, LongestGap: render.Millis(n.gap.Microseconds())}
		if n.calls > 0 {
			node.LastAnswer = n.last.Sub(l.pace.start).Seconds()
		}
		if n.gap > 0 {
			node.GapAt = n.gapAt.Sub(l.pace.start).Seconds()
		}
		n.mu.Unlock()
		r.Rerouted += node.Rerouted
		r.Nodes = append(r.Nodes, node)
	}
	return r
}

func newLatencyReport(h *hdrhistogram.Histogram) latencyReport {
	return latencyReport{
		P50: render.Millis(h.ValueAtQuantile(50)), P90: render.Millis(h.ValueAtQuantile(90)), P99: render.Millis(h.ValueAtQuantile(99)),
		P999: render.Millis(h.ValueAtQuantile(99.9)), Max: render.Millis(h.Max()),
	}
}

// admission compares every key with its limit. The caller holds stats.mu.
func (l *loader) admission() (a admissionReport) {
	for i := range l.stats.keys {
		k := &l.stats.keys[i]
		may := mayAdmit(&l.rule, time.Duration(max(k.last-k.first, 0)))
		a.Tokens += k.allowed
		a.LimitTokens += min(may, k.attempted)
		over := k.allowed - may
		if over <= 0 {
			continue
		}
		a.OverTokens += over
		if over > a.WorstOver {
			a.WorstOver, a.WorstPct, a.WorstKey = over, render.Percent(over, may), l.keyName(int32(i))
		}
	}
	a.Pct = render.Percent(a.Tokens, a.LimitTokens)
	return a
}

// mayAdmit returns burst + rate x elapsed, in whole tokens, rounded up.
func mayAdmit(l *quota.Limit, elapsed time.Duration) int64 {
	b := limiter.NewBucket(0, 0)
	b.Refill(quota.Time(elapsed), l.Rate, quota.FromTokens(quota.MaxTokens))
	return l.Burst + (b.Level() + quota.Token - 1).Tokens()
}

func (r *loadReport) print(p *render.Page) {
	fmt.Fprintf(p, "limit        %v\n", r.Limit)
	fmt.Fprintf(p, "load         %g checks/s for %.1f s, %s (%s, seed %d), nodes %s, batches of %d\n", r.Rate, r.Seconds, phrase.Plural(r.Keys, "key"), r.Dist, r.Seed, r.Spread, r.Batch)
	fmt.Fprintf(p, "key prefix   %s\n\n", r.Prefix)
	fmt.Fprintf(p, "offered      %d\nsent         %d\nanswered     %d (%.0f/s)\nallowed      %d\nrefused      %d\n", r.Offered, r.Sent, r.Answered, r.Throughput, r.Allowed, r.Refused)
	fmt.Fprintf(p, "errors       %d", r.Errors)
	if r.LastErr != "" {
		fmt.Fprintf(p, " (last: %s)", r.LastErr)
	}
	fmt.Fprintf(p, "\nrerouted     %d calls\nwhy          %s\n", r.Rerouted, render.Words(r.Why))
	if r.Modes != nil {
		fmt.Fprintf(p, "decided by   %s\n", render.Words(r.Modes))
	}
	fmt.Fprintf(p, "latency      p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, p99.9 %.2f ms, max %.2f ms (from the scheduled moment)\n",
		r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	fmt.Fprint(p, r.Sender)
	a := r.Admission
	fmt.Fprintf(p, "\nadmitted     %d tokens, %.2f%% of the limit's %d; %d beyond it\n", a.Tokens, a.Pct, a.LimitTokens, a.OverTokens)
	if a.WorstKey != "" {
		fmt.Fprintf(p, "worst key    %s: %d tokens beyond its limit (%.2f%%)\n", phrase.Show(a.WorstKey), a.WorstOver, a.WorstPct)
	}
	fmt.Fprintln(p)
	tbl := render.NewTable("NODE", "CALLS", "ERRORS", "REROUTED", "LONGEST GAP MS", "AT S", "LAST ANSWER S")
	for _, n := range r.Nodes {
		tbl.Row(n.Addr, n.Calls, n.Errors, n.Rerouted, fmt.Sprintf("%.1f", n.LongestGap), fmt.Sprintf("%.1f", n.GapAt), fmt.Sprintf("%.1f", n.LastAnswer))
	}
	p.Table(tbl)
}
