package limits

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

func newLimitsGetCommand() *cobra.Command {
	var t remote.Targets
	var output render.Output
	var number uint64
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list", "describe"},
		Short:   "Print the active limits, or those of an earlier version",
		Long: `Print the active limits of the first node that answers, or those of an earlier
version. A NAME is a namespace or namespace/limit; without one all are printed.
@default and @template stand for a namespace's default and template.

Further tiers of a limit are on lines of their own. -o wide shows all settings
that differ from the defaults; "describe" prints the same, with one setting on
each line. -o yaml is a limit file; note that applying one replaces all limits,
so apply what was printed without NAME.`,
		Example: `  quorate limits get
  quorate limits get web api/per_tenant -o wide
  quorate limits get -o yaml > limits.yaml
  quorate limits get --version 3 -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := choice(args).check(); err != nil {
				return err
			}
			var v *uint64
			if cmd.Flags().Changed("version") {
				v = &number
			}
			res, err := GetLimits(cmd.Context(), &t, v)
			if err != nil {
				return err
			}
			if err := choice(args).missing(res.Limits); err != nil {
				return err
			}
			if output.Format == render.FormatYAML {
				return writeLimitFile(cmd.OutOrStdout(), res, args)
			}
			res.Yaml = ""
			res.Limits = slices.DeleteFunc(res.Limits, func(l *quoratev1.Limit) bool { return !choice(args).has(l.Namespace, l.Name) })
			wide := output.Format == "wide" || output.Format == render.FormatTable && cmd.CalledAs() == "describe"
			return output.Print(cmd, res, func(p *render.Page) { printLimits(p, res, wide) })
		},
	}
	t.AddFlags(cmd)
	cmd.Flags().Uint64Var(&number, "version", 0, "the version to print (default: the active one)")
	output.AddFlags(cmd, "table", "wide", "json", "yaml")
	return cmd
}

// writeLimitFile writes the named limits as a limit file.
func writeLimitFile(w io.Writer, res *quoratev1.GetLimitsResponse, names choice) error {
	text := []byte(res.Yaml)
	if len(names) > 0 {
		list, err := ParseAnswer(res)
		if err != nil {
			return err
		}
		text = config.FormatLimits(slices.DeleteFunc(list, func(l quota.Limit) bool { return !names.has(l.Namespace, l.LimitName.Limit) }))
	}
	_, err := w.Write(text)
	return err
}

func printLimits(p *render.Page, res *quoratev1.GetLimitsResponse, wide bool) {
	header := []string{"NAME", "RATE", "BURST", "KIND", "CEILING", "ENFORCEMENT"}
	if wide {
		header = append(header, "DETAILS")
	}
	tbl := render.NewTable(header...)
	for _, l := range res.Limits {
		addLimit(tbl, l, wide)
	}
	fmt.Fprintf(p, "version %d\n", res.Version)
	p.TableOr(tbl, "no limits; apply a limit file with \"quorate limits apply FILE\"")
}

func addLimit(t *render.Table, l *quoratev1.Limit, wide bool) {
	first := &quoratev1.Tier{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst, Calendar: l.Calendar, Timezone: l.Timezone}
	var burst any = l.Burst
	rate, kind, ceiling := rateText(first), render.Word(l.Kind), render.Word(l.Ceiling)
	if l.Class != quoratev1.Class_CLASS_COUNTED && l.Class != 0 {
		rate, burst, kind, ceiling = render.Nothing, render.Nothing, render.Word(l.Class), render.Nothing
	}
	cells := []any{phrase.Show(l.Namespace + "/" + l.Name), rate, burst, kind, ceiling, enforcementText(l)}
	if wide {
		cells = append(cells, cmp.Or(phrase.Printable(detailsText(l)), render.Nothing))
	}
	t.Row(cells...)
	for _, tier := range l.Tiers[min(1, len(l.Tiers)):] {
		more := []any{"", "+ " + rateText(tier), tier.Burst, render.Word(tier.Kind), "", "", ""}
		t.Row(more[:len(cells)]...)
	}
}

// rateText formats how much a tier refills in which time.
func rateText(t *quoratev1.Tier) string {
	switch t.Kind {
	case quoratev1.Kind_KIND_CONCURRENCY:
		return "-"
	case quoratev1.Kind_KIND_CALENDAR:
		s := fmt.Sprintf("%d/%s", t.Burst, t.Calendar)
		if t.Timezone != "" && t.Timezone != "UTC" {
			s += " " + t.Timezone
		}
		return s
	}
	return t.Rate
}

func enforcementText(l *quoratev1.Limit) string {
	s := render.Word(l.Enforcement)
	if l.Fraction > 0 && l.Fraction < 1 {
		s += fmt.Sprintf(" %g%%", l.Fraction*100)
	}
	return s
}

// detailsText lists the fields that differ from their defaults, in the words of limit files.
func detailsText(l *quoratev1.Limit) string {
	var out []string
	add := func(name, value string) {
		if value != "" && value != "0s" {
			out = append(out, name+"="+value)
		}
	}
	count := func(name string, n int64) {
		if n != 0 {
			out = append(out, fmt.Sprintf("%s=%d", name, n))
		}
	}
	standard := quoratev1.Decide_DECIDE_AUTO
	if l.Kind == quoratev1.Kind_KIND_CONCURRENCY {
		standard = quoratev1.Decide_DECIDE_LOCAL
	}
	if l.Decide != standard && l.Decide != quoratev1.Decide_DECIDE_UNSPECIFIED {
		add("decide", render.Word(l.Decide))
	}
	count("max_cost", l.MaxCost)
	add("max_wait", render.Pause(l.MaxWait))
	add("max_debt", render.Pause(l.MaxDebt))
	add("lease", render.Pause(l.Lease))
	add("parent", l.Parent)
	if f := l.Floor; f != nil {
		add("floor", fmt.Sprintf("%s+%d", f.Rate, f.Burst))
	}
	if l.Near != quota.DefaultNear {
		add("near", fmt.Sprintf("%d%%", l.Near))
	}
	add("when_cut_off", cutOffText(l.WhenCutOff))
	if m := l.Match; m != nil {
		add("match", strings.TrimPrefix(strings.Join(m.Methods, "|")+" "+m.Path, " "))
	}
	count("max_keys", l.MaxKeys)
	add("idle", render.Pause(l.Idle))
	return strings.Join(out, ", ")
}

func cutOffText(c *quoratev1.CutOff) string {
	if c == nil {
		return ""
	}
	one := func(p quoratev1.CutOffPolicy, rate string) string {
		switch p {
		case quoratev1.CutOffPolicy_CUT_OFF_POLICY_UNSPECIFIED:
			return "as usual"
		case quoratev1.CutOffPolicy_CUT_OFF_POLICY_RATE:
			return rate
		}
		return render.Word(p)
	}
	s := one(c.Policy, c.Rate)
	if c.After.AsDuration() > 0 {
		s += " until " + render.Pause(c.After) + " then " + one(c.Then, c.ThenRate)
	}
	return s
}
