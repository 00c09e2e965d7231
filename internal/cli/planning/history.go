package planning

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/planner"
	"github.com/quorate/quorate/internal/quota"
)

// looking holds the flags of commands that query the past.
type looking struct {
	remote.Targets
	output   render.Output
	from, to string
}

func (o *looking) addFlags(cmd *cobra.Command, usual string) {
	o.Targets.AddFlags(cmd)
	cmd.Flags().StringVar(&o.from, "from", "", "start: a time such as 2026-11-22T12:00:00Z, or how long ago, such as 90m, 7d (default "+usual+" before --to)")
	cmd.Flags().StringVar(&o.to, "to", "", "end, likewise (default: now)")
}

// stretch parses --from and --to.
func (o *looking) stretch() (from, to *timestamppb.Timestamp, err error) {
	now := time.Now()
	if from, err = render.Moment("from", o.from, now); err == nil {
		to, err = render.Moment("to", o.to, now)
	}
	return from, to, err
}

// ask calls RateService and prints the answer.
func ask[Request, Response any](cmd *cobra.Command, o *looking, method rateMethod[Request, Response], req *Request, page func(*render.Page, *Response)) error {
	res, err := fetch(cmd, o, method, req)
	if err != nil {
		return err
	}
	return o.output.Print(cmd, res, func(p *render.Page) { page(p, res) })
}

type rateMethod[Request, Response any] = remote.Method[quoratev1.RateServiceClient, Request, Response]

// fetch calls RateService, and prints to standard error what the answer lacks.
func fetch[Request, Response any](cmd *cobra.Command, o *looking, method rateMethod[Request, Response], req *Request) (*Response, error) {
	res, err := remote.Invoke(cmd.Context(), &o.Targets, quoratev1.NewRateServiceClient, method, req)
	if err != nil {
		return res, err
	}
	var c *quoratev1.Coverage
	if covered, ok := any(res).(interface{ GetCoverage() *quoratev1.Coverage }); ok {
		c = covered.GetCoverage()
	}
	if text := planner.Incomplete(c); text != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: incomplete: %s\n", text)
	}
	if begun := planner.BegunText(c); begun != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: %s: the history begins later\n", begun)
	}
	return res, nil
}

// pastOptions holds the flags of "history".
type pastOptions struct {
	looking
	key  string
	step time.Duration
	top  int32
}

// NewHistoryCommand returns "quorate history".
func NewHistoryCommand() *cobra.Command {
	var o pastOptions
	cmd := &cobra.Command{
		Use:   "history [NAMESPACE[/LIMIT]]",
		Short: "Print the recorded demand of limits by second, minute or hour",
		Long: `Print the recorded demand of a limit; without a limit, the limits with the
highest demand, of all namespaces or of one. Points are seconds (of the last
hour), minutes (30 days) or hours (2 years), as the nodes' settings say; times
are UTC.

PEAK is the demand in the busiest second of a point; MEAN and P99 are over all
its seconds, in tokens per second. A point is complete when every node that was
up has reported all of it; otherwise the last column names the missing nodes.
For a limit in shadow, REFUSED is what it would have refused. Single keys are
not recorded by the second: MORE is the most by which their real demand can
exceed the printed one.`,
		Example: `  quorate history
  quorate history web
  quorate history web/login --from 10m
  quorate history web/login --from 7d --step 1h -o csv > login.csv
  quorate history web/login --key acme --from 30m
  quorate history web/login --from 30d --step 1h -o parquet > login.parquet
  quorate history web/login -o openmetrics > login.om`,
		Args: cobra.MaximumNArgs(1),
		RunE: o.run,
	}
	o.addFlags(cmd, "1h")
	cmd.Flags().StringVar(&o.key, "key", "", "only this key: minutes or hours, at most 60")
	cmd.Flags().DurationVar(&o.step, "step", 0, "1s, 1m or 1h (default: the finest with at most 1500 points)")
	cmd.Flags().Int32Var(&o.top, "top", 20, "how many limits, without LIMIT; 1 to 1000")
	o.output.AddFlags(cmd, "table", "csv", "json", "parquet", "openmetrics")
	cmd.AddCommand(newHistoryKeysCommand())
	return cmd
}

