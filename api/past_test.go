package api

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

// TestHistory: points, their total and how complete it is.
func TestHistory(t *testing.T) {
	p := newPast(t)
	p.ask("web/login", "a", 10*time.Second, 5, 20, 0, 5)
	p.missing[history0(noon.Add(-time.Minute))] = "n2"
	s := p.service()
	res, f := s.history(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(10 * time.Second)})
	if f != nil {
		t.Fatal(f)
	}
	if len(res.Points) != 10 || res.Total.Attempted != 30 || res.Total.Refused != 10 || res.Total.Peak != 20 || res.Total.Mean != 3 || res.Step.AsDuration() != time.Second {
		t.Errorf("%v", res)
	}
	if c := res.Coverage; c.SecondsTotal != 10 || c.SecondsComplete != 0 || c.SecondsKnown != 10 || strings.Join(c.Missing, " ") != "n2" || !c.MissingSince.AsTime().Equal(noon.Add(-10*time.Second)) {
		t.Errorf("%v", c)
	}
	if got := incomplete(res.Coverage); got != "not all of the 10s is complete: a node has not told all of it, or it began before the history; missing n2 from 11:59:50 on 2026-11-22" {
		t.Errorf("%q", got)
	}
	res, f = s.history(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", From: ago(2 * time.Minute)})
	if f != nil || len(res.Points) != 2 || res.Total.Attempted != 30 || res.Step.AsDuration() != time.Minute {
		t.Errorf("of a key: %v, %v", res, f)
	}
	for from, want := range map[time.Duration]time.Duration{25 * time.Minute: time.Second, 2 * time.Hour: time.Minute, 20 * day: time.Hour, 40 * day: time.Hour} {
		if res, f = s.history(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(from)}); f != nil || res.Step.AsDuration() != want {
			t.Errorf("from %v: step %v, %v; want %v", from, res.GetStep().AsDuration(), f, want)
		}
	}
}

// TestHistoryBegins: time before there was a cluster, or a history of it, is not incomplete.
func TestHistoryBegins(t *testing.T) {
	p := newPast(t)
	p.begins = history0(noon) - 7*60 - 20
	s := p.service()
	of := func(from time.Duration, step int64) *quoratev1.Coverage {
		res, f := s.history(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(from), Step: &durationpb.Duration{Seconds: step}})
		if f != nil {
			t.Fatal(f)
		}
		return res.Coverage
	}
	for name, tt := range map[string]struct {
		c    *quoratev1.Coverage
		want string
	}{
		"by the second":              {of(20*time.Minute, 1), "complete; nothing is known of before 2026-11-22 11:52:40"},
		"a minute that it began in":  {of(20*time.Minute, 60), "complete; nothing is known of before 2026-11-22 11:53:00"},
		"since it began":             {of(5*time.Minute, 60), "complete"},
		"asked from the same minute": {of(8*time.Minute, 60), "complete for 7m0s of 8m0s"},
	} {
		if got := statement(tt.c); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	p.missing[history0(noon)-120] = "n2"
	if got := statement(of(20*time.Minute, 60)); got != "complete for 6m0s of 7m0s; nothing is known of before 2026-11-22 11:53:00" {
		t.Errorf("%q", got)
	}
}

// TestHistoryOfKey: a point of a key is as complete as that of its limit and as the lists of keys are; of a time
// that nothing is known of there is none.
func TestHistoryOfKey(t *testing.T) {
	p := newPast(t)
	p.ask("web/login", "a", 5*time.Minute, 5, 20)
	p.missing[history0(noon.Add(-2*time.Minute))] = "n2"
	p.begins = history0(noon.Add(-6 * time.Minute))
	p.unlisted = history0(noon.Add(-4 * time.Minute))
	s := p.service()
	req := &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", From: ago(10 * time.Minute)}
	res, f := s.history(t.Context(), req)
	if f != nil {
		t.Fatal(f)
	}
	var complete []bool
	for _, x := range res.Points {
		complete = append(complete, x.Complete)
	}
	if want := []bool{true, true, false, true, false, true}; !slices.Equal(complete, want) || res.Points[4].Missing[0] != "n2" || res.Total.Attempted != 25 {
		t.Errorf("%v; want 6 minutes that are complete: %v", res, want)
	}
	if c := res.Coverage; c.SecondsTotal != 600 || c.SecondsKnown != 360 || c.SecondsComplete != 240 {
		t.Errorf("%v", c)
	}
	p.err = noLeader{}
	if _, f = s.history(t.Context(), req); f == nil || apierr.From(f).Reason != "NO_LEADER" {
		t.Errorf("without a replica: %v", f)
	}
	p.err = nil
	req.Limit = "nonsense"
	if _, f = s.history(t.Context(), req); f == nil {
		t.Error("of a limit that never was")
	}
}

