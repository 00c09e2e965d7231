package planning

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/cli/usage"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// NewPlanCommand returns "quorate plan".
func NewPlanCommand() *cobra.Command {
	return usage.Group("plan", "Find the right limits from recorded demand",
		`Find the right limits from recorded demand: how full they are, what another rule
would have refused, when demand will exceed them, and which keys are noisy.

Every answer states its quality: exact, between two bounds, or an estimate; and
which ranges and nodes are missing.`,
		newHeadroomCommand(), newWhatIfCommand(), newSuggestCommand(), newForecastCommand(), newNoisyCommand(), newPlanReportCommand())
}

// planned parses the limit of a command, and its times.
func planned(args []string, o *looking) (quota.LimitName, *quoratev1.HistoryRequest, error) {
	name, err := limits.ParseRecorded(args[0])
	if err != nil {
		return name, nil, err
	}
	from, to, err := o.stretch()
	return name, &quoratev1.HistoryRequest{From: from, To: to}, err
}

func newHeadroomCommand() *cobra.Command {
	var o looking
	var top int32
	cmd := &cobra.Command{
		Use:   "headroom [NAMESPACE[/LIMIT]]",
		Short: "Print how full limits were, the fullest first",
		Long: `Print how full limits were, the fullest first. FULL compares demand with what
the rule admits: for buckets of one key, the 99th percentile of the busy
seconds; for windows, the fullest one; for limits with many keys, the demand of
a key in its busiest minute (or hour, for older times).`,
		Example: "  quorate plan headroom\n  quorate plan headroom web --from 1d",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &quoratev1.HeadroomRequest{Top: top}
			var err error
			if len(args) > 0 {
				if req.Namespace, req.Limit, err = limits.ParseRecordedScope(args[0]); err != nil {
					return err
				}
			}
			if req.From, req.To, err = o.stretch(); err != nil {
				return err
			}
			res, err := fetch(cmd, &o, quoratev1.RateServiceClient.Headroom, req)
			if err != nil {
				return err
			}
			if len(res.Limits) == 0 && req.Namespace != "" && req.Namespace != quota.AccountNamespace {
				if err := limits.CheckScope(cmd.Context(), &o.Targets, args[0]); err != nil {
					return err
				}
			}
			return o.output.Print(cmd, res, func(p *render.Page) { printHeadroom(p, res) })
		},
	}
	o.addFlags(cmd, "7d")
	cmd.Flags().Int32Var(&top, "top", 20, "how many limits, 1 to 200")
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

func printHeadroom(p *render.Page, res *quoratev1.HeadroomResponse) {
	tbl := render.NewTable("LIMIT", "RULE", "FULL", "", "PEAK", "MEAN", "REFUSED", "IN WORDS")
	tbl.CSVTitle("", "headroom")
	for _, h := range res.Limits {
		rule, second := render.Nothing, render.Exact(bar(h.Saturation), h.Headroom)
		if h.Rule != nil {
			rule = limits.RuleText(h.Rule)
		}
		tbl.Row(h.Namespace+"/"+h.Limit, rule, render.Part(h.Saturation), second, rateCell(h.Use.GetPeak()), rateCell(h.Use.GetMean()), render.Part(h.RefusedPart), h.Statement)
	}
	p.TableOr(tbl, "no limit had demand in this time")
}

// bar draws a fraction of 1 as ten characters.
func bar(part float64) string {
	full := min(10, max(0, int(part*10+.5)))
	return strings.Repeat("█", full) + strings.Repeat("░", 10-full)
}

