package limits

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// explainOptions holds the flags of "limits explain".
type explainOptions struct {
	remote.Targets
	output      render.Output
	file        string
	delay, sync time.Duration
}

// Assumptions for a missing cluster, or for values that it does not report.
const (
	assumedDelay = time.Millisecond
	assumedSync  = 100 * time.Millisecond
	election     = 600 * time.Millisecond // measured; see docs/ARCHITECTURE.md
)

func newLimitsExplainCommand() *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain NAMESPACE/LIMIT",
		Short: "Show a limit's error bounds and measured errors",
		Long: `Explain what a limit does; how many tokens beyond it a key can be admitted in
each situation, with the formula and this cluster's numbers; what its leaders
have measured; and how to tighten it, at which cost.

The cluster reports its size, its sync interval and the delay between its nodes;
--delay and --sync override them. --file reads the limit from a limit file and
needs no cluster: --nodes sets its size.

"typical" is the worst result of the simulator's seeds, not a guarantee. The
measured figures are those of the leaders since the running nodes started.
Needless refusals have a lower and an upper bound; over-admission is accurate to
the refill in the longest gap between two reports.`,
		Example: `  quorate limits explain web/per_client
  quorate limits explain web/login -o json
  quorate limits explain --file limits.yaml --nodes 10 --delay 1ms --sync 100ms api/per_tenant`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	o.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "explain the limit of this file (\"-\": standard input), without a cluster")
	f.DurationVar(&o.delay, "delay", 0, "one-way delay between nodes (default: as measured; 1ms with --file)")
	f.DurationVar(&o.sync, "sync", 0, "sync interval (default: the cluster's; 100ms with --file)")
	o.output.AddFlags(cmd, "text", "json")
	return cmd
}

func (o *explainOptions) run(cmd *cobra.Command, arg string) error {
	name, err := parseName(arg)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	e := &explanation{Limit: name.String(), Delay: "given"}
	l, err := o.find(cmd, name, e)
	if err != nil {
		return err
	}
	e.explain(l)
	return o.output.Print(cmd, e, e.print)
}

func (o *explainOptions) check() error {
	if o.delay < 0 || o.delay > 10*time.Second {
		return exit.Usagef("--delay %v: must be 0 to 10s", o.delay)
	}
	if o.sync != 0 && (o.sync < 10*time.Millisecond || o.sync > 10*time.Second) {
		return exit.Usagef("--sync %v: must be 10ms to 10s", o.sync)
	}
	if o.file != "" && (o.Nodes < 1 || o.Nodes > 10_000) {
		return exit.Usagef("--nodes %d: must be 1 to 10000", o.Nodes)
	}
	return nil
}

// find fetches the limit and the properties of its cluster.
func (o *explainOptions) find(cmd *cobra.Command, name quota.LimitName, e *explanation) (*quota.Limit, error) {
	e.c = bound.Cluster{Nodes: o.Nodes, Delay: o.delay, Sync: o.sync, Election: election, CutOff: time.Minute}
	var list []quota.Limit
	var err error
	if o.file != "" {
		e.offline = true
		var data []byte
		if data, err = ReadInput(o.file, cmd.InOrStdin(), apiproto.MaxLimitsFile); err != nil {
			return nil, err
		}
		list, err = config.ParseLimits(o.file, data)
		err = exit.Invalid(err)
		if o.delay == 0 && !cmd.Flags().Changed("delay") {
			e.c.Delay, e.Delay = assumedDelay, "assumed"
		}
	} else {
		list, err = o.ask(cmd, name, e)
	}
	if err != nil {
		return nil, err
	}
	if e.c.Sync == 0 {
		e.c.Sync = assumedSync
	}
	if e.c.Lease == 0 {
		e.c.Lease = max(3*time.Second, 3*e.c.Sync)
	}
	for i := range list {
		if list[i].LimitName == name {
			return &list[i], nil
		}
	}
	return nil, exit.NotFoundf("unknown limit %v; \"quorate limits get\" lists those of a cluster", name)
}

