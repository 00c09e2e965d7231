package planner

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on a report.
const (
	reportLimits = 20 // per table
	reportNoisy  = 5  // limits to search for noisy keys and to forecast
)

//go:embed report.html
var reportHTML string

var reportTemplate = template.Must(template.New("report").Parse(reportHTML))

// reportData is the content of a report.
type reportData struct {
	Title, From, To, Made, Coverage string
	Limits                          int
	Attempted, Refused              string
	Fullest, Refusing, Shadow       []reportRow
	Noisy, Forecast                 []reportLine
}

type reportRow struct {
	Limit, Rule, Asked, Peak, Refused, Full, Statement string
	Width                                              int // width of a bar, 0 to 100
}

type reportLine struct{ Limit, Text string }

// Report implements quoratev1.RateServiceServer.
func (s *Planner) Report(ctx context.Context, req *quoratev1.RateServiceReportRequest) (*quoratev1.RateServiceReportResponse, error) {
	if quoratev1.ReportFormat_name[int32(req.Format)] == "" {
		return nil, apierr.Invalid("format", "%d; must be text or html", req.Format)
	}
	all, used, err := s.headroomAndUse(ctx, &quoratev1.HeadroomRequest{Namespace: req.Namespace, From: req.From, To: req.To, Top: maxHeadroom})
	if err != nil {
		return nil, err
	}
	t, err := s.timeRangeOf(req.From, req.To, week)
	if err != nil {
		return nil, err
	}
	d := s.reportOf(req.Namespace, t, all, used)
	s.searchedFor(ctx, &d, all.Limits, t)
	out := &quoratev1.RateServiceReportResponse{Coverage: all.Coverage, MediaType: "text/plain; charset=utf-8"}
	var b strings.Builder
	if req.Format == quoratev1.ReportFormat_REPORT_FORMAT_HTML {
		out.MediaType = "text/html; charset=utf-8"
		if err := reportTemplate.Execute(&b, &d); err != nil {
			return nil, apierr.From(err)
		}
	} else {
		d.text(&b)
	}
	out.Content = b.String()
	return out, nil
}

func (s *Planner) reportOf(namespace string, t timeRange, all *quoratev1.HeadroomResponse, used []history.UsedLimit) reportData {
	at := func(sec int64) string { return time.Unix(sec, 0).UTC().Format("2006-01-02 15:04") }
	d := reportData{
		Title: "all namespaces", From: at(int64(t.from)), To: at(int64(t.end)), Made: s.clock().UTC().Format("2006-01-02 15:04:05") + " UTC",
		Limits: int(all.Total), Coverage: CoverageText(all.Coverage),
	}
	if namespace != "" {
		d.Title = "namespace " + namespace
	}
	attempted, refused := s.sums(used)
	refusing := slices.Clone(all.Limits)
	slices.SortStableFunc(refusing, func(x, y *quoratev1.LimitHeadroom) int { return cmp.Compare(y.Use.Refused, x.Use.Refused) })
	for i, h := range all.Limits {
		if i < reportLimits && h.Refill > 0 {
			d.Fullest = append(d.Fullest, rowOf(h))
		}
	}
	for _, h := range refusing {
		switch {
		case h.Use.Refused == 0:
		case h.Shadow && len(d.Shadow) < reportLimits:
			d.Shadow = append(d.Shadow, rowOf(h))
		case !h.Shadow && len(d.Refusing) < reportLimits:
			d.Refusing = append(d.Refusing, rowOf(h))
		}
	}
	d.Attempted, d.Refused = grouped(attempted), grouped(refused)+" ("+phrase.Percent(refused, attempted)+")"
	return d
}

// sums returns the tokens requested of limits, and the tokens really refused.
func (s *Planner) sums(used []history.UsedLimit) (attempted, refused int64) {
	for i := range used {
		u := &used[i]
		attempted += u.Attempted.Tokens()
		if !passesAll(s.ruleOf(u.Limit)) {
			refused += u.Refused().Tokens()
		}
	}
	return attempted, refused
}

