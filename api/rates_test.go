package api

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestRatesGroupsAndPages checks that groups add up and that a page leads to the next.
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
	s := New(apitest.New(t), Options{}).Rates
	for want, req := range map[string]*quoratev1.TopRatesRequest{
		"label: is":           {Label: "eu"},
		"group_by: is":        {GroupBy: "a=b"},
		"page_token: must be": {PageToken: "?"},
	} {
		if _, err := s.TopRates(t.Context(), req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v; want %q", req, err, want)
		}
	}
	token := PageToken(res.Keys[0])
	if _, err := s.TopRates(t.Context(), &quoratev1.TopRatesRequest{PageToken: token, Label: "1=acme"}); err != nil {
		t.Errorf("the token of an answer: %v", err)
	}
	after := &quoratev1.KeyRate{}
	if data, err := base64.RawURLEncoding.DecodeString(PageToken(res.Keys[2])); err != nil || proto.Unmarshal(data, after) != nil || after.NeedlessRefusalsAtMost != 9 {
		t.Errorf("the token of %v is of %v", res.Keys[2], after)
	}
}

// TestRatesEnforcement checks that an answer says which limits refused nobody, and says nothing
// about limits that the node does not know.
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
	res, err := New(n, Options{}).Rates.TopRates(t.Context(), &quoratev1.TopRatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"dark ENFORCEMENT_SHADOW 1", "some ENFORCEMENT_ENFORCE 0.25", "gone ENFORCEMENT_UNSPECIFIED 0"} {
		if l := res.Limits[i]; fmt.Sprint(l.Limit, " ", l.Enforcement, " ", l.Fraction) != want {
			t.Errorf("%v; want %s", l, want)
		}
	}
}

// TestRatesOfNoLimit checks that a limit without traffic has no rates, and that a limit that does
// not exist is an error.
func TestRatesOfNoLimit(t *testing.T) {
	n := apitest.New(t)
	n.Idle = true
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "logins"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1}
	if _, _, err := n.SetLimits(t.Context(), []quota.Limit{l}); err != nil {
		t.Fatal(err)
	}
	s := New(n, Options{}).Rates
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

// TestWatchRates checks that answers repeat, that a slow reader skips some and gets their count,
// and that the number of watchers is bounded.
func TestWatchRates(t *testing.T) {
	s := New(apitest.New(t), Options{}).Rates
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{Interval: durationpb.New(time.Millisecond)}, nil); err == nil || apierr.From(err).Field != "interval" {
		t.Errorf("every millisecond: %v", err)
	}
	s.watchers.TryAcquire("", maxRateWatchers)
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{}, nil); err == nil || apierr.From(err).Reason != "TOO_MANY_WATCHERS" || s.watchers.Held() != maxRateWatchers {
		t.Errorf("one too many: %v", err)
	}
	s.watchers.Release("", maxRateWatchers)
	if err := s.Stream(t.Context(), &quoratev1.WatchRatesRequest{Label: "x"}, nil); err == nil || apierr.From(err).Field != "label" || s.watchers.Held() != 0 {
		t.Errorf("a bad label: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := New(apitest.New(t), Options{}).Rates
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

var errGone = errors.New("the reader has gone")
