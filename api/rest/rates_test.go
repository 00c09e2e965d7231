package rest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestRatesGroupsAndPages: groups add up, and a page says how to get the next.
func TestRatesGroupsAndPages(t *testing.T) {
	res := &quoratev1.TopRatesResponse{Keys: []*quoratev1.KeyRate{
		{Key: "acme/eu/1", Demand: 3, Attempted: 30, Remaining: 5}, {Key: "acme/us/1", Demand: 2, Attempted: 20, Remaining: 1}, {Key: "zoo/eu/1", Demand: 4, Utilisation: .5, NeedlessRefusalsAtMost: 9}, {Key: "x", Demand: 1},
	}}
	if api.Group(res, "1", quota.ByNeedless); res.Groups[0].Value != "zoo" {
		t.Errorf("by needless refusals %v is first", res.Groups[0])
	}
	res.Groups = nil
	api.Group(res, "1", 0)
	got := ""
	for _, g := range res.Groups {
		got += g.Value + " "
	}
	if got != "acme zoo x " || res.Groups[0].Demand != 5 || res.Groups[0].Attempted != 50 || res.Groups[0].Keys != 2 || res.Groups[0].Remaining != 1 || res.KeysGrouped != 4 || res.GroupsPartial {
		t.Errorf("%q: %v", got, res.Groups)
	}
	s := api.New(apitest.New(t), api.Options{}).Rates
	for want, req := range map[string]*quoratev1.TopRatesRequest{
		"label: is":      {Label: "eu"},
		"group_by: is":   {GroupBy: "a=b"},
		"page_token: is": {PageToken: "?"},
	} {
		if _, err := s.TopRates(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", req, err, want)
		}
	}
	token := api.PageToken(res.Keys[0])
	if _, err := s.TopRates(t.Context(), &quoratev1.TopRatesRequest{PageToken: token, Label: "1=acme"}); err != nil {
		t.Errorf("the token of an answer: %v", err)
	}
	after := &quoratev1.KeyRate{}
	if data, err := base64.RawURLEncoding.DecodeString(api.PageToken(res.Keys[2])); err != nil || proto.Unmarshal(data, after) != nil || after.NeedlessRefusalsAtMost != 9 {
		t.Errorf("the token of %v is of %v", res.Keys[2], after)
	}
}

// TestRatesEnforcement: an answer says of which limits nobody was refused. What the node does not know it
// says nothing of.
func TestRatesEnforcement(t *testing.T) {
	n := apitest.New(t)
	rate := quota.Rate{Tokens: 1, Per: time.Second}
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{
		{LimitName: quota.LimitName{Namespace: "web", Limit: "dark"}, Rate: rate, Burst: 1, Enforcement: quota.Shadow},
		{LimitName: quota.LimitName{Namespace: "web", Limit: "some"}, Rate: rate, Burst: 1, Fraction: quota.Million / 4},
	}); err != nil {
		t.Fatal(err)
	}
	n.Errors = []*quoratev1.LimitError{{Namespace: "web", Limit: "dark"}, {Namespace: "web", Limit: "some"}, {Namespace: "web", Limit: "gone"}}
	res, err := api.New(n, api.Options{}).Rates.TopRates(t.Context(), &quoratev1.TopRatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"dark ENFORCEMENT_SHADOW 1", "some ENFORCEMENT_ENFORCE 0.25", "gone ENFORCEMENT_UNSPECIFIED 0"} {
		if l := res.Limits[i]; fmt.Sprint(l.Limit, " ", l.Enforcement, " ", l.Fraction) != want {
			t.Errorf("%v; want %s", l, want)
		}
	}
}

// TestRatesOfNoLimit: a limit without traffic has no rates; one that is not there is a mistake.
func TestRatesOfNoLimit(t *testing.T) {
	n := apitest.New(t)
	n.Idle = true
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "logins"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1}
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
		t.Fatal(err)
	}
	s := api.New(n, api.Options{}).Rates
	for _, req := range []*quoratev1.TopRatesRequest{{}, {Namespace: "web"}, {Namespace: "web", Limit: "logins"}} {
		if res, err := s.TopRates(t.Context(), req); err != nil || len(res.Keys) != 0 {
			t.Errorf("%v: %v, %v", req, res, err)
		}
	}
	_, err := s.TopRates(t.Context(), &quoratev1.TopRatesRequest{Namespace: "web", Limit: "login"})
	if err == nil || apierr.From(err).Reason != "NO_SUCH_LIMIT" || !strings.Contains(err.Error(), "web/logins") {
		t.Errorf("a mistyped limit: %v", err)
	}
	n.Idle = false // leaders still have keys of a limit that was just removed
	if _, err := s.TopRates(t.Context(), &quoratev1.TopRatesRequest{Namespace: "web", Limit: "gone"}); err != nil {
		t.Errorf("a limit with keys: %v", err)
	}
}

