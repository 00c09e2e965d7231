package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(apitest.Noon.Add(-d)) }

// TestHistory checks points, their total and their coverage.
func TestHistory(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/login", "a", 10*time.Second, 5, 20, 0, 5)
	p.Missing[apitest.History0(apitest.Noon.Add(-time.Minute))] = "n2"
	s := newPlannerOf(p)
	res, err := s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(10 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Points) != 10 || res.Total.Attempted != 30 || res.Total.Refused != 10 || res.Total.Peak != 20 || res.Total.Mean != 3 || res.Step.AsDuration() != time.Second {
		t.Errorf("%v", res)
	}
	if c := res.Coverage; c.SecondsTotal != 10 || c.SecondsComplete != 0 || c.SecondsKnown != 10 || strings.Join(c.Missing, " ") != "n2" || !c.MissingSince.AsTime().Equal(apitest.Noon.Add(-10*time.Second)) {
		t.Errorf("%v", c)
	}
	if got := Incomplete(res.Coverage); got != "10s are recorded only in part: the history begins later, or a node has not reported everything; missing n2 from 2026-11-22 11:59:50" {
		t.Errorf("%q", got)
	}
	res, err = s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", From: ago(2 * time.Minute)})
	if err != nil || len(res.Points) != 2 || res.Total.Attempted != 30 || res.Step.AsDuration() != time.Minute {
		t.Errorf("of a key: %v, %v", res, err)
	}
	for from, want := range map[time.Duration]time.Duration{25 * time.Minute: time.Second, 2 * time.Hour: time.Minute, 20 * day: time.Hour, 40 * day: time.Hour} {
		if res, err = s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(from)}); err != nil || res.Step.AsDuration() != want {
			t.Errorf("from %v: step %v, %v; want %v", from, res.GetStep().AsDuration(), err, want)
		}
	}
}