// ask fetches everything from the cluster. A call about rates makes the node measure the round
// trips to its peers, which the status then includes.
func (o *explainOptions) ask(cmd *cobra.Command, name quota.LimitName, e *explanation) ([]quota.Limit, error) {
	ctx := cmd.Context()
	res, err := GetLimits(ctx, &o.Targets, nil)
	if err != nil {
		return nil, err
	}
	list, err := ParseAnswer(res)
	if err != nil {
		return nil, err
	}
	var rates *quoratev1.TopRatesResponse
	var st *quoratev1.GetStatusResponse
	err = o.Call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		rates, err = quoratev1.NewRateServiceClient(conn).TopRates(ctx, &quoratev1.TopRatesRequest{Top: 1, Namespace: name.Namespace, Limit: name.Limit})
		if err != nil {
			return err
		}
		st, err = quoratev1.NewClusterServiceClient(conn).GetStatus(ctx, &quoratev1.GetStatusRequest{})
		return err
	})
	if err != nil {
		return nil, err
	}
	if rates.RangesCovered < rates.RangesTotal {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: incomplete: %d of %d ranges answered\n", rates.RangesCovered, rates.RangesTotal)
	}
	for _, m := range rates.Limits {
		if m.Namespace == name.Namespace && m.Limit == name.Limit {
			e.Measured = &measuredJSON{
				m.Attempted, m.Admitted, m.OverAdmitted, m.OverAdmittedCutOff, m.NeedlessRefusals, m.NeedlessRefusalsAtMost,
				m.WorstExcess, m.WorstExcessBursts, m.LongestGap.AsDuration().Seconds(),
			}
		}
	}
	e.known(st, cmd.Flags().Changed("delay"))
	return list, nil
}

// known takes over values from the status, unless flags give others.
func (e *explanation) known(st *quoratev1.GetStatusResponse, delayGiven bool) {
	e.c.Nodes = len(st.Nodes)
	for _, n := range st.Nodes {
		e.c.Clients += int(n.Clients)
	}
	if e.c.Sync == 0 {
		e.c.Sync = st.Sync.AsDuration()
		e.c.Lease = st.Lease.AsDuration()
	}
	if delayGiven {
		return
	}
	e.Delay = "measured"
	for _, n := range st.Nodes {
		e.c.Delay = max(e.c.Delay, n.RoundTrip.AsDuration()/2)
	}
	if e.c.Delay == 0 && e.c.Nodes > 1 {
		e.c.Delay, e.Delay = assumedDelay, "assumed"
	}
}

// explanation is the output of "limits explain". Amounts are in tokens, times in seconds.
type explanation struct {
	Limit      string          `json:"limit"`
	Rule       string          `json:"rule"`
	Nodes      int             `json:"nodes"`
	DelaySecs  float64         `json:"delay"`
	Delay      string          `json:"delay_is"` // measured, given or assumed
	Sync       float64         `json:"sync"`
	Lease      float64         `json:"lease"`
	Situations []situationJSON `json:"situations"`
	Exceptions []string        `json:"exceptions"`
	Measured   *measuredJSON   `json:"measured"`
	Tighter    []string        `json:"tighter"`

	c       bound.Cluster
	burst   float64
	offline bool
}

type situationJSON struct {
	Name    string   `json:"name"`
	When    string   `json:"when"`
	Worst   *float64 `json:"worst"` // null: no bound
	Typical float64  `json:"typical"`
	Formula string   `json:"formula"`
	Numbers string   `json:"numbers"`
	Basis   string   `json:"basis"`
}

type measuredJSON struct {
	Attempted        int64   `json:"attempted"`
	Admitted         int64   `json:"admitted"`
	OverAdmitted     float64 `json:"over_admitted"`
	CutOff           float64 `json:"over_admitted_cut_off"`
	Needless         float64 `json:"needless_refusals"`
	NeedlessAtMost   float64 `json:"needless_refusals_at_most"`
	WorstExcess      float64 `json:"worst_excess"`
	WorstExcessBurst float64 `json:"worst_excess_bursts"`
	LongestGap       float64 `json:"longest_gap"`
}

func (e *explanation) explain(l *quota.Limit) {
	e.Rule, e.burst = ruleWords(l, e.c), float64(l.Burst)
	e.Nodes, e.DelaySecs, e.Sync, e.Lease = e.c.Nodes, e.c.Delay.Seconds(), e.c.Sync.Seconds(), e.c.Lease.Seconds()
	e.Situations = []situationJSON{}
	for _, s := range bound.Of(l, e.c) {
		j := situationJSON{Name: s.Name, When: s.When, Worst: &s.Worst, Typical: s.Typical, Formula: s.Formula, Numbers: s.Numbers, Basis: s.Basis}
		if s.Unbounded {
			j.Worst = nil
		}
		e.Situations = append(e.Situations, j)
	}
	e.Exceptions = append([]string{}, bound.Exceptions(l)...)
	e.Tighter = append([]string{}, tighter(l, e.c)...)
}