func rowOf(h *quoratev1.LimitHeadroom) reportRow {
	rule := "-"
	if h.Rule != nil {
		rule = fmt.Sprintf("%s burst %s", h.Rule.Rate, grouped(h.Rule.Burst))
	}
	return reportRow{
		Limit: h.Namespace + "/" + h.Limit, Rule: rule, Asked: grouped(h.Use.Attempted), Peak: fmt.Sprintf("%.4g/s", h.Use.Peak),
		Refused: grouped(h.Use.Refused) + " (" + phrase.Percent(h.Use.Refused, h.Use.Attempted) + ")", Full: fmt.Sprintf("%.0f%%", 100*h.Saturation),
		Statement: h.Statement, Width: int(100 * min(1, h.Saturation)),
	}
}

// searchedFor adds noisy keys and forecasts of the most requested limits. It omits what cannot be computed
// for one of them: a report shows what is available.
func (s *Planner) searchedFor(ctx context.Context, d *reportData, limits []*quoratev1.LimitHeadroom, t timeRange) {
	busy := slices.Clone(limits)
	slices.SortStableFunc(busy, func(x, y *quoratev1.LimitHeadroom) int { return cmp.Compare(y.Use.Attempted, x.Use.Attempted) })
	for _, h := range busy[:min(len(busy), reportNoisy)] {
		name := quota.LimitName{Namespace: h.Namespace, Limit: h.Limit}
		if n, err := s.noisyIn(ctx, name, t, usualTimes); err == nil {
			for _, k := range n.Keys[:min(3, len(n.Keys))] {
				d.Noisy = append(d.Noisy, reportLine{name.String(), fmt.Sprintf("%q %s", apierr.Clip(k.Use.Key), k.Statement)})
			}
		}
		fc, err := s.Forecast(ctx, &quoratev1.ForecastRequest{Namespace: h.Namespace, Limit: h.Limit})
		if err == nil {
			d.Forecast = append(d.Forecast, reportLine{name.String(), strings.Join(fc.Statements[:min(2, len(fc.Statements))], "; ")})
		} else if e := apierr.From(err); e.Reason == "NOT_NOW" {
			d.Forecast = append(d.Forecast, reportLine{name.String(), e.Detail})
		}
	}
}

// grouped formats an integer with thousands separators.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Asking states how many limits had a demand.
func (d *reportData) Asking() string { return phrase.Plural(d.Limits, "limit") + " had a demand" }

// text writes the report as plain text, for a terminal or a mail.
func (d *reportData) text(b *strings.Builder) {
	fmt.Fprintf(b, "Limits of %s, %s to %s UTC\n\n", d.Title, d.From, d.To)
	fmt.Fprintf(b, "%s of %s tokens; %s were refused.\n%s\n", d.Asking(), d.Attempted, d.Refused, d.Coverage)
	rows := func(title string, list []reportRow) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s\n%s\n", title, strings.Repeat("-", len(title)))
		for _, r := range list {
			fmt.Fprintf(b, "%-32s %-20s demand %s, at most %s\n    %s\n", r.Limit, r.Rule, r.Asked, r.Peak, r.Statement)
		}
	}
	rows("The fullest", d.Fullest)
	rows("Most refusals", d.Refusing)
	rows("In shadow: would have been refused, but passed", d.Shadow)
	lines := func(title string, list []reportLine) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(b, "\n%s\n%s\n", title, strings.Repeat("-", len(title)))
		for _, l := range list {
			fmt.Fprintf(b, "%s: %s\n", l.Limit, l.Text)
		}
	}
	lines("Noisy keys", d.Noisy)
	lines("Forecast", d.Forecast)
	fmt.Fprintf(b, "\nMade %s.\n", d.Made)
}
