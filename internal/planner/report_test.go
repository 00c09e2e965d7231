package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestReport checks that both forms say the same, and that input from others never becomes markup.
func TestReport(t *testing.T) {
	p := apitest.NewPast(t)
	p.With(t, "web/login 10/s 20", "web/shadow 10/s 20 shadow")
	for i := range 9 {
		p.Ask("web/login", fmt.Sprint("k", i), time.Hour, 12)
	}
	p.Ask("web/login", "<script>alert(1)</script>", time.Hour, 900_000)
	p.Ask("web/shadow", "*", time.Hour, 50)
	s := newPlannerOf(p)
	for format, want := range map[quoratev1.ReportFormat][]string{
		quoratev1.ReportFormat_REPORT_FORMAT_TEXT: {"Limits of namespace web, 2026-11-15 12:00 to 2026-11-22 12:00 UTC", "900,158 tokens", "In shadow", "<script>", "Noisy keys", "a forecast needs 7"},
		quoratev1.ReportFormat_REPORT_FORMAT_HTML: {"<!doctype html>", "900,158 tokens", "prefers-color-scheme: dark", "&lt;script&gt;", "<h2>Noisy keys</h2>", "a forecast needs 7"},
	} {
		res, err := s.Report(t.Context(), &quoratev1.RateServiceReportRequest{Namespace: "web", Format: format})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(res.Content, w) {
				t.Errorf("%v has no %q:\n%s", format, w, res.Content)
			}
		}
		if format == quoratev1.ReportFormat_REPORT_FORMAT_HTML && (strings.Contains(res.Content, "<script") || strings.Contains(res.Content, "http")) {
			t.Errorf("a script, or something from elsewhere: %s", res.Content)
		}
	}
	if _, err := s.Report(t.Context(), &quoratev1.RateServiceReportRequest{From: timestamppb.New(apitest.Noon)}); err == nil {
		t.Error("a report on nothing")
	}
}

// TestReportOfMany checks that a report's sums cover all limits that it counts.
func TestReportOfMany(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	p := apitest.NewPast(t)
	p.With(t, "web/dark 10/s 20 shadow")
	for i := range maxHeadroom + 50 {
		p.Ask(fmt.Sprint("web/l", i), "*", time.Hour, 20)
	}
	p.Ask("web/dark", "*", time.Hour, 15)
	res, err := newPlannerOf(p).Report(t.Context(), &quoratev1.RateServiceReportRequest{Namespace: "web"})
	if want := "251 limits had a demand of 5,015 tokens; 2,500 (49.9%) were refused."; err != nil || !strings.Contains(res.Content, want) {
		t.Errorf("no %q: %v, %v", want, res, err)
	}
}