// ruleWords describes a limit in a few sentences.
func ruleWords(l *quota.Limit, c bound.Cluster) string {
	switch l.Class {
	case quota.Unlimited:
		return "Everything is admitted, and nothing counted."
	case quota.Banned:
		return "Everything is refused, permanently."
	}
	var tiers []string
	for _, t := range l.Tiers() {
		tiers = append(tiers, tierWords(&t))
	}
	s := "For every key " + strings.Join(tiers, ", and ") + "."
	switch {
	case l.Ceiling == quota.Hard:
		s += " Hard: refuses a request rather than exceed the limit."
	case l.AsksLeader(): // which has no estimate
	case l.Kind == quota.Concurrency:
		s += " Soft: refuses nothing that the cluster could serve, as far as a node knows; the excess ends as places are released."
	default:
		s += " Soft: refuses nothing that the cluster could serve, as far as a node knows; the excess is paid back."
	}
	s += decideSentences(l, c)
	switch l.Enforcement {
	case quota.Shadow:
		s += " In shadow: counted, but not enforced."
	case quota.Off:
		s += " Off: neither counted nor enforced."
	}
	return s
}

// decideSentences says where a limit is decided; of tiers that differ, for each.
func decideSentences(l *quota.Limit, c bound.Cluster) string {
	var each []string
	for _, t := range bound.Each(l) {
		each = append(each, decideWords(&t, c))
	}
	if all := slices.Compact(slices.Clone(each)); len(all) == 1 {
		return " " + all[0]
	}
	var out strings.Builder
	for i, words := range each {
		fmt.Fprintf(&out, " Tier %d: %s", i+1, words)
	}
	return out.String()
}

// decideWords says where a limit with one tier is decided, as docs/explanation/accuracy.md does.
func decideWords(l *quota.Limit, c bound.Cluster) string {
	switch {
	case l.AsksLeader():
		return "The leader of the key's range decides each check."
	case l.MayAsk() && l.Kind == quota.SlidingWindow:
		return "Sliding windows of less than 10s are not divided among nodes that use the same key: the leader decides each check that it could admit."
	case few(l, c.Nodes):
		return "So few tokens are not divided among nodes that use the same key: the leader decides each check that it could admit."
	case fewUnderLoad(l, c):
		return "A node that cannot decide a check in memory waits for the leader's next grant, at most 20ms. While all nodes together ask for more than half the rate, so few tokens are not divided: the leader decides each check that it could admit."
	case l.MayAsk() && l.Ceiling == quota.Hard:
		return "A node that holds too few tokens asks the leader of the key's range."
	case l.MayWait():
		return "A node that cannot decide a check in memory waits for the leader's next grant, at most 20ms."
	case l.Ceiling == quota.Hard:
		return "Nodes decide in memory, without waiting, and refuse what they do not hold."
	}
	return "Nodes decide in memory, without waiting."
}

// few reports whether the leader of a limit with one tier divides no tokens among so many nodes, because
// half of an equal part of the burst is less than eight tokens, or under soft less than one (package leader,
// Ledger.scarce).
func few(l *quota.Limit, nodes int) bool {
	least := int64(1)
	if l.Ceiling == quota.Hard {
		least = 8
	}
	return l.MayAsk() && !l.AsksLeader() && nodes > 1 && l.Burst < 2*least*int64(nodes)
}

// fewUnderLoad is few for a soft limit whose rate refills the burst within a sync interval, while demand
// exceeds half of the rate: then eight tokens are few, as under hard.
func fewUnderLoad(l *quota.Limit, c bound.Cluster) bool {
	hard := *l
	hard.Ceiling = quota.Hard
	return l.Ceiling == quota.Soft && float64(l.Rate.PerSecond())*c.Sync.Seconds() > float64(l.BurstUnits()) && few(&hard, c.Nodes)
}