// TestWatchRates: answers come again and again; of a reader that is late some are left out and
// counted; there are only so many watchers.
func TestWatchRates(t *testing.T) {
	s := api.New(apitest.New(t), api.Options{}).Rates
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{Interval: durationpb.New(time.Millisecond)}, nil); err == nil || apierr.From(err).Field != "interval" {
		t.Errorf("every millisecond: %v", err)
	}
	s.Watchers.Take("", api.MaxRateWatchers)
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{}, nil); err == nil || apierr.From(err).Reason != "TOO_MANY_WATCHERS" || s.Watchers.Held() != api.MaxRateWatchers {
		t.Errorf("one too many: %v", err)
	}
	s.Watchers.Give("", api.MaxRateWatchers)
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{Label: "x"}, nil); err == nil || apierr.From(err).Field != "label" || s.Watchers.Held() != 0 {
		t.Errorf("a bad label: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := api.New(apitest.New(t), api.Options{}).Rates
		var got []*quoratev1.WatchRatesResponse
		start := time.Now()
		err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{Interval: durationpb.New(2 * time.Second)}, func(m *quoratev1.WatchRatesResponse) error {
			got = append(got, proto.CloneOf(m))
			if len(got) == 2 {
				time.Sleep(7 * time.Second) // a slow reader
			}
			if len(got) == 4 {
				return errGone
			}
			return nil
		})
		if err != nil || len(got) != 4 || got[1].Skipped != 0 || got[3].Skipped != 3 || time.Since(start) != 12*time.Second {
			t.Errorf("%v, %d answers in %v, skipped %d", err, len(got), time.Since(start), got[len(got)-1].Skipped)
		}
	})
}

// TestExport: each form of the file has its type and all points; others are named.
func TestExport(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/login", "a", 10*time.Second, 5, 20, 0, 5)
	s := pastService(p)
	srv := httptest.NewServer(New(s).Handler)
	defer srv.Close()
	path := srv.URL + "/v1/history/export?namespace=web&limit=login&from=2026-11-22T11:59:50Z&format="
	for format, want := range map[string]string{"csv": "text/csv", "json": "application/json", "parquet": "application/vnd.apache.parquet", "openmetrics": "application/openmetrics-text"} {
		res, err := http.Get(path + format)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), want) {
			t.Fatalf("%s: %d, %s: %s, %v", format, res.StatusCode, res.Header.Get("Content-Type"), body, err)
		}
		switch lines := strings.Count(string(body), "\n"); {
		case format == "csv" && lines != 11, format == "openmetrics" && lines != 6*(2+10)+1:
			t.Errorf("%s: %d lines: %s", format, lines, body)
		case format == "parquet" && (string(body[:4]) != "PAR1" || string(body[len(body)-4:]) != "PAR1"):
			t.Errorf("parquet: %q", body)
		}
	}
	if a := call(t, "GET", path+"xls", ""); a.code != 400 || !strings.Contains(a.body, "must be one of csv, csv_raw, json, parquet, openmetrics") {
		t.Errorf("xls: %d %s", a.code, a.body)
	}
}

// TestRatesOverHTTP: times, durations and streams in the forms that a query has.
func TestRatesOverHTTP(t *testing.T) {
	s := pastService(apitest.NewPast(t))
	srv := httptest.NewServer(New(s).Handler)
	defer srv.Close()
	for path, want := range map[string]int{
		"/v1/history?namespace=web&limit=login&step=1m&from=2026-11-22T11:00:00Z": 200,
		"/v1/history?namespace=web&limit=login&step=60&from=2026-11-22T11:00:00Z": 200,
		"/v1/history?namespace=web&limit=login&step=fast":                         400,
		"/v1/history?namespace=web&limit=login&from=yesterday":                    400,
		"/v1/plan/what-if?namespace=web&limit=login&rate=9/m&burst=9&kind=bucket": 200,
		"/v1/plan/headroom?top=201":                                               400,
		"/v1/plan/report?namespace=web&format=html":                               200,
		"/v1/plan/forecast?namespace=web&limit=login":                             409,
		"/v1/rates?label=eu":                             400,
		"/v1/rates?label=2%3Deu&group_by=1&order=demand": 200,
		"/v1/rates/watch?interval=0.01":                  400,
	} {
		if a := call(t, "GET", srv.URL+path, ""); a.code != want {
			t.Errorf("%s: %d %s; want %d", path, a.code, a.body, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/v1/rates/watch", nil)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(res.Body).ReadString('\n')
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(line, `data: {"rates":{"keys":[{"namespace":"web"`) {
		t.Errorf("%v: %q", err, line)
	}
}

var errGone = errors.New("the reader has gone")

// pastService is a service whose clock shows noon.
func pastService(p *apitest.Past) *api.Service {
	s := api.New(p, api.Options{})
	s.Clock = func() time.Time { return apitest.Noon }
	return s
}
