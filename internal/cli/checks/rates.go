package checks

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apijson"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
)

// ratesOptions holds the flags of "rates" and "keys top".
type ratesOptions struct {
	remote.Targets
	output render.Output

	limit, by, prefix, label, group, page string

	top   int32
	watch time.Duration
}

func (r *ratesOptions) addFlags(cmd *cobra.Command) {
	r.Targets.AddFlags(cmd)
	cmd.Flags().Int32Var(&r.top, "top", apiproto.DefaultTop, fmt.Sprintf("how many keys, 1 to %d", apiproto.MaxTop))
	_, orders := apijson.EnumOf(quoratev1.RateOrder(0).Descriptor(), "")
	cmd.Flags().StringVar(&r.by, "by", "demand", "sort order, descending by "+strings.Join(orders, ", ")+" (ascending)")
	render.CompleteWords(cmd, "by", orders...)
	cmd.Flags().StringVar(&r.prefix, "prefix", "", "only keys with this prefix")
	cmd.Flags().StringVar(&r.label, "label", "", "only keys with this label: name=value, or 2=eu for the second part of acme/eu/7")
	cmd.Flags().StringVar(&r.page, "page", "", "token of the next page, from an earlier answer")
	r.output.AddFlags(cmd, "table", "json")
}

// ratesColumns explains the columns of a table of rates, in the help of its commands.
const ratesColumns = `RATE and DEMAND are tokens per second over the last few seconds: those admitted,
and those requested. LOAD is DEMAND in percent of what the rule refills: above
100%, even far above, the key uses up its burst, and is refused after that. Of a
concurrency limit, LOAD is the part in flight. The other columns count tokens
since the leader of the key's range first saw the key.`