func tierWords(t *quota.Tier) string {
	n := strconv.FormatInt(t.Burst, 10)
	switch t.Kind {
	case quota.TokenBucket:
		return fmt.Sprintf("%s, burst %s", t.Rate, n)
	case quota.Concurrency:
		return "at most " + n + " in flight"
	case quota.CalendarWindow:
		return fmt.Sprintf("%s in each %s (%v)", n, t.Calendar.Unit, t.Calendar.Location())
	case quota.SlidingWindow:
		return fmt.Sprintf("%s in any %s, estimated by two counters", n, render.Span(t.Rate.Per))
	case quota.PeriodicRefill:
		return fmt.Sprintf("%s in %s from the first use", n, render.Span(t.Rate.Per))
	}
	if t.Kind != quota.FixedWindow {
		return fmt.Sprintf("%s in each %s (%v)", n, render.Span(t.Rate.Per), t.Kind)
	}
	return fmt.Sprintf("%s in each %s", n, render.Span(t.Rate.Per))
}

// tighter lists ways to lower the bound, with their costs.
func tighter(l *quota.Limit, c bound.Cluster) []string {
	if l.Class != quota.Counted || l.Enforcement == quota.Off {
		return nil
	}
	var out []string
	if l.Ceiling == quota.Soft && l.MaxDebt == 0 {
		hard := *l
		hard.Ceiling = quota.Hard
		out = append(out, "ceiling: hard: 0 in all situations, but for the exceptions that this command then lists. Costs "+hardCosts(&hard, c.Nodes))
	}
	if !l.AsksLeader() && l.Kind != quota.Concurrency {
		if l.Mode() == quota.Locally {
			out = append(out, "decide: auto: "+autoGain(l, c))
		}
		gain := "0 while the leader answers in time"
		if l.Ceiling == quota.Hard {
			gain = "no refusals because other nodes hold the tokens"
		}
		cost := fmt.Sprintf("a round trip for each check, %v here", 2*c.Delay.Round(time.Microsecond))
		if l.Ceiling == quota.Hard && slices.ContainsFunc(bound.Each(l), func(t quota.Limit) bool { return t.CountsLong() }) {
			cost += ", and a commit of the leader's log"
		}
		out = append(out, fmt.Sprintf("decide: leader: %s. Costs %s", gain, cost))
	}
	if now := bound.Most(l, c); now > 0 {
		half := c
		half.Sync /= 2
		if then := bound.Most(l, half); c.Sync >= 20*time.Millisecond && amount(then) != amount(now) {
			out = append(out, fmt.Sprintf("a sync interval of %v: %s instead of %s in a surge. Costs twice the reports", half.Sync, amount(then), amount(now)))
		}
	}
	if p, _ := l.CutOff.At(0, l.Ceiling); l.Ceiling == quota.Soft && p != quota.CutOffShare && p != quota.CutOffClosed && p != quota.CutOffHold {
		out = append(out, "when_cut_off: share, or closed: less, or nothing, from nodes that are cut off. Costs refusals there while others could serve")
	}
	return out
}

// hardCosts returns what a hard limit refuses though the cluster could serve it: docs/howto/sizing.md and
// docs/explanation/accuracy.md, sections 8 and 9.
func hardCosts(l *quota.Limit, nodes int) string {
	switch {
	case l.Kind == quota.Concurrency:
		return "refusals while other nodes hold the places: 5.5 % of 50 in flight, at three times the limit"
	case l.AsksLeader():
		return "refusals while no leader answers"
	case slices.ContainsFunc(bound.Each(l), func(t quota.Limit) bool { return !t.MayAsk() }):
		return "refusals while other nodes hold the tokens: some percent where load moves, up to a fifth where tokens are few"
	}
	if slices.ContainsFunc(bound.Each(l), func(t quota.Limit) bool { return t.Kind == quota.SlidingWindow || few(&t, nodes) }) {
		return "a round trip for each check that the limit could admit"
	}
	return "a round trip where a node holds too few tokens, and refusals where load moves: 0.2 % of what an ideal limiter admits under a steady overload, some percent of loads that move fast"
}

// autoGain returns what decide: auto has that decide: local has not, and its cost.
func autoGain(l *quota.Limit, c bound.Cluster) string {
	auto := *l
	auto.Decide = quota.Auto
	switch {
	case l.Ceiling == quota.Soft && slices.ContainsFunc(bound.Each(&auto), func(t quota.Limit) bool { return few(&t, c.Nodes) || fewUnderLoad(&t, c) }):
		return "counts to the token where few tokens are shared by many nodes. Costs a round trip for each check that the limit could admit"
	case l.Ceiling == quota.Soft:
		return "fewer decisions on an uncertain estimate. Costs a wait of at most 20ms for these, for the leader's next grant"
	case slices.ContainsFunc(bound.Each(l), func(t quota.Limit) bool { return t.CountsLong() }):
		return "fewer refusals because other nodes hold the tokens. Costs a wait of at most 20ms where a node holds too few, for the leader's next grant"
	}
	return "hardly any refusals because other nodes hold the tokens. Costs a round trip where a node holds too few"
}