func newWhatIfCommand() *cobra.Command {
	var o looking
	var rate, kind string
	var burst int64
	var kinds []string
	for _, k := range quota.Kinds() {
		if k.Periods() {
			kinds = append(kinds, k.String())
		}
	}
	cmd := &cobra.Command{
		Use:   "what-if LIMIT",
		Short: "Print what another rule would have refused of recorded demand",
		Long: `Print how much of the recorded demand another rule would have refused. For the
last hour, the demand of every second is known: results for windows of one key
are exact, and for buckets the true value lies between two printed bounds. For
older demand only minutes are known, so the result is an estimate, except for
windows of whole minutes. For a limit with many keys, the busiest are replayed
one by one. LIKELY is the best single estimate, calibrated so that the active
rule refuses as much as was recorded.`,
		Example: `  quorate plan what-if web/login --rate 20/s
  quorate plan what-if web/login --rate 20/s --burst 100 --from 7d
  quorate plan what-if web/login --rate 600/1m --kind fixed`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, at, err := planned(args, &o)
			if err != nil {
				return err
			}
			req := &quoratev1.WhatIfRequest{Namespace: name.Namespace, Limit: name.Limit, From: at.From, To: at.To, Rate: rate}
			if cmd.Flags().Changed("burst") {
				req.Burst = &burst
			}
			if kind != "" {
				if !slices.Contains(kinds, kind) {
					return exit.Usagef("--kind %q: must be one of %s", kind, strings.Join(kinds, ", "))
				}
				n, _ := apijson.EnumOf(req.Kind.Descriptor(), kind)
				req.Kind = quoratev1.Kind(n)
			}
			if rate == "" && req.Burst == nil && kind == "" {
				return exit.Usagef("--rate, --burst and --kind are missing: give at least one, such as --rate 20/s")
			}
			return ask(cmd, &o, quoratev1.RateServiceClient.WhatIf, req, func(p *render.Page, res *quoratev1.WhatIfResponse) {
				printWhatIf(p, res, o.output.Format == render.FormatCSV)
			})
		},
	}
	o.addFlags(cmd, "1h")
	cmd.Flags().StringVar(&rate, "rate", "", "the rate, such as 20/s (default: as now)")
	cmd.Flags().Int64Var(&burst, "burst", 0, "the burst, of buckets (default: as now)")
	cmd.Flags().StringVar(&kind, "kind", "", "algorithm: "+strings.Join(kinds, ", ")+" (default: as now)")
	render.CompleteWords(cmd, "kind", kinds...)
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

func printWhatIf(p *render.Page, res *quoratev1.WhatIfResponse, csv bool) {
	if csv {
		tbl := render.NewTable("TIME", "SECONDS", "ATTEMPTED", "REFUSED", "REFUSED_AT_LEAST", "REFUSED_AT_MOST")
		for _, one := range res.Points {
			tbl.Row(render.When(one.Start), one.Seconds, one.Attempted, one.Refused, one.RefusedAtLeast, one.RefusedAtMost)
		}
		p.Table(tbl)
		return
	}
	outcomes(p, res.Now, res.Outcome, "what if")
	fmt.Fprintf(p, "\nrefused then: %d (%s)\n", res.RefusedThen, phrase.Percent(res.RefusedThen, res.Outcome.GetAttempted()))
	if len(res.Points) > 1 {
		demand, then, at := make([]float64, len(res.Points)), make([]float64, len(res.Points)), make([]float64, len(res.Points))
		for i, one := range res.Points {
			demand[i], then[i], at[i] = float64(one.Attempted), float64(one.Refused), float64(one.RefusedAtMost)
		}
		fmt.Fprintf(p, "demand    %s\nrefused   %s\n", sparkline(demand, chartWide), sparkline(then, chartWide))
		if res.Basis != quoratev1.Basis_BASIS_KEYS {
			fmt.Fprintf(p, "at most   %s\n", sparkline(at, chartWide))
		}
	}
	bullets(p, res.Statements)
}

// outcomes prints the outcomes of the current rule and of another one for the same demand.
func outcomes(p *render.Page, now, next *quoratev1.WhatIfOutcome, name string) {
	tbl := render.NewTable("", "RULE", "ATTEMPTED", "WOULD BE REFUSED", "LIKELY", "SURE")
	for _, r := range []struct {
		name string
		o    *quoratev1.WhatIfOutcome
	}{{"active", now}, {name, next}} {
		o := r.o
		refused, sure := fmt.Sprintf("%d (%s)", o.GetRefusedAtMost(), phrase.Percent(o.GetRefusedAtMost(), o.GetAttempted())), "exact"
		if !o.GetExact() {
			refused = fmt.Sprintf("between %d and %d (%s to %s)", o.GetRefusedAtLeast(), o.GetRefusedAtMost(), phrase.Percent(o.GetRefusedAtLeast(), o.GetAttempted()), phrase.Percent(o.GetRefusedAtMost(), o.GetAttempted()))
			sure = "bounds"
		}
		if o.GetEstimate() {
			sure = "estimate"
		}
		tbl.Row(r.name, limits.RuleText(o.GetRule()), o.GetAttempted(), refused, fmt.Sprintf("%d (%s)", o.GetRefusedLikely(), phrase.Percent(o.GetRefusedLikely(), o.GetAttempted())), sure)
	}
	p.Table(tbl)
}

// bullets prints remarks about an answer.
func bullets(p *render.Page, all []string) {
	fmt.Fprintln(p)
	for _, s := range all {
		fmt.Fprintf(p, "- %s\n", phrase.Printable(s))
	}
}

