package planning

import (
	"bytes"
	"flag"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/golden"
	"github.com/quorate/quorate/internal/planner"
)

var (
	noon     = timestamppb.New(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	login    = &quoratev1.Limit{Namespace: "web", Name: "login", Rate: "10/s", Burst: 20, Kind: quoratev1.Kind_KIND_BUCKET}
	covered  = &quoratev1.Coverage{AsOf: noon, RangesCovered: 1, RangesTotal: 1, SecondsTotal: 180, SecondsKnown: 180, SecondsComplete: 120, Missing: []string{"n2"}, MissingSince: noon}
	complete = &quoratev1.Coverage{AsOf: noon, RangesCovered: 4, RangesTotal: 4, SecondsTotal: 180, SecondsKnown: 180, SecondsComplete: 180}
)

func minutes(n int) (out []*quoratev1.HistoryPoint) {
	for i := range n {
		out = append(out, &quoratev1.HistoryPoint{
			Start: &timestamppb.Timestamp{Seconds: noon.Seconds + 60*int64(i)}, Seconds: 60, Attempted: int64(600 + 100*i), Admitted: 600, Refused: int64(100 * i),
			Peak: 40, Mean: 10 + float64(i)*1.7, P50: 9, P95: 22.5, P99: 40, OverAdmitted: .25, Complete: i != 2,
		})
	}
	return out
}

// TestPlanTables compares the printed tables with testdata.
func TestPlanTables(t *testing.T) {
	points := minutes(3)
	points[2].Missing = []string{"n2"}
	points[1].NeedlessRefusals, points[1].NeedlessRefusalsAtMost = 3, 3
	points[2].NeedlessRefusalsAtMost = 2703
	history := &quoratev1.HistoryResponse{Namespace: "web", Limit: "login", Step: durationpb.New(time.Minute), Points: points, Total: &quoratev1.HistoryPoint{Attempted: 2100, Refused: 300, Peak: 40}, Coverage: covered}
	outcome := func(least, most int64, exact bool) *quoratev1.WhatIfOutcome {
		return &quoratev1.WhatIfOutcome{Rule: login, Attempted: 1000, RefusedAtLeast: least, RefusedAtMost: most, RefusedIfEven: most, RefusedLikely: most, Exact: exact}
	}
	whatIf := &quoratev1.WhatIfResponse{
		Outcome: outcome(10, 20, false), Now: outcome(7, 7, true), RefusedThen: 8, Statements: []string{"between 10 and 20 of 1000 tokens would have been refused", "from the demand of every second"},
		Points: []*quoratev1.WhatIfPoint{{Start: noon, Seconds: 1, Attempted: 10}, {Start: noon, Seconds: 1, Attempted: 90, Refused: 8, RefusedAtLeast: 10, RefusedAtMost: 20}},
	}
	headroom := &quoratev1.HeadroomResponse{Limits: []*quoratev1.LimitHeadroom{
		{Namespace: "web", Limit: "login", Rule: login, Use: points[0], Saturation: 1.5, RefusedPart: .125, Statement: "99 of 100 seconds asked for at most 150% of the refill"},
		{Namespace: "web", Limit: "gone", Use: points[1], Statement: "this limit was removed"},
	}}
	day := func(n int64, demand *float64) *quoratev1.ForecastDay {
		return &quoratev1.ForecastDay{Day: &timestamppb.Timestamp{Seconds: noon.Seconds + 86400*n}, Demand: demand, Expected: float64(10 + n), Low: float64(8 + n), High: 12.5 + float64(n)}
	}
	forecast := &quoratev1.ForecastResponse{Measure: "the 99th percentile of the demand of a second, in the busiest hour of a day", Days: []*quoratev1.ForecastDay{day(0, proto.Float64(11)), day(1, nil), day(2, nil)}, Statements: []string{"made of 8 days"}}
	noisy := &quoratev1.NoisyResponse{Keys: []*quoratev1.NoisyKey{{Use: &quoratev1.KeyUse{Key: "acme\x1b[2J", Attempted: 900, Refused: 300}, DemandPart: .9, RefusedPart: 1, TimesMedian: 75, Statement: "asked for 90% of all demand"}}, Median: 12, Known: 10}
	uses := &quoratev1.HistoryKeysResponse{Keys: []*quoratev1.KeyUse{{Key: "acme", Attempted: 900, Admitted: 600, Refused: 300, Error: 5}}, Rest: 7, Coverage: complete}
	used := &quoratev1.HistoryLimitsResponse{Limits: []*quoratev1.LimitUse{{Namespace: "web", Limit: "login", Use: points[2]}}, Total: 3, Coverage: complete}
	var b bytes.Buffer
	for _, format := range []string{render.FormatTable, render.FormatCSV} {
		csv := format == render.FormatCSV
		print := func(page func(p *render.Page)) error { return render.NewPrinter(format, false, &b).Print(nil, page) }
		for _, part := range []func() error{
			func() error { return exported(&b, history, csv) },
			func() error { return exported(&b, &quoratev1.HistoryResponse{Coverage: complete}, csv) },
			func() error { return print(func(p *render.Page) { printWhatIf(p, whatIf, csv) }) },
			func() error {
				if !csv {
					return nil
				}
				return print(func(p *render.Page) {
					suggestCSV(p, &quoratev1.SuggestResponse{Now: whatIf.Now, Outcome: whatIf.Outcome})
				})
			},
			func() error { return print(func(p *render.Page) { printHeadroom(p, headroom) }) },
			func() error { return print(func(p *render.Page) { printForecast(p, forecast, csv) }) },
			func() error { return print(func(p *render.Page) { printNoisy(p, noisy) }) },
			func() error { return print(func(p *render.Page) { printUses(p, uses) }) },
			func() error { return print(func(p *render.Page) { printUsed(p, used) }) },
		} {
			if err := part(); err != nil {
				t.Fatal(err)
			}
			b.WriteString("\n")
		}
	}
	begun := proto.CloneOf(covered)
	begun.Begins = &timestamppb.Timestamp{Seconds: noon.Seconds - 150}
	for _, c := range []*quoratev1.Coverage{begun, covered, complete, {RangesCovered: 3, RangesTotal: 4}} {
		b.WriteString(planner.Incomplete(c) + "\n")
	}
	b.WriteString("\n")
	if err := render.NewPrinter(render.FormatYAML, false, &b).Print(uses, nil); err != nil {
		t.Fatal(err)
	}
	golden.Hold(t, "testdata/plan.golden", b.String(), *rewrite)
	if strings.Contains(b.String()[:strings.Index(b.String(), "namespace,limit")], "\x1b") {
		t.Error("a key reaches the terminal as it is")
	}
}

func TestSparkline(t *testing.T) {
	for want, values := range map[string][]float64{"": nil, "▅█ ": {5, 9, 0}, "  ": {0, 0}, "█▅": {1, 9, 2, 5}} {
		wide := len(values)
		if len(values) == 4 {
			wide = 2
		}
		if got := sparkline(values, wide); got != want {
			t.Errorf("%v: %q, want %q", values, got, want)
		}
	}
}

// TestKeyHistory checks that the history of a key mentions no seconds, which are not recorded, but
// how much more the key may have got.
func TestKeyHistory(t *testing.T) {
	var b bytes.Buffer
	p := &quoratev1.HistoryPoint{Start: &timestamppb.Timestamp{}, Seconds: 60, Attempted: 120, Admitted: 90, Refused: 30, Mean: 2, Error: 7, Complete: true}
	res := &quoratev1.HistoryResponse{Namespace: "web", Limit: "login", Key: "acme", Step: durationpb.New(time.Minute), Points: []*quoratev1.HistoryPoint{p}, Total: p}
	if err := exported(&b, res, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"web/login, key acme, 1 point of 1m", "  120 tokens\n", "REFUSED  MEAN  MORE  COMPLETE\n", " 30     2     7  yes\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s\nwant %q", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "in a second") {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	const row = "web,login,acme,1970-01-01T00:00:00Z,60,120,90,30,,,,,2,,,,true,,7\n"
	if err := exported(&b, res, true); err != nil || !strings.HasSuffix(b.String(), "\n"+row) {
		t.Errorf("%v %s\nwant %s", err, b.String(), row)
	}
}

func exported(b *bytes.Buffer, res *quoratev1.HistoryResponse, csv bool) error {
	if csv {
		_, err := planner.Export(b, "csv", res)
		return err
	}
	return render.WritePage(b, func(p *render.Page) { printHistory(p, res) })
}

var rewrite = flag.Bool("rewrite", false, "write what is printed into testdata; then read the diff")

// TestHistoryPlurals checks the words for one token and one limit.
func TestHistoryPlurals(t *testing.T) {
	var b bytes.Buffer
	one := &quoratev1.HistoryPoint{Start: noon, Seconds: 1, Attempted: 1, Refused: 1}
	if err := exported(&b, &quoratev1.HistoryResponse{Namespace: "web", Limit: "login", Step: durationpb.New(time.Minute), Points: []*quoratev1.HistoryPoint{one}, Total: one, Coverage: complete}, false); err != nil {
		t.Fatal(err)
	}
	err := render.NewPrinter(render.FormatTable, false, &b).Print(nil, func(p *render.Page) {
		printUses(p, &quoratev1.HistoryKeysResponse{Rest: 1, Unattributed: 1, UnattributedSeconds: 3, Coverage: complete})
		printUsed(p, &quoratev1.HistoryLimitsResponse{Limits: []*quoratev1.LimitUse{{Use: one}}, Total: 1, Coverage: complete})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  1 token,", "at most 1 token each", "at most 1 token; for 3 s", "1 of 1 limit;"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