func (e *explanation) print(p *render.Page) {
	fmt.Fprintf(p, "%s\n%s\n", phrase.Show(e.Limit), wrap("  ", e.Rule))
	fmt.Fprintf(p, "cluster: %s, one-way delay %v (%s), sync interval %v, lease %v\n\n", phrase.Plural(e.c.Nodes, "node"), e.c.Delay.Round(time.Microsecond), e.Delay, e.c.Sync, e.c.Lease)
	if len(e.Situations) == 0 {
		fmt.Fprintln(p, "Nothing is counted, so the error is 0.")
		return
	}
	fmt.Fprintln(p, "Tokens that one key may get beyond burst + rate x time, or beyond the count of a window:")
	e.printSituations(p)
	fmt.Fprintln(p, "\nWhy:")
	e.printReasons(p)
	e.list(p, "Where 0 does not hold:", e.Exceptions)
	if !e.offline {
		e.printMeasured(p)
	}
	e.list(p, "Tighter:", e.Tighter)
}

func (e *explanation) printSituations(p *render.Page) {
	tbl := render.NewTable("SITUATION", "AT MOST", "BURSTS", "TYPICAL", "WHEN")
	derived := false
	for _, s := range e.Situations {
		worst, bursts := "no bound", "-"
		if s.Worst != nil {
			worst, bursts = amount(*s.Worst), amount(*s.Worst/max(1, e.burst))
			derived = derived || *s.Worst > 0
		}
		tbl.Row(s.Name, worst, bursts, amount(s.Typical), s.When)
	}
	p.Table(tbl)
	if derived {
		fmt.Fprint(p, wrap("  ", "At most: derived, valid while messages arrive. Typical: the worst of the simulator's seeds, not a guarantee."))
	}
}

// printReasons prints each formula once, with the situations that it applies to.
func (e *explanation) printReasons(p *render.Page) {
	var others, ages bool
	for i := 0; i < len(e.Situations); {
		s, names := &e.Situations[i], e.Situations[i].Name
		for i++; i < len(e.Situations) && e.Situations[i].Formula == s.Formula && e.Situations[i].Numbers == s.Numbers; i++ {
			s = &e.Situations[i]
			names += ", " + s.Name
		}
		ages = ages || strings.Contains(s.Formula, "age")
		others = others || strings.Contains(s.Formula, "N-1")
		fmt.Fprintf(p, "  %s\n      %s\n", names, s.Formula)
		if s.Numbers != s.Formula {
			fmt.Fprintf(p, "      %s\n", s.Numbers)
		}
		fmt.Fprint(p, wrap("      ", s.Basis))
	}
	words := ""
	if others {
		words = "N: nodes. "
	}
	if ages {
		words += fmt.Sprintf("age: the longest time without a new level at a node, 2 sync intervals and 2 round trips: %v here. ", e.c.Age().Round(time.Millisecond))
	}
	if words != "" {
		fmt.Fprint(p, wrap("  ", words+"docs/explanation/accuracy.md derives it."))
	}
}

func (e *explanation) list(p *render.Page, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprint(p, wrap("  - ", l))
	}
}

func (e *explanation) printMeasured(p *render.Page) {
	m := e.Measured
	if m == nil {
		fmt.Fprintln(p, "\nMeasured: nothing yet")
		return
	}
	fmt.Fprintf(p, `
Measured by the leaders since their nodes started, tokens of all keys:
  requested      %d, of which %d were admitted
  too many       %s beyond the limit, %s of them while cut off; most at one time: %s of one key (%.2f bursts)
  too few        at least %s and at most %s refused though the limit would have covered them
  report gap     at most %v: these figures are accurate to what the rate refills in that time
`, m.Attempted, m.Admitted, amount(m.OverAdmitted), amount(m.CutOff), amount(m.WorstExcess), m.WorstExcessBurst,
		amount(m.Needless), amount(m.NeedlessAtMost), time.Duration(m.LongestGap*float64(time.Second)).Round(time.Millisecond))
}

// amount formats tokens, as whole numbers from ten on.
func amount(v float64) string {
	if v >= 10 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
