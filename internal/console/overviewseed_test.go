package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// seedFake is a node that knows ten seconds of each limit, up to five seconds before now, with 10
// requests a second of which 8 were admitted. For the last limit, second 4 is incomplete and second
// 6 is unknown.
func seedFake(now time.Time, limits int) *fakeConn {
	f := newFake()
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.TopRatesResponse{AsOf: timestamppb.New(now), Limits: []*quoratev1.LimitError{{Namespace: "web", Limit: "l0", Attempted: 9000, Admitted: 9000}}}, nil
	}
	f.answer["HistoryLimits"] = func(_ context.Context, req any) (proto.Message, error) {
		out := &quoratev1.HistoryLimitsResponse{Limits: []*quoratev1.LimitUse{{Namespace: accountNamespace, Limit: "pool"}}}
		for i := range limits {
			out.Limits = append(out.Limits, &quoratev1.LimitUse{Namespace: "web", Limit: fmt.Sprintf("l%d", i)})
		}
		out.Limits = out.Limits[:min(len(out.Limits), int(req.(*quoratev1.HistoryLimitsRequest).Top))]
		return out, nil
	}
	f.answer["History"] = func(_ context.Context, req any) (proto.Message, error) {
		out := &quoratev1.HistoryResponse{}
		last := req.(*quoratev1.HistoryRequest).Limit == fmt.Sprintf("l%d", limits-1)
		for i := range int64(10) {
			if last && i == 6 {
				continue
			}
			out.Points = append(out.Points, &quoratev1.HistoryPoint{Start: timestamppb.New(time.Unix(now.Unix()-15+i, 0)), Seconds: 1, Attempted: 10, Admitted: 8, Complete: !last || i != 4})
		}
		return out, nil
	}
	return f
}

var flowSpec = regexp.MustCompile(`id="chart-flow" data-chart="([^"]*)"`)

// drawn returns what the overview's chart begins with: times relative to now, with requests and
// admissions.
func drawn(t *testing.T, c http.Handler, now time.Time) string {
	t.Helper()
	_, body := get(c, "/console/")
	m := flowSpec.FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("no chart in %s", body)
	}
	var spec struct {
		Times  []int64
		Series []struct{ Values []*float64 }
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &spec); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for i, at := range spec.Times {
		fmt.Fprintf(&out, "%d:", at-now.Unix())
		if asked, gave := spec.Series[0].Values[i], spec.Series[1].Values[i]; asked == nil || gave == nil {
			out.WriteString("- ")
		} else {
			fmt.Fprintf(&out, "%v/%v ", *asked, *gave)
		}
	}
	return strings.TrimSpace(out.String())
}

// TestOverviewSeed checks that the chart begins with the sum of all limits, with a gap where one is
// incomplete, followed by the first live point without a rate: live rates must not be computed from
// the seeded past.
func TestOverviewSeed(t *testing.T) {
	now := time.Unix(began, 0)
	c := New(Deps{Conn: seedFake(now, 2), Now: func() time.Time { return now }})
	want := "-15:20/16 -14:20/16 -13:20/16 -12:20/16 -11:- -10:20/16 -9:- -8:20/16 -7:20/16 -6:20/16 0:-"
	if got := drawn(t, c, now); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if recent := c.flow.recent(); len(recent) != 1 {
		t.Errorf("the live points are %v", recent)
	}
	if _, body := get(c, "/console/"); !strings.Contains(body, "16.0<small>/s</small>") || !strings.Contains(body, "of 20.0/s requested") {
		t.Errorf("without a live rate, the page shows another rate than that of the last second:\n%s", body)
	}
}

// TestOverviewSeedAfterAPause checks that points that a page saw long ago do not displace the
// seeded past, and that times ascend.
func TestOverviewSeedAfterAPause(t *testing.T) {
	now := time.Unix(began, 0)
	c := New(Deps{Conn: seedFake(now, 1), Now: func() time.Time { return now }})
	for i := range int64(3) {
		c.flow.add(&quoratev1.TopRatesResponse{AsOf: timestamppb.New(time.Unix(began-1000+i, 0)), Limits: []*quoratev1.LimitError{{Attempted: i}}})
	}
	if got := drawn(t, c, now); !strings.HasPrefix(got, "-15:10/8 ") || !strings.HasSuffix(got, " 0:-") {
		t.Error(got)
	}
}

// TestOverviewSeedReachesThePages checks that the point without a rate with which live points begin goes once the
// past contains its second, and that live points remain.
func TestOverviewSeedReachesThePages(t *testing.T) {
	unknown := math.NaN()
	for until, want := range map[int64]string{8: "[7 8 10 11 12] [1 1 NaN 5 6]", 10: "[7 8 9 10 11 12] [1 1 1 1 5 6]", 12: "[7 8 9 10 11 12] [1 1 1 1 5 6]"} {
		c := Chart{Times: []int64{2, 10, 11, 12}, Series: []Series{{Values: []float64{4, unknown, 5, 6}}, {Values: []float64{4, unknown, 5, 6}}}}
		var seed []seedPoint
		for at := int64(7); at <= until; at++ {
			seed = append(seed, seedPoint{at, 1, 1})
		}
		if c.begin(seed); fmt.Sprint(c.Times, " ", c.Series[0].Values) != want {
			t.Errorf("a past until %d: %v %v; want %s", until, c.Times, c.Series[0].Values, want)
		}
	}
}

// TestOverviewUnseeded checks that the chart begins with what pages have seen if there are more
// limits than the bound, or if the history of one is unknown or the user may not read it.
func TestOverviewUnseeded(t *testing.T) {
	now := time.Unix(began, 0)
	refuse := func(context.Context, any) (proto.Message, error) { return nil, errors.New("no") }
	for name, tc := range map[string]struct {
		limits int
		broken string
		asked  int
	}{"many": {limits: seedLimits + 1}, "list": {2, "HistoryLimits", 0}, "past": {2, "History", 2}} {
		f := seedFake(now, tc.limits)
		if tc.broken != "" {
			f.answer[tc.broken] = refuse
		}
		c := New(Deps{Conn: f, Now: func() time.Time { return now }})
		if got := drawn(t, c, now); got != "0:-" || f.calls["History"] != tc.asked {
			t.Errorf("%s: %s, after %d reads", name, got, f.calls["History"])
		}
	}
}

// TestOverviewSlowSeed checks that a history that does not answer delays the page by at most a
// second.
func TestOverviewSlowSeed(t *testing.T) {
	now := time.Unix(began, 0)
	f := seedFake(now, 1)
	f.answer["History"] = func(ctx context.Context, _ any) (proto.Message, error) {
		until, ok := ctx.Deadline()
		if left := time.Until(until); !ok || left > seedWait {
			t.Errorf("may take %v, %v", left, ok)
		}
		return nil, context.DeadlineExceeded
	}
	if got := drawn(t, New(Deps{Conn: f, Now: func() time.Time { return now }}), now); got != "0:-" {
		t.Error(got)
	}
}

// TestOverviewLiveUnseeded checks that live updates do not read the history.
func TestOverviewLiveUnseeded(t *testing.T) {
	f := seedFake(time.Unix(began, 0), 1)
	c := New(Deps{Conn: f})
	srv := httptest.NewServer(c)
	defer srv.Close()
	defer c.Close()
	res, err := http.Get(srv.URL + "/console/live/overview")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 500)); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls["TopRates"] == 0 || f.calls["HistoryLimits"]+f.calls["History"] != 0 {
		t.Errorf("%v", f.calls)
	}
}