// TestNeverWas: of a limit that never was nothing is told but that, whatever is asked of its past.
func TestNeverWas(t *testing.T) {
	p := newPast(t)
	p.ask("web/gone", "a", 26*time.Hour, 5) // it is not in force any more
	s := p.service()
	for limit, never := range map[string]bool{"nonsense": true, "gone": false} {
		_, keys := s.historyKeys(t.Context(), &quoratev1.HistoryKeysRequest{Namespace: "web", Limit: limit, From: ago(2 * day)})
		_, noisy := s.noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: limit, From: ago(2 * day)})
		_, forecast := s.forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: limit})
		for call, f := range map[string]error{"keys": keys, "noisy": noisy} {
			if (f != nil) != never || f != nil && !strings.Contains(f.Error(), "does not exist") {
				t.Errorf("%s of %s: %v", call, limit, f)
			}
		}
		if forecast == nil || strings.Contains(forecast.Error(), "does not exist") != never {
			t.Errorf("forecast of %s: %v", limit, forecast)
		}
	}
}

// TestHistoryHourOfKey: an hour of minutes is not too much of a key, whenever it is asked for.
func TestHistoryHourOfKey(t *testing.T) {
	s := newPast(t).service()
	s.clock = func() time.Time { return noon.Add(time.Minute/2 + time.Second/2) }
	req := &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", Step: durationpb.New(time.Minute), From: ago(time.Hour - time.Minute/2)}
	if _, f := s.history(t.Context(), req); f != nil {
		t.Error(f)
	}
	req.From = ago(time.Hour + 2*time.Minute)
	if _, f := s.history(t.Context(), req); f == nil || !strings.Contains(f.Error(), "makes 63 points; at most 61 of a key") {
		t.Errorf("%v", f)
	}
}

// TestHistoryFaults: what is wrong names the field, the value and what is right.
func TestHistoryFaults(t *testing.T) {
	s := newPast(t).service()
	for want, req := range map[string]*quoratev1.HistoryRequest{
		"namespace":                        {Limit: "login"},
		"limit":                            {Namespace: "web"},
		"from: is 2026-11-22T13:00:00Z":    {From: timestamppb.New(noon.Add(time.Hour))},
		"at most three years":              {From: ago(4 * 365 * day)},
		"step: is 2s; must be 1s":          {Step: durationpb.New(2 * time.Second)},
		"which makes 86400 points":         {Step: durationpb.New(time.Second), From: ago(day)},
		"1s (not of a key)":                {Key: "a", Step: durationpb.New(time.Second)},
		"1440 points; at most 61 of a key": {Key: "a", Step: durationpb.New(time.Minute), From: ago(day)},
	} {
		if req.Namespace+req.Limit == "" {
			req.Namespace, req.Limit = "web", "login"
		}
		if _, f := s.history(t.Context(), req); f == nil || !strings.Contains(f.Error(), want) {
			t.Errorf("%v: %v; want %q", req, f, want)
		}
	}
	p := newPast(t)
	p.err = noLeader{}
	if _, f := p.service().history(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login"}); f == nil || apierr.From(f).Reason != "NO_LEADER" {
		t.Errorf("without a replica: %v", f)
	}
}