func (o *pastOptions) run(cmd *cobra.Command, args []string) error {
	from, to, err := o.stretch()
	if err != nil {
		return err
	}
	if len(args) == 0 || !strings.Contains(args[0], "/") { // no limit named
		return o.listLimits(cmd, strings.Join(args, ""), from, to)
	}
	if cmd.Flags().Changed("top") {
		return exit.Usagef("--top: is for a list of limits, without LIMIT; leave it out")
	}
	if o.output.Format == "parquet" && render.OnTerminal(cmd.OutOrStdout()) {
		return exit.Usagef("-o parquet: is not for terminals; redirect the output into a file, such as > history.parquet")
	}
	name, err := limits.ParseRecorded(args[0])
	if err != nil {
		return err
	}
	req := &quoratev1.HistoryRequest{Namespace: name.Namespace, Limit: name.Limit, Key: o.key, From: from, To: to}
	if o.step != 0 {
		req.Step = durationpb.New(o.step)
	}
	res, err := fetch(cmd, &o.looking, quoratev1.RateServiceClient.History, req)
	if err != nil {
		return err
	}
	format := o.output.Format
	if o.output.Raw {
		format = "csv_raw"
	}
	if done, err := planner.Export(cmd.OutOrStdout(), format, res); done {
		return err
	}
	return o.output.Print(cmd, res, func(p *render.Page) { printHistory(p, res) })
}

// listLimits prints the limits of a namespace, or of all.
func (o *pastOptions) listLimits(cmd *cobra.Command, namespace string, from, to *timestamppb.Timestamp) error {
	switch {
	case o.output.Format == "parquet" || o.output.Format == "openmetrics":
		return exit.Usagef("-o %s: needs a LIMIT", o.output.Format)
	case o.key != "":
		return exit.Usagef("--key: needs a LIMIT")
	case o.step != 0:
		return exit.Usagef("--step: needs a LIMIT")
	}
	if err := o.checkTop(); err != nil {
		return err
	}
	req := &quoratev1.HistoryLimitsRequest{Namespace: namespace, From: from, To: to, Top: o.top}
	res, err := fetch(cmd, &o.looking, quoratev1.RateServiceClient.HistoryLimits, req)
	if err != nil {
		return err
	}
	if len(res.Limits) == 0 && namespace != "" && namespace != quota.AccountNamespace {
		if err := limits.CheckScope(cmd.Context(), &o.Targets, namespace); err != nil {
			return err
		}
	}
	return o.output.Print(cmd, res, func(p *render.Page) { printUsed(p, res) })
}

func (o *pastOptions) checkTop() error {
	if o.top < 1 || o.top > 1000 {
		return exit.Usagef("--top %d: must be 1 to 1000", o.top)
	}
	return nil
}

func newHistoryKeysCommand() *cobra.Command {
	var o pastOptions
	cmd := &cobra.Command{
		Use:   "keys LIMIT",
		Short: "Print the keys of a limit with the highest recorded demand",
		Long: `Print the keys of a limit with the highest recorded demand. Only the busiest
keys are recorded: MORE is the most by which the real demand of a key can exceed
the printed one, and the last line bounds every key that is not listed.`,
		Example: "  quorate history keys web/login --from 1d --top 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := limits.ParseRecorded(args[0])
			if err != nil {
				return err
			}
			if err := o.checkTop(); err != nil {
				return err
			}
			from, to, err := o.stretch()
			if err != nil {
				return err
			}
			return ask(cmd, &o.looking, quoratev1.RateServiceClient.HistoryKeys, &quoratev1.HistoryKeysRequest{Namespace: name.Namespace, Limit: name.Limit, From: from, To: to, Top: o.top}, printUses)
		},
	}
	o.addFlags(cmd, "1h")
	cmd.Flags().Int32Var(&o.top, "top", 20, "how many keys, 1 to 1000")
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

func printUses(p *render.Page, res *quoratev1.HistoryKeysResponse) {
	tbl := render.NewTable("KEY", "ATTEMPTED", "ADMITTED", "REFUSED", "MORE")
	for _, k := range res.Keys {
		tbl.Row(render.Name(k.Key), k.Attempted, k.Admitted, k.Refused, k.Error)
	}
	p.Table(tbl)
	fmt.Fprintf(p, "others: at most %s each; as of %s\n", tokens(res.Rest), render.When(res.Coverage.GetAsOf()))
	if res.UnattributedSeconds > 0 {
		fmt.Fprintf(p, "of unknown keys: at most %s; for %d s a range had no leader\n", tokens(res.Unattributed), res.UnattributedSeconds)
	}
}