// TestHistoryBegins checks that time before the cluster, or its history, began does not count as incomplete.
func TestHistoryBegins(t *testing.T) {
	p := apitest.NewPast(t)
	p.Begins = apitest.History0(apitest.Noon) - 7*60 - 20
	s := newPlannerOf(p)
	of := func(from time.Duration, step int64) *quoratev1.Coverage {
		res, err := s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", From: ago(from), Step: &durationpb.Duration{Seconds: step}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Coverage
	}
	for name, tt := range map[string]struct {
		c    *quoratev1.Coverage
		want string
	}{
		"by the second":              {of(20*time.Minute, 1), "recorded since 2026-11-22 11:52:40"},
		"a minute that it began in":  {of(20*time.Minute, 60), "recorded since 2026-11-22 11:53:00"},
		"since it began":             {of(5*time.Minute, 60), ""},
		"asked from the same minute": {of(8*time.Minute, 60), "all nodes have reported 7m of 8m"},
	} {
		if got := strings.Join(coverageStatements(tt.c), "; "); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	p.Missing[apitest.History0(apitest.Noon)-120] = "n2"
	if got := strings.Join(coverageStatements(of(20*time.Minute, 60)), "; "); got != "all nodes have reported 6m of 7m; missing n2 from 2026-11-22 11:58:00; recorded since 2026-11-22 11:53:00" {
		t.Errorf("%q", got)
	}
}

// TestHistoryOfKey checks that a point of a key is as complete as the limit's point and the lists of keys,
// and that times of which nothing is known have no point.
func TestHistoryOfKey(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/login", "a", 5*time.Minute, 5, 20)
	p.Missing[apitest.History0(apitest.Noon.Add(-2*time.Minute))] = "n2"
	p.Begins = apitest.History0(apitest.Noon.Add(-6 * time.Minute))
	p.Unlisted = apitest.History0(apitest.Noon.Add(-4 * time.Minute))
	s := newPlannerOf(p)
	req := &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", From: ago(10 * time.Minute)}
	res, err := s.History(t.Context(), req)
	if err != nil {
		t.Fatal(err)
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
	p.Err = apitest.NoLeader{}
	if _, err = s.History(t.Context(), req); err == nil || apierr.From(err).Reason != "NO_LEADER" {
		t.Errorf("without a replica: %v", err)
	}
	p.Err = nil
	req.Limit = "nonsense"
	if _, err = s.History(t.Context(), req); err == nil {
		t.Error("of a limit that never was")
	}
}

// TestNeverWas checks that every query about the past of a limit that never existed returns that error.
func TestNeverWas(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/gone", "a", 26*time.Hour, 5) // no longer active
	s := newPlannerOf(p)
	for limit, never := range map[string]bool{"nonsense": true, "gone": false} {
		_, keys := s.HistoryKeys(t.Context(), &quoratev1.HistoryKeysRequest{Namespace: "web", Limit: limit, From: ago(2 * day)})
		_, noisy := s.Noisy(t.Context(), &quoratev1.NoisyRequest{Namespace: "web", Limit: limit, From: ago(2 * day)})
		_, forecast := s.Forecast(t.Context(), &quoratev1.ForecastRequest{Namespace: "web", Limit: limit})
		for call, err := range map[string]error{"keys": keys, "noisy": noisy} {
			if (err != nil) != never || err != nil && !strings.Contains(err.Error(), "unknown limit") {
				t.Errorf("%s of %s: %v", call, limit, err)
			}
		}
		if forecast == nil || strings.Contains(forecast.Error(), "unknown limit") != never {
			t.Errorf("forecast of %s: %v", limit, forecast)
		}
	}
}

// TestHistoryHourOfKey checks that a key's history accepts an hour of minutes, at whatever time it is requested.
func TestHistoryHourOfKey(t *testing.T) {
	s := newPlannerOf(apitest.NewPast(t))
	s.clock = func() time.Time { return apitest.Noon.Add(time.Minute/2 + time.Second/2) }
	req := &quoratev1.HistoryRequest{Namespace: "web", Limit: "login", Key: "a", Step: durationpb.New(time.Minute), From: ago(time.Hour - time.Minute/2)}
	if _, err := s.History(t.Context(), req); err != nil {
		t.Error(err)
	}
	req.From = ago(time.Hour + 2*time.Minute)
	if _, err := s.History(t.Context(), req); err == nil || !strings.Contains(err.Error(), "makes 63 points; at most 61 for a key") {
		t.Errorf("%v", err)
	}
}

// TestHistoryFaults checks that errors name the field, its value and what is valid.
func TestHistoryFaults(t *testing.T) {
	s := newPlannerOf(apitest.NewPast(t))
	for want, req := range map[string]*quoratev1.HistoryRequest{
		"namespace":                               {Limit: "login"},
		"limit":                                   {Namespace: "web"},
		"from: is 2026-11-22T13:00:00Z":           {From: timestamppb.New(apitest.Noon.Add(time.Hour))},
		"at most three years":                     {From: ago(4 * 365 * day)},
		"step: is 2s; must be 1s":                 {Step: durationpb.New(2 * time.Second)},
		"which makes 86400 points":                {Step: durationpb.New(time.Second), From: ago(day)},
		"seconds of single keys are not recorded": {Key: "a", Step: durationpb.New(time.Second)},
		"1440 points; at most 61 for a key":       {Key: "a", Step: durationpb.New(time.Minute), From: ago(day)},
	} {
		if req.Namespace+req.Limit == "" {
			req.Namespace, req.Limit = "web", "login"
		}
		if _, err := s.History(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", req, err, want)
		}
	}
	p := apitest.NewPast(t)
	p.Err = apitest.NoLeader{}
	if _, err := newPlannerOf(p).History(t.Context(), &quoratev1.HistoryRequest{Namespace: "web", Limit: "login"}); err == nil || apierr.From(err).Reason != "NO_LEADER" {
		t.Errorf("without a replica: %v", err)
	}
}

// TestHistoryKeysAndLimits checks that the most requested come first, and that the rest is bounded.
func TestHistoryKeysAndLimits(t *testing.T) {
	p := apitest.NewPast(t)
	p.Ask("web/login", "a", time.Minute, 5)
	p.Ask("web/login", "b", time.Minute, 50)
	p.Ask("api/none", "c", time.Minute, 7)
	p.Covered = 3
	s := newPlannerOf(p)
	keys, err := s.HistoryKeys(t.Context(), &quoratev1.HistoryKeysRequest{Namespace: "web", Limit: "login", Top: 1})
	if err != nil || len(keys.Keys) != 1 || keys.Keys[0].Key != "b" || keys.Keys[0].Refused != 40 || keys.Rest != 5 || keys.Coverage.RangesCovered != 3 {
		t.Errorf("%v, %v", keys, err)
	}
	limits, err := s.HistoryLimits(t.Context(), &quoratev1.HistoryLimitsRequest{})
	if err != nil || len(limits.Limits) != 2 || limits.Limits[0].Limit != "login" || limits.Limits[0].Use.Attempted != 55 || limits.Total != 2 {
		t.Errorf("%v, %v", limits, err)
	}
	if got := Incomplete(limits.Coverage); got != "covers 3 of 4 ranges" {
		t.Errorf("%q", got)
	}
	if limits, err = s.HistoryLimits(t.Context(), &quoratev1.HistoryLimitsRequest{Namespace: "api", Top: 1}); err != nil || len(limits.Limits) != 1 || limits.Limits[0].Limit != "none" {
		t.Errorf("%v, %v", limits, err)
	}
	if _, err = s.HistoryLimits(t.Context(), &quoratev1.HistoryLimitsRequest{Top: 1001}); err == nil {
		t.Error("1001 limits")
	}
}

// newPlannerOf returns a planner whose clock shows noon.
func newPlannerOf(n Node) *Planner {
	return New(n, func(name quota.LimitName) *apierr.Error {
		return &apierr.Error{Reason: "NO_SUCH_LIMIT", Field: "limit", Detail: suggest.Explain(name, n.Limits())}
	}, func() time.Time { return apitest.Noon })
}