// TestHistoryKeysAndLimits: the most first, and the rest is bounded.
func TestHistoryKeysAndLimits(t *testing.T) {
	p := newPast(t)
	p.ask("web/login", "a", time.Minute, 5)
	p.ask("web/login", "b", time.Minute, 50)
	p.ask("api/none", "c", time.Minute, 7)
	p.covered = 3
	s := p.service()
	keys, f := s.historyKeys(t.Context(), &quoratev1.HistoryKeysRequest{Namespace: "web", Limit: "login", Top: 1})
	if f != nil || len(keys.Keys) != 1 || keys.Keys[0].Key != "b" || keys.Keys[0].Refused != 40 || keys.Rest != 5 || keys.Coverage.RangesCovered != 3 {
		t.Errorf("%v, %v", keys, f)
	}
	limits, f := s.historyLimits(t.Context(), &quoratev1.HistoryLimitsRequest{})
	if f != nil || len(limits.Limits) != 2 || limits.Limits[0].Limit != "login" || limits.Limits[0].Use.Attempted != 55 || limits.Total != 2 {
		t.Errorf("%v, %v", limits, f)
	}
	if got := statement(limits.Coverage); got != "covers 3 of 4 ranges; complete" {
		t.Errorf("%q", got)
	}
	if limits, f = s.historyLimits(t.Context(), &quoratev1.HistoryLimitsRequest{Namespace: "api", Top: 1}); f != nil || len(limits.Limits) != 1 || limits.Limits[0].Limit != "none" {
		t.Errorf("%v, %v", limits, f)
	}
	if _, f = s.historyLimits(t.Context(), &quoratev1.HistoryLimitsRequest{Top: 1001}); f == nil {
		t.Error("1001 limits")
	}
}

// TestRatesGroupsAndPages: groups add up, and a page says how to get the next.
func TestRatesGroupsAndPages(t *testing.T) {
	res := &quoratev1.TopRatesResponse{Keys: []*quoratev1.KeyRate{
		{Key: "acme/eu/1", Demand: 3, Attempted: 30, Remaining: 5}, {Key: "acme/us/1", Demand: 2, Attempted: 20, Remaining: 1}, {Key: "zoo/eu/1", Demand: 4, Utilisation: .5, NeedlessRefusalsAtMost: 9}, {Key: "x", Demand: 1},
	}}
	if group(res, "1", quota.ByNeedless); res.Groups[0].Value != "zoo" {
		t.Errorf("by needless refusals %v is first", res.Groups[0])
	}
	res.Groups = nil
	group(res, "1", 0)
	got := ""
	for _, g := range res.Groups {
		got += g.Value + " "
	}
	if got != "acme zoo x " || res.Groups[0].Demand != 5 || res.Groups[0].Attempted != 50 || res.Groups[0].Keys != 2 || res.Groups[0].Remaining != 1 || res.KeysGrouped != 4 || res.GroupsPartial {
		t.Errorf("%q: %v", got, res.Groups)
	}
	s := newService(newFake(t), Options{})
	for want, req := range map[string]*quoratev1.TopRatesRequest{
		"label: is":      {Label: "eu"},
		"group_by: is":   {GroupBy: "a=b"},
		"page_token: is": {PageToken: "?"},
	} {
		if _, f := s.topRates(t.Context(), req); f == nil || !strings.Contains(f.Error(), want) {
			t.Errorf("%v: %v; want %q", req, f, want)
		}
	}
	token := PageToken(res.Keys[0])
	if _, f := s.topRates(t.Context(), &quoratev1.TopRatesRequest{PageToken: token, Label: "1=acme"}); f != nil {
		t.Errorf("the token of an answer: %v", f)
	}
	after := &quoratev1.KeyRate{}
	if data, err := base64.RawURLEncoding.DecodeString(PageToken(res.Keys[2])); err != nil || proto.Unmarshal(data, after) != nil || after.NeedlessRefusalsAtMost != 9 {
		t.Errorf("the token of %v is of %v", res.Keys[2], after)
	}
}

// TestRatesEnforcement: an answer says of which limits nobody was refused. What the node does not know it
// says nothing of.
func TestRatesEnforcement(t *testing.T) {
	n := newFake(t)
	rate := quota.Rate{Tokens: 1, Per: time.Second}
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{
		{LimitName: quota.LimitName{Namespace: "web", Limit: "dark"}, Rate: rate, Burst: 1, Enforcement: quota.Shadow},
		{LimitName: quota.LimitName{Namespace: "web", Limit: "some"}, Rate: rate, Burst: 1, Fraction: quota.Million / 4},
	}); err != nil {
		t.Fatal(err)
	}
	n.errors = []*quoratev1.LimitError{{Namespace: "web", Limit: "dark"}, {Namespace: "web", Limit: "some"}, {Namespace: "web", Limit: "gone"}}
	res, f := newService(n, Options{}).topRates(t.Context(), &quoratev1.TopRatesRequest{})
	if f != nil {
		t.Fatal(f)
	}
	for i, want := range []string{"dark ENFORCEMENT_SHADOW 1", "some ENFORCEMENT_ENFORCE 0.25", "gone ENFORCEMENT_UNSPECIFIED 0"} {
		if l := res.Limits[i]; fmt.Sprint(l.Limit, " ", l.Enforcement, " ", l.Fraction) != want {
			t.Errorf("%v; want %s", l, want)
		}
	}
}