func newSuggestCommand() *cobra.Command {
	var o looking
	target := portion(0.01)
	cmd := &cobra.Command{
		Use:   "suggest LIMIT",
		Short: "Print the lowest rate that refuses at most a given share",
		Long: `Print the lowest rate that would have refused at most a given share of the
demand. For one key, this holds in the worst case; for many keys, it is an
estimate, printed with its upper bound. The burst stays in proportion to the
rate.`,
		Example: "  quorate plan suggest web/login --refuse 1%\n  quorate plan suggest web/login --refuse 0 --from 7d",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, at, err := planned(args, &o)
			if err != nil {
				return err
			}
			req := &quoratev1.SuggestRequest{Namespace: name.Namespace, Limit: name.Limit, From: at.From, To: at.To, RefusedPpm: int64(float64(target)*1e6 + .5)}
			return ask(cmd, &o, quoratev1.RateServiceClient.Suggest, req, func(p *render.Page, res *quoratev1.SuggestResponse) {
				if o.output.Format == render.FormatCSV {
					suggestCSV(p, res)
					return
				}
				outcomes(p, res.Now, res.Outcome, "suggested")
				bullets(p, res.Statements)
			})
		},
	}
	o.addFlags(cmd, "1h")
	cmd.Flags().Var(&target, "refuse", "`share` of the demand that may be refused, such as 1% or 0.01")
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

// suggestCSV fills the columns of an outcome, as numbers.
func suggestCSV(p *render.Page, res *quoratev1.SuggestResponse) {
	tbl := render.NewTable("OF", "RULE", "RATE", "BURST", "ATTEMPTED", "REFUSED_AT_LEAST", "REFUSED_AT_MOST", "REFUSED_LIKELY", "EXACT", "ESTIMATE")
	row := func(of string, o *quoratev1.WhatIfOutcome) {
		tbl.Row(of, limits.RuleText(o.GetRule()), o.GetRule().GetRate(), o.GetRule().GetBurst(), o.GetAttempted(), o.GetRefusedAtLeast(),
			o.GetRefusedAtMost(), o.GetRefusedLikely(), o.GetExact(), o.GetEstimate())
	}
	row("active", res.Now)
	row("suggested", res.Outcome)
	p.Table(tbl)
}

// portion is a fraction on the command line: 1% or 0.01.
type portion float64

func (p *portion) String() string { return strconv.FormatFloat(100*float64(*p), 'g', 6, 64) + "%" }
func (p *portion) Type() string   { return "part" }

func (p *portion) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return errors.New("must be a part from 0 to less than all, such as 1% or 0.01")
	}
	*p = portion(v)
	return nil
}

func newForecastCommand() *cobra.Command {
	var o looking
	var days, ahead int32
	cmd := &cobra.Command{
		Use:   "forecast LIMIT",
		Short: "Forecast the demand of a limit, and when it exceeds the limit",
		Long: `Forecast the daily demand of a limit, with an 80 % interval, and when it will
exceed the limit's refill. This needs 7 days of history; from 21 days on, each
weekday has its own forecast.`,
		Example: "  quorate plan forecast web/login --days 56 --ahead 90",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := limits.ParseRecorded(args[0])
			if err != nil {
				return err
			}
			req := &quoratev1.ForecastRequest{Namespace: name.Namespace, Limit: name.Limit, Days: days, Ahead: ahead}
			return ask(cmd, &o, quoratev1.RateServiceClient.Forecast, req, func(p *render.Page, res *quoratev1.ForecastResponse) {
				printForecast(p, res, o.output.Format == render.FormatCSV)
			})
		},
	}
	o.Targets.AddFlags(cmd)
	cmd.Flags().Int32Var(&days, "days", 56, "days of history to learn from, 7 to 730")
	cmd.Flags().Int32Var(&ahead, "ahead", 90, "days to look ahead, 1 to 365")
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

func printForecast(p *render.Page, res *quoratev1.ForecastResponse, csv bool) {
	tbl := render.NewTable("DAY", "DEMAND", "EXPECTED", "LOW", "HIGH")
	var was, will []float64
	for _, d := range res.Days {
		var demand any = ""
		if d.Demand != nil {
			demand = rateCell(*d.Demand)
			was = append(was, *d.Demand)
		} else {
			will = append(will, d.Expected)
		}
		if csv || len(res.Days) <= 40 {
			tbl.Row(d.Day.AsTime().Format("2006-01-02"), demand, rateCell(d.Expected), rateCell(d.Low), rateCell(d.High))
		}
	}
	fmt.Fprintf(p, "%s, in tokens\n", res.Measure)
	fmt.Fprintf(p, "was       %s\nexpected  %s\n\n", sparkline(was, chartWide), sparkline(will, chartWide))
	p.TableOr(tbl, "")
	bullets(p, res.Statements)
}

