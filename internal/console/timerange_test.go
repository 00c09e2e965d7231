package console

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestTimeRange checks which range an address asks the history for, in which steps, and that a range
// that is given by its ends is bounded by now.
func TestTimeRange(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	for query, want := range map[string]string{
		"":              "2026-11-27T07:00:00 now 1m0s",
		"range=minutes": "2026-11-27T07:50:00 now 1s",
		"range=x":       "2026-11-27T07:00:00 now 1m0s",
		"from=2026-11-27T07:30:00&to=2026-11-27T07:45:00": "2026-11-27T07:30:00 2026-11-27T07:45:00 1s",
		"from=2026-11-27T07:30&to=2026-11-27T07:30:03":    "2026-11-27T07:29:53 2026-11-27T07:30:03 1s",
		"from=2026-11-27T07:30&to=2026-11-27T09:00":       "2026-11-27T07:30:00 2026-11-27T08:00:00 1m0s",
		"from=2026-11-26T07:30&to=2026-11-26T07:40":       "2026-11-26T07:30:00 2026-11-26T07:40:00 1m0s",
		"from=2026-10-01&to=2026-10-02":                   "2026-10-01T00:00:00 2026-10-02T00:00:00 1h0m0s",
		"from=2020-01-01&to=2026-11-27":                   "2026-05-11T00:00:00 2026-11-27T00:00:00 1h0m0s",
		"from=2026-11-27T08:30&to=2026-11-27T09:00":       "2026-11-27T07:59:50 2026-11-27T08:00:00 1s",
		"from=2026-11-27T07:30":                           "to is",
		"from=yesterday&to=2026-11-27":                    "from is",
		"from=2026-11-27&to=2026-11-26":                   "must be later than 2026-11-27",
	} {
		f := pastFake()
		got := "nothing asked"
		f.answer["History"] = func(_ context.Context, req any) (proto.Message, error) {
			if h := req.(*quoratev1.HistoryRequest); h.Step.AsDuration() != time.Second || h.To != nil || query == "range=minutes" {
				to := "now"
				if h.To != nil {
					to = h.To.AsTime().Format(timeLayout)
				}
				got = h.From.AsTime().Format(timeLayout) + " " + to + " " + h.Step.AsDuration().String()
			}
			return &quoratev1.HistoryResponse{}, nil
		}
		c := New(Deps{Conn: f, Now: func() time.Time { return now }})
		res, body := get(c, "/console/limit?namespace=web&limit=login&"+query)
		if res.StatusCode == http.StatusBadRequest && strings.Contains(body, want) {
			continue
		}
		if got != want {
			t.Errorf("%q: %s; want %s (%d)", query, got, want, res.StatusCode)
		}
	}
}

// TestTimeRangeNav checks the steps from a range that is given by its ends, and that they keep the
// other parameters of the page.
func TestTimeRangeNav(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	c := New(Deps{Conn: pastFake(), Now: func() time.Time { return now }})
	_, body := get(c, "/console/limit?namespace=web&limit=login&from=2026-11-27T06:00&to=2026-11-27T07:00")
	for _, want := range []string{
		"from=2026-11-27T05%3A30%3A00&amp;limit=login&amp;namespace=web&amp;to=2026-11-27T06%3A30%3A00#past\">Earlier",
		"from=2026-11-27T06%3A30%3A00&amp;limit=login&amp;namespace=web&amp;to=2026-11-27T07%3A30%3A00#past\">Later",
		"from=2026-11-27T05%3A30%3A00&amp;limit=login&amp;namespace=web&amp;to=2026-11-27T07%3A30%3A00#past\">Zoom out",
		"/console/limit?limit=login&amp;namespace=web#past\">Reset", `value="2026-11-27T06:00:00"`, `"/console/limit?limit=login\u0026namespace=web"`,
	} {
		if !strings.Contains(strings.ReplaceAll(body, "&#34;", `"`), want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
}

// TestKeyHistory checks that the page of a key shows its history as bounds, and its decisions.
func TestKeyHistory(t *testing.T) {
	f := pastFake()
	f.answer["GetKey"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetKeyResponse{Counters: []*quoratev1.KeyRate{{Namespace: "web", Limit: "login", Key: "k 1"}}}, nil
	}
	history, key := f.answer["History"], ""
	f.answer["History"] = func(ctx context.Context, req any) (proto.Message, error) {
		key = req.(*quoratev1.HistoryRequest).Key
		return history(ctx, req)
	}
	_, body := get(pastConsole(f), "/console/key?namespace=web&limit=login&key=k+1")
	for _, want := range []string{`demand, at most`, `data-stream-from="/console/live/events?key=k&#43;1&amp;limit=login&amp;namespace=web"`, "/console/key?key=k&#43;1&amp;limit=login&amp;namespace=web&amp;range=day#past"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	if key != "k 1" || f.calls["HistoryKeys"] != 0 {
		t.Errorf("asked for the history of %q, %d lists of keys", key, f.calls["HistoryKeys"])
	}
}