// TestRatesOfNoLimit: a limit without traffic has no rates; one that is not there is a mistake.
func TestRatesOfNoLimit(t *testing.T) {
	n := newFake(t)
	n.idle = true
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "logins"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1}
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
		t.Fatal(err)
	}
	s := newService(n, Options{})
	for _, req := range []*quoratev1.TopRatesRequest{{}, {Namespace: "web"}, {Namespace: "web", Limit: "logins"}} {
		if res, f := s.topRates(t.Context(), req); f != nil || len(res.Keys) != 0 {
			t.Errorf("%v: %v, %v", req, res, f)
		}
	}
	_, f := s.topRates(t.Context(), &quoratev1.TopRatesRequest{Namespace: "web", Limit: "login"})
	if f == nil || apierr.From(f).Reason != "NO_SUCH_LIMIT" || !strings.Contains(f.Error(), "web/logins") {
		t.Errorf("a mistyped limit: %v", f)
	}
	n.idle = false // leaders still have keys of a limit that was just removed
	if _, f := s.topRates(t.Context(), &quoratev1.TopRatesRequest{Namespace: "web", Limit: "gone"}); f != nil {
		t.Errorf("a limit with keys: %v", f)
	}
}

// TestWatchRates: answers come again and again; of a reader that is late some are left out and
// counted; there are only so many watchers.
func TestWatchRates(t *testing.T) {
	s := newService(newFake(t), Options{})
	if f := s.watchRates(t.Context(), &quoratev1.WatchRatesRequest{Interval: durationpb.New(time.Millisecond)}, nil); f == nil || apierr.From(f).Field != "interval" {
		t.Errorf("every millisecond: %v", f)
	}
	s.watchers.Take("", maxRateWatchers)
	if f := s.watchRates(t.Context(), &quoratev1.WatchRatesRequest{}, nil); f == nil || apierr.From(f).Reason != "TOO_MANY_WATCHERS" || s.watchers.Held() != maxRateWatchers {
		t.Errorf("one too many: %v", f)
	}
	s.watchers.Give("", maxRateWatchers)
	if f := s.watchRates(t.Context(), &quoratev1.WatchRatesRequest{Label: "x"}, nil); f == nil || apierr.From(f).Field != "label" || s.watchers.Held() != 0 {
		t.Errorf("a bad label: %v", f)
	}
	synctest.Test(t, func(t *testing.T) {
		s := newService(newFake(t), Options{})
		var got []*quoratev1.WatchRatesResponse
		start := time.Now()
		f := s.watchRates(t.Context(), &quoratev1.WatchRatesRequest{Interval: durationpb.New(2 * time.Second)}, func(m *quoratev1.WatchRatesResponse) error {
			got = append(got, proto.CloneOf(m))
			if len(got) == 2 {
				time.Sleep(7 * time.Second) // a slow reader
			}
			if len(got) == 4 {
				return errGone
			}
			return nil
		})
		if f != nil || len(got) != 4 || got[1].Skipped != 0 || got[3].Skipped != 3 || time.Since(start) != 12*time.Second {
			t.Errorf("%v, %d answers in %v, skipped %d", f, len(got), time.Since(start), got[len(got)-1].Skipped)
		}
	})
}

// TestExport: each form of the file has its type and all points; others are named.
func TestExport(t *testing.T) {
	p := newPast(t)
	p.ask("web/login", "a", 10*time.Second, 5, 20, 0, 5)
	s := p.service()
	srv := httptest.NewServer(newRouter(s))
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
	s := newPast(t).service()
	srv := httptest.NewServer(newRouter(s))
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