func newNoisyCommand() *cobra.Command {
	var o looking
	var times int32
	cmd := &cobra.Command{
		Use:   "noisy LIMIT",
		Short: "Print keys with far more demand than the others",
		Long: `Print the keys of a limit whose demand is far above the median of the busiest
thousand, their share of the demand and of the refusals, and the cost to the
other keys of a shared parent.`,
		Example: "  quorate plan noisy web/login --from 1d --times 20",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, at, err := planned(args, &o)
			if err != nil {
				return err
			}
			req := &quoratev1.NoisyRequest{Namespace: name.Namespace, Limit: name.Limit, From: at.From, To: at.To, Times: times}
			return ask(cmd, &o, quoratev1.RateServiceClient.Noisy, req, printNoisy)
		},
	}
	o.addFlags(cmd, "1d")
	cmd.Flags().Int32Var(&times, "times", 10, "how many times the median, 2 to 1000")
	o.output.AddFlags(cmd, "table", "csv", "json")
	return cmd
}

func printNoisy(p *render.Page, res *quoratev1.NoisyResponse) {
	tbl := render.NewTable("KEY", "ATTEMPTED", "REFUSED", "DEMAND", "OF_REFUSED", "MEDIANS", "IN WORDS")
	for _, k := range res.Keys {
		tbl.Row(render.Name(k.Use.GetKey()), k.Use.GetAttempted(), k.Use.GetRefused(), render.Part(k.DemandPart), render.Part(k.RefusedPart), render.Exact(fmt.Sprintf("%.0f", k.TimesMedian), k.TimesMedian), k.Statement)
	}
	p.TableOr(tbl, "no noisy keys")
	if res.Known > 2 { // otherwise a remark says how few there are
		fmt.Fprintf(p, "known keys: %d; the median attempted %s\n", res.Known, phrase.Plural(int(res.Median), "token"))
	}
	if len(res.Statements) > 0 {
		bullets(p, res.Statements)
	}
}

func newPlanReportCommand() *cobra.Command {
	var o looking
	cmd := &cobra.Command{
		Use:   "report [NAMESPACE]",
		Short: "Write a report on the limits of a namespace: text or HTML",
		Long: `Write a report on the limits of one or all namespaces: the fullest, those that
refused most, what limits in shadow would have refused, noisy keys and
forecasts. The HTML report is one file without scripts or external resources.`,
		Example: "  quorate plan report web\n  quorate plan report web -o html > web.html",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &quoratev1.RateServiceReportRequest{Format: quoratev1.ReportFormat_REPORT_FORMAT_TEXT}
			if o.output.Format == "html" {
				req.Format = quoratev1.ReportFormat_REPORT_FORMAT_HTML
			}
			if len(args) > 0 {
				req.Namespace = args[0]
			}
			var err error
			if req.From, req.To, err = o.stretch(); err != nil {
				return err
			}
			if err := o.checkRecorded(cmd, req); err != nil {
				return err
			}
			return ask(cmd, &o, quoratev1.RateServiceClient.Report, req, func(p *render.Page, res *quoratev1.RateServiceReportResponse) {
				fmt.Fprint(p, res.Content)
			})
		},
	}
	o.addFlags(cmd, "7d")
	o.output.AddFlags(cmd, "text", "html", "json")
	return cmd
}

// checkRecorded returns an error if the namespace of a report has limits neither now nor in the
// recorded time.
func (o *looking) checkRecorded(cmd *cobra.Command, req *quoratev1.RateServiceReportRequest) error {
	if req.Namespace == "" || req.Namespace == quota.AccountNamespace {
		return nil
	}
	unknown := limits.CheckScope(cmd.Context(), &o.Targets, req.Namespace)
	if exit.CodeOf(unknown) != exit.NotFound {
		return unknown
	}
	ask := &quoratev1.HeadroomRequest{Namespace: req.Namespace, From: req.From, To: req.To, Top: 1}
	res, err := remote.Invoke(cmd.Context(), &o.Targets, quoratev1.NewRateServiceClient, quoratev1.RateServiceClient.Headroom, ask)
	if err != nil || len(res.Limits) > 0 {
		return err
	}
	return unknown
}