func printUsed(p *render.Page, res *quoratev1.HistoryLimitsResponse) {
	tbl := render.NewTable("LIMIT", "ATTEMPTED", "ADMITTED", "REFUSED", "PEAK", "MEAN", "P99", "COMPLETE")
	for _, l := range res.Limits {
		u := l.Use
		tbl.Row(l.Namespace+"/"+l.Limit, u.GetAttempted(), u.GetAdmitted(), u.GetRefused(), rateCell(u.GetPeak()), rateCell(u.GetMean()), rateCell(u.GetP99()), completeCell(u))
	}
	p.Table(tbl)
	fmt.Fprintf(p, "%d of %s; as of %s\n", len(res.Limits), phrase.Plural(int(res.Total), "limit"), render.When(res.Coverage.GetAsOf()))
}

// tokens formats a number of tokens with its noun.
func tokens(n int64) string { return phrase.Plural(int(n), "token") }

func rateCell(v float64) render.Cell { return render.Exact(render.TokenRate(v), v) }

func completeCell(p *quoratev1.HistoryPoint) string {
	switch {
	case p.GetComplete():
		return "yes"
	case len(p.GetMissing()) > 0:
		return "without " + strings.Join(p.Missing, ",")
	}
	return "no"
}

func printHistory(p *render.Page, res *quoratev1.HistoryResponse) {
	if len(res.Points) == 0 {
		fmt.Fprintf(p, "no data for this time; the history reaches to %s\n", render.When(res.Coverage.GetAsOf()))
		return
	}
	of, most := res.Namespace+"/"+res.Limit, fmt.Sprintf(", at most %s in a second", render.TokenRate(res.Total.Peak))
	if res.Key != "" { // seconds of keys are not recorded
		of, most = of+", key "+phrase.Show(res.Key), ""
	}
	demand, refused := make([]float64, len(res.Points)), make([]float64, len(res.Points))
	for i, point := range res.Points {
		demand[i], refused[i] = float64(point.Attempted), float64(point.Refused)
	}
	fmt.Fprintf(p, "%s, %s of %s, as of %s\n", of, phrase.Plural(len(res.Points), "point"), render.Pause(res.Step), render.When(res.Coverage.GetAsOf()))
	fmt.Fprintf(p, "demand   %s  %s%s\n", sparkline(demand, chartWide), tokens(res.Total.Attempted), most)
	fmt.Fprintf(p, "refused  %s  %s, %s\n\n", sparkline(refused, chartWide), tokens(res.Total.Refused), phrase.Percent(res.Total.Refused, res.Total.Attempted))
	shown := res.Points
	if n := len(shown); n > maxShown {
		shown = shown[n-maxShown:]
		fmt.Fprintf(p, "the last %d of %d points; -o csv has all\n", maxShown, n)
	}
	p.Table(pointsTable(shown, res.Key != ""))
}

// maxShown bounds the points in a table. The chart and the other output formats show all.
const maxShown = 60

// pointsTable has a row per point. Points of a key have only sums, and how much more the key may
// have got.
func pointsTable(points []*quoratev1.HistoryPoint, key bool) *render.Table {
	tbl := render.NewTable("TIME", "SECONDS", "ATTEMPTED", "ADMITTED", "REFUSED", "PEAK", "MEAN", "P50", "P95", "P99", "OVER", "NEEDLESS", "COMPLETE")
	if key {
		tbl = render.NewTable("TIME", "SECONDS", "ATTEMPTED", "ADMITTED", "REFUSED", "MEAN", "MORE", "COMPLETE")
	}
	for _, p := range points {
		row := []any{render.When(p.Start), p.Seconds, p.Attempted, p.Admitted, p.Refused}
		if key {
			row = append(row, render.TokenRate(p.Mean), p.Error)
		} else {
			row = append(row, render.TokenRate(p.Peak), render.TokenRate(p.Mean), render.TokenRate(p.P50), render.TokenRate(p.P95), render.TokenRate(p.P99), render.TokenRate(p.OverAdmitted), render.NeedlessText(p))
		}
		tbl.Row(append(row, completeCell(p))...)
	}
	return tbl
}

// chartWide is the number of characters in a line of a chart.
const chartWide = 60

// sparkline draws values as a line of at most wide blocks. If several values share a block, it
// shows the highest.
func sparkline(values []float64, wide int) string {
	blocks := []rune("▁▂▃▄▅▆▇█")
	if len(values) == 0 {
		return ""
	}
	wide = min(wide, len(values))
	cells := make([]float64, wide)
	most := 0.0
	for i, v := range values {
		cells[i*wide/len(values)] = max(cells[i*wide/len(values)], v)
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range cells {
		switch {
		case v <= 0 || most <= 0:
			b.WriteByte(' ')
		default:
			b.WriteRune(blocks[min(len(blocks)-1, int(v/most*float64(len(blocks))))])
		}
	}
	return b.String()
}
