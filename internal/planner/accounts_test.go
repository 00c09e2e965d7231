package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// buildsPast returns the past of two accounts with a demand of 14 units each, of which each may take 10 a day.
func buildsPast(t *testing.T) (*apitest.Past, quota.LimitName) {
	t.Helper()
	p := apitest.NewPast(t)
	ref := account.PolicyRef{Config: account.ConfigID{App: "cv", Realm: "project:infra", Version: "#1"}, Key: account.PolicyKey{Namespace: "ci", Name: "day", Resource: "builds"}}
	rule := account.Policy{Default: 10, Limit: 10, Refill: account.Refill{Units: 10, Interval: 86400}}
	old := account.Policy{Default: 5, Limit: 5, Refill: account.Refill{Units: 5, Interval: 86400}}
	p.Accounts.Configs = append(p.Accounts.Configs,
		account.Config{ID: account.ConfigID{App: "cv", Realm: "project:infra", Version: "#0"}, At: 1, Policies: map[account.PolicyKey]account.Policy{ref.Key: old}},
		account.Config{ID: ref.Config, At: 2, Policies: map[account.PolicyKey]account.Policy{ref.Key: rule}})
	name := ref.LimitName()
	for i := range int64(28) {
		at := history.Second(apitest.Noon.Add(-time.Hour).Unix() + i)
		p.All = append(p.All, apitest.Asked{At: at, Limit: name, Key: "", Attempted: 1, Admitted: min(1, max(0, 20-i))})
	}
	return p, name
}

// TestPlanAccounts checks that planners report what is known of accounts with a policy, and that the demand
// of each account is not known.
func TestPlanAccounts(t *testing.T) {
	p, name := buildsPast(t)
	s := newPlannerOf(p)
	past, err := s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: name.Namespace, Limit: name.Limit, From: ago(2 * time.Hour)})
	if err != nil || past.Total.Attempted != 28 || past.Total.Refused != 8 {
		t.Errorf("history: %v, %v", past, err)
	}
	for _, c := range []struct {
		rate           string
		likely, atMost int64
	}{{"20/1d", 0, 8}, {"10/1d", 8, 18}, {"7/1d", 14, 21}} {
		res, err := s.WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: name.Namespace, Limit: name.Limit, From: ago(2 * time.Hour), Rate: c.rate})
		if err != nil {
			t.Errorf("what if %s: %v", c.rate, err)
			continue
		}
		o := res.Outcome
		if o.Exact || !o.Estimate || o.RefusedAtLeast != 0 || o.RefusedAtMost != c.atMost || o.RefusedLikely != c.likely || res.RefusedThen != 8 || !said(res.Statements, "if 2 accounts had equal demand") {
			t.Errorf("what if %s: %v, %v", c.rate, o, res.Statements)
		}
		least, most := int64(0), int64(0)
		for _, p := range res.Points {
			least, most = least+p.RefusedAtLeast, most+p.RefusedAtMost
		}
		if least != o.RefusedAtLeast || most != o.RefusedAtMost {
			t.Errorf("what if %s: the course has %d to %d; want %d to %d", c.rate, least, most, o.RefusedAtLeast, o.RefusedAtMost)
		}
	}
	got, err := s.Suggest(t.Context(), &quoratev1.SuggestRequest{Namespace: name.Namespace, Limit: name.Limit, From: ago(2 * time.Hour)})
	if err != nil || got.Outcome.Rule.Rate != "14/d" || got.Now.Rule.Rate != "10/d" {
		t.Errorf("suggested %v, %v", got, err)
	}
	if _, err := s.WhatIf(t.Context(), &quoratev1.WhatIfRequest{Namespace: name.Namespace, Limit: "cv~project:infra~ci~gone~builds", Rate: "1/s"}); err == nil || !strings.Contains(err.Error(), "no loaded policy of this name") {
		t.Errorf("of a policy that is not loaded: %v", err)
	}
	if _, err := s.History(t.Context(), &quoratev1.HistoryRequest{Namespace: name.Namespace, Limit: "builds"}); err == nil || apierr.From(err).Field != "limit" {
		t.Errorf("of no policy: %v", err)
	}
}

// TestHeadroomAccounts checks how full accounts are reported, as far as the demand of all together tells.
func TestHeadroomAccounts(t *testing.T) {
	daily := &quota.Limit{}
	daily.SetFirst(quota.Tier{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 10, Per: 24 * time.Hour}, Burst: 10})
	for _, c := range []struct {
		limit              *quota.Limit
		attempted, refused int64
		seconds            int
		full               float64
		says               string
	}{
		{daily, 28, 8, 3600, 1, "demand of all accounts was 280% of the limit of one; at least one was used up"},
		{daily, 28, 0, 3600, 0, "280% of the limit of one; none was used up"},
		{daily, 28, 8, 7 * 86400, 1, "40% of the limit of one, so no account had more on average; at least one was used up"},
		{nil, 28, 8, 3600, 0, "no loaded policy of this name"},
	} {
		u := &history.UsedLimit{}
		u.Seconds, u.Attempted, u.Admitted = c.seconds, quota.FromTokens(c.attempted), quota.FromTokens(c.attempted-c.refused)
		out := &quoratev1.LimitHeadroom{}
		accountHeadroom(out, c.limit, u)
		if d := out.Saturation - c.full; d > .001 || d < -.001 || !strings.Contains(out.Statement, c.says) {
			t.Errorf("%d asked, %d refused in %ds: %.3f, %s", c.attempted, c.refused, c.seconds, out.Saturation, out.Statement)
		}
	}
}

func TestAccountLimit(t *testing.T) {
	refill := func(units int64, interval uint32) *account.Policy {
		return &account.Policy{Default: 10, Limit: 10, Refill: account.Refill{Units: units, Interval: interval}}
	}
	for _, c := range []struct {
		policy *account.Policy
		want   string
	}{
		{refill(10, 86400), "10/d fixed 10"},
		{refill(99, 3600), "10/h fixed 10"},
		{refill(5, 21600), "5/6h bucket 10"},
		{refill(10, 0), "none"}, // always full
		{refill(-1, 60), "none"},
		{refill(0, 0), "none"},
		{&account.Policy{Refill: account.Refill{Units: 1, Interval: 60}}, "none"}, // nothing to take
	} {
		got := "none"
		if l := accountLimit(quota.LimitName{}, c.policy); l != nil {
			got = fmt.Sprint(l.Rate, " ", l.Kind, " ", l.Burst)
		}
		if got != c.want {
			t.Errorf("%+v is %s, want %s", c.policy.Refill, got, c.want)
		}
	}
}