// NewRatesCommand returns "quorate rates".
func NewRatesCommand() *cobra.Command {
	var r ratesOptions
	cmd := &cobra.Command{
		Use:   "rates",
		Short: "Print the keys with the highest demand, or another top list",
		Long: `Print the keys with the highest demand, over the whole cluster, as the leaders
of their ranges report them.

` + ratesColumns,
		Example: `  quorate rates --top 5
  quorate rates --by refusal_rate --prefix acme/
  quorate rates --by utilisation --top 1000 -o csv > load.csv
  quorate rates --limit web/per_client -o json
  quorate rates --label 2=eu --group-by 1 --watch 2s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.addFlags(cmd)
	cmd.Flags().StringVar(&r.limit, "limit", "", "only this namespace, or namespace/limit")
	cmd.Flags().StringVar(&r.group, "group-by", "", "add up by a label: its name, or the number of a part of the keys")
	cmd.Flags().DurationVarP(&r.watch, "watch", "w", 0, "print again at this interval, 1s to 1m, until Ctrl-C")
	return cmd
}

func (r *ratesOptions) run(cmd *cobra.Command) error {
	if r.top < 1 || r.top > apiproto.MaxTop {
		return exit.Usagef("--top %d: must be 1 to %d", r.top, apiproto.MaxTop)
	}
	order, orders := apijson.EnumOf(quoratev1.RateOrder(0).Descriptor(), r.by)
	if order == 0 {
		return exit.Usagef("--by %q: must be one of %s", r.by, strings.Join(orders, ", "))
	}
	req := &quoratev1.TopRatesRequest{Top: r.top, Order: quoratev1.RateOrder(order), KeyPrefix: r.prefix, Label: r.label, GroupBy: r.group, PageToken: r.page}
	req.Namespace, req.Limit, _ = strings.Cut(r.limit, "/")
	if r.watch != 0 && (r.watch < time.Second || r.watch > time.Minute) {
		return exit.Usagef("--watch %v: must be 1s to 1m", r.watch)
	}
	if r.watch != 0 && r.page != "" {
		return exit.Usagef("--page and --watch: give one")
	}
	res, err := remote.Invoke(cmd.Context(), &r.Targets, quoratev1.NewRateServiceClient, quoratev1.RateServiceClient.TopRates, req)
	if err != nil {
		return err
	}
	if len(res.Keys) == 0 && req.Namespace != "" && req.Limit == "" {
		if err := limits.CheckScope(cmd.Context(), &r.Targets, req.Namespace); err != nil {
			return err
		}
	}
	if r.watch != 0 {
		return r.follow(cmd, req)
	}
	return r.print(cmd, res, false)
}

// follow prints rates repeatedly, from the first node that answers.
func (r *ratesOptions) follow(cmd *cobra.Command, req *quoratev1.TopRatesRequest) error {
	addrs, err := r.Resolve()
	if err != nil {
		return err
	}
	watch := &quoratev1.WatchRatesRequest{
		Top: req.Top, Namespace: req.Namespace, Limit: req.Limit, Order: req.Order, KeyPrefix: req.KeyPrefix, Label: req.Label, GroupBy: req.GroupBy, Interval: durationpb.New(r.watch),
	}
	var last error
	for _, addr := range addrs {
		last = r.followOne(cmd, addr, watch)
		if cmd.Context().Err() != nil || last == nil {
			return nil
		}
		if remote.WrongPort(last) != "" {
			break
		}
		if !remote.Unreachable(last) {
			return remote.Refusal(last)
		}
	}
	return r.NoneAnswers(addrs, last)
}

func (r *ratesOptions) followOne(cmd *cobra.Command, addr string, watch *quoratev1.WatchRatesRequest) error {
	conn, err := r.Dial(addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost
	stream, err := quoratev1.NewRateServiceClient(conn).WatchRates(cmd.Context(), watch)
	var skipped uint64
	for err == nil {
		var res *quoratev1.WatchRatesResponse
		if res, err = stream.Recv(); err != nil {
			break
		}
		if res.Skipped > skipped {
			fmt.Fprintf(cmd.ErrOrStderr(), "quorate: %d answers left out: not read, or not ready, in time\n", res.Skipped-skipped)
			skipped = res.Skipped
		}
		err = r.print(cmd, res.Rates, true)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// print prints one answer; again means that it replaces the previous one on the screen.
func (r *ratesOptions) print(cmd *cobra.Command, res *quoratev1.TopRatesResponse, again bool) error {
	if res.RangesCovered < res.RangesTotal {
		text := ""
		if len(res.MissingMembers) > 0 {
			text = "; missing " + strings.Join(res.MissingMembers, ", ")
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: incomplete: %d of %d ranges answered%s\n", res.RangesCovered, res.RangesTotal, text)
	}
	err := r.output.Print(cmd, res, func(p *render.Page) {
		if again {
			if render.Colours(cmd) {
				fmt.Fprint(p, "\x1b[H\x1b[2J")
			}
			fmt.Fprintf(p, "as of %s\n", render.When(res.GetAsOf()))
		}
		if r.group != "" {
			printGroups(p, res)
		} else {
			printRates(p, res)
		}
	})
	if res.NextPageToken != "" && r.watch == 0 && r.output.ForPeople() && r.group == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "quorate: more with --page %s\n", res.NextPageToken)
	}
	return err
}

func printGroups(p *render.Page, res *quoratev1.TopRatesResponse) {
	tbl := render.NewTable("GROUP", "KEYS", "RATE", "DEMAND", "LOAD", "ATTEMPTED", "ADMITTED", "REFUSED", needless, needlessAtMost, "REMAINING")
	hideNeedless(tbl, res.Groups)
	for _, g := range res.Groups {
		least, most := needlessCells(g)
		tbl.Row(render.NameOrNothing(g.Value), g.Keys, perSecond(g.Rate), perSecond(g.Demand), render.Part(g.Utilisation), g.Attempted, g.Admitted, g.Refused, least, most, g.Remaining)
	}
	p.TableOr(tbl, "no traffic")
	if names := unrefused(res.Limits); names != "" {
		fmt.Fprintf(p, "REFUSED includes requests that passed, because these limits are not enforced, or not for all keys: %s\n", names)
	}
	if res.GroupsPartial {
		fmt.Fprintf(p, "of the first %d keys; further keys are in no group\n", res.KeysGrouped)
	}
}

// unrefused names the limits that are not enforced, at least for some keys, so that they do not
// refuse everything that they do not admit.
func unrefused(limits []*quoratev1.LimitError) string {
	var names []string
	for _, l := range limits {
		if mark := shadowMark(&quoratev1.Limit{Enforcement: l.Enforcement, Fraction: l.Fraction}); mark != "" {
			names = append(names, phrase.Printable(l.Namespace+"/"+l.Limit)+mark)
		}
	}
	if more := len(names) - 3; more > 0 {
		names = append(names[:3], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func printRates(p *render.Page, res *quoratev1.TopRatesResponse) {
	tbl := render.NewTable("LIMIT", "KEY", "RULE", "RATE", "DEMAND", "LOAD", "ATTEMPTED", "ADMITTED", "REFUSED", needless, needlessAtMost, "REMAINING", "NODES", "RANGE", "LEADER")
	hideNeedless(tbl, res.Keys)
	for _, k := range res.Keys {
		least, most := needlessCells(k)
		tbl.Row(k.Namespace+"/"+k.Limit, render.Name(k.Key), limits.RuleText(k.Rule)+" "+render.Word(k.Rule.GetCeiling())+shadowMark(k.Rule),
			perSecond(k.Rate), perSecond(k.Demand), render.Part(k.Utilisation), k.Attempted, k.Admitted, k.Refused, least, most, k.Remaining, k.Members, k.Range, render.NameOrNothing(k.Leader))
	}
	p.TableOr(tbl, "no traffic")
}

// Columns of needless refusals, for which two bounds are known: CSV has both, and people see a
// range.
const (
	needless       = "NEEDLESS"
	needlessAtMost = "NEEDLESS AT MOST"
)

// hideNeedless hides the second bound from people, and also the first if all values are zero.
func hideNeedless[T render.Refusals](tbl *render.Table, rows []T) {
	tbl.OnlyCSV(needlessAtMost)
	if !slices.ContainsFunc(rows, func(r T) bool { return r.GetNeedlessRefusalsAtMost() > 0 }) {
		tbl.OnlyCSV(needless)
	}
}

func needlessCells(r render.Refusals) (least, most render.Cell) {
	return render.Cell{Human: render.NeedlessText(r), Machine: render.TokenRate(r.GetNeedlessRefusals())}, render.Cell{Machine: render.TokenRate(r.GetNeedlessRefusalsAtMost())}
}

// perSecond returns a cell with tokens per second.
func perSecond(v float64) render.Cell { return render.Exact(fmt.Sprintf("%.1f", v), v) }
