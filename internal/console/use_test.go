package console

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestLimitsUse checks that the list of limits shows demand, refusals and a line, and no columns if the
// history cannot be read.
func TestLimitsUse(t *testing.T) {
	f := pastFake()
	f.answer["HistoryLimits"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.HistoryLimitsResponse{Limits: []*quoratev1.LimitUse{
			{Namespace: "web", Limit: "login", Use: &quoratev1.HistoryPoint{Attempted: 600, Refused: 150}},
			{Namespace: "web", Limit: "gone", Use: &quoratev1.HistoryPoint{Attempted: 7200}},
		}}, nil
	}
	_, page := get(pastConsole(f), "/console/limits")
	for _, want := range []string{`data-v="2">2.0</td>`, "25 %", `class="spark"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in\n%s", want, page)
		}
	}
	if f.calls["History"] != 1 {
		t.Errorf("%d reads of a history for one limit on the page", f.calls["History"])
	}
	f.answer["HistoryLimits"] = func(context.Context, any) (proto.Message, error) {
		return nil, status.Error(codes.Unavailable, "no replica answers")
	}
	if res, page := get(pastConsole(f), "/console/limits"); res.StatusCode != http.StatusOK || strings.Contains(page, "Demand, /s") {
		t.Errorf("status %d; want a list without demand:\n%s", res.StatusCode, page)
	}
}

// TestSparkline checks that a minute that is unknown or incomplete interrupts the line.
func TestSparkline(t *testing.T) {
	from := time.Unix(began, 0)
	at := func(minute, attempted int64, complete bool) *quoratev1.HistoryPoint {
		return &quoratev1.HistoryPoint{Start: timestamppb.New(from.Add(time.Duration(minute) * time.Minute)), Attempted: attempted, Complete: complete}
	}
	got := sparkline([]*quoratev1.HistoryPoint{at(-1, 99, true), at(0, 0, true), at(1, 60, true), at(2, 90, false), at(4, 30, true)}, from)
	if want := "M0.0 19.0L3.2 1.0M12.8 10.0"; got.Asked != want {
		t.Errorf("line %q, want %q", got.Asked, want)
	}
	if !strings.Contains(got.Label, "at most 1.0/s") {
		t.Errorf("label %q", got.Label)
	}
}

func TestRangeNumbers(t *testing.T) {
	for text, want := range map[string][]uint32{"": nil, "3": {3}, "0, 4-6": {0, 4, 5, 6}, "4-4 2": {4, 2}} {
		if got, err := rangeNumbers(text); err != nil || len(got) != len(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"a", "-1", "3-", "5-4", "0-99999999", "1,,x"} {
		if got, err := rangeNumbers(text); err == nil {
			t.Errorf("%q: %v; want an error that names the field", text, got)
		}
	}
}

func TestByteSize(t *testing.T) {
	for n, want := range map[uint64]string{0: "–", 512: "512 B"} {
		if got := byteSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestDur(t *testing.T) {
	for d, want := range map[time.Duration]string{
		20 * time.Microsecond: "20µs", 4*time.Minute + 20*time.Second: "4m20s", 4 * time.Minute: "4m", 2 * time.Hour: "2h", 2*time.Hour + 10*time.Second: "2h0m10s", 50 * time.Hour: "2 days",
	} {
		if got := dur(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
