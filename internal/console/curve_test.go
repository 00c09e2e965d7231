package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestCurve checks that the curve has the active rate among its points, in ascending order, and
// the three shares that a what-if gives, or one if all outcomes are exact.
func TestCurve(t *testing.T) {
	for name, exact := range map[string]bool{"bounds": false, "exact": true} {
		f := pastFake()
		var mu sync.Mutex
		var rates []string
		f.answer["WhatIf"] = func(_ context.Context, req any) (proto.Message, error) {
			w := req.(*quoratev1.WhatIfRequest)
			mu.Lock()
			defer mu.Unlock()
			rates = append(rates, w.Rate)
			o := &quoratev1.WhatIfOutcome{Attempted: 100, RefusedAtLeast: 10, RefusedLikely: 12, RefusedAtMost: 20}
			if exact {
				o.RefusedAtLeast, o.RefusedAtMost = 12, 12
			}
			return &quoratev1.WhatIfResponse{Outcome: o}, nil
		}
		res, body := get(pastConsole(f), "/console/data/limit/curve?namespace=web&limit=login&range=day&unit=m&least=1&most=20&now=5&burst=7")
		var got struct {
			Chart struct {
				Times  []float64
				Series []struct {
					Name   string
					Values []float64
				}
				Lines []Line
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v\n%s", name, res.StatusCode, err, body)
		}
		want := "refused, likely 12 at least 10 at most 20"
		if exact {
			want = "refused 12"
		}
		var said []string
		for _, s := range got.Chart.Series {
			said = append(said, s.Name, strconv.FormatFloat(s.Values[0], 'f', -1, 64))
		}
		at := got.Chart.Times
		if strings.Join(said, " ") != want || !slices.IsSorted(at) || !slices.Contains(at, 5) || at[0] != 1 || at[len(at)-1] != 20 || len(rates) != len(at) || !slices.Contains(rates, "5/m") {
			t.Errorf("%s: %v at %v, asked for %v", name, said, at, rates)
		}
		if len(got.Chart.Lines) != 1 || got.Chart.Lines[0] != (Line{5, "current"}) {
			t.Errorf("%s: %v", name, got.Chart.Lines)
		}
	}
	for _, bad := range []string{"least=0&most=2&now=1", "least=1&most=NaN&now=1", "least=1&most=2"} {
		if res, body := get(pastConsole(pastFake()), "/console/data/limit/curve?namespace=web&limit=login&unit=m&"+bad); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "above 0") {
			t.Errorf("%s: %d %s", bad, res.StatusCode, body)
		}
	}
}

// TestResultText checks the sentence about a rule that is tried.
func TestResultText(t *testing.T) {
	rule := func(rate string) *quoratev1.Limit {
		return &quoratev1.Limit{Kind: quoratev1.Kind_KIND_BUCKET, Rate: rate, Burst: 5}
	}
	outcome := func(rate string, low, likely, high int64) *quoratev1.WhatIfOutcome {
		return &quoratev1.WhatIfOutcome{Rule: rule(rate), Attempted: 1000, RefusedAtLeast: low, RefusedLikely: likely, RefusedAtMost: high}
	}
	for want, res := range map[string]*quoratev1.WhatIfResponse{
		"With 9/s, burst 5, about 12 % of 1,000 tokens would have been refused, between 11 % and 20 %; 35 % were actually refused.": {Outcome: outcome("9/s", 110, 120, 200), RefusedThen: 350},
		"With 5/s, burst 5, 35 % of 1,000 tokens would have been refused; 34 % were actually refused.":                              {Outcome: outcome("5/s", 350, 350, 350), RefusedThen: 340},
		"With 7/s, burst 5, about 0.04 % of 1,000,000 tokens would have been refused; 0 % were actually refused.": {
			Outcome: &quoratev1.WhatIfOutcome{Rule: rule("7/s"), Attempted: 1_000_000, RefusedAtLeast: 401, RefusedLikely: 402, RefusedAtMost: 403},
		},
		"There was no demand in this time range.": {Outcome: &quoratev1.WhatIfOutcome{}},
	} {
		if got := resultText(res); got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}
