package console

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

const began = 1_800_000_000 // a full hour

// pastFake is a node that knows an hour of web/login by the minute. Minute 10 is unknown, and n2
// has not reported minutes 20 and 21.
func pastFake() *limitsFake {
	f := newLimitsFake()
	rule := &quoratev1.Limit{Namespace: "web", Name: "login", Rate: "5/m", Burst: 5, Kind: quoratev1.Kind_KIND_BUCKET, Class: quoratev1.Class_CLASS_COUNTED}
	f.limits = []*quoratev1.Limit{rule}
	coverage := &quoratev1.Coverage{AsOf: timestamppb.New(time.Unix(began+3600, 0)), RangesCovered: 1, RangesTotal: 1, SecondsTotal: 3600, SecondsComplete: 3420, SecondsKnown: 3540, Missing: []string{"n2" + evil}}
	f.answer["History"] = func(_ context.Context, req any) (proto.Message, error) {
		out := &quoratev1.HistoryResponse{Total: &quoratev1.HistoryPoint{Attempted: 6000, Refused: 60, Peak: 31}, Coverage: coverage}
		if req.(*quoratev1.HistoryRequest).Step.AsDuration() != time.Minute {
			return nil, status.Error(codes.Unavailable, "no replica answers")
		}
		for i := range int64(60) {
			if i == 10 {
				continue
			}
			p := &quoratev1.HistoryPoint{Start: timestamppb.New(time.Unix(began+60*i, 0)), Seconds: 60, Attempted: 100, Refused: 1, Peak: 31, Mean: 100. / 60, P95: 4, P99: 9, Complete: true}
			if i == 20 || i == 21 {
				p.Complete, p.Missing = false, []string{"n2" + evil}
			}
			out.Points = append(out.Points, p)
		}
		return out, nil
	}
	f.answer["HistoryKeys"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.HistoryKeysResponse{Keys: []*quoratev1.KeyUse{{Key: evil, Attempted: 1000, Error: 11, Admitted: 990, Refused: 10}}, Rest: 17, Coverage: coverage}, nil
	}
	outcome := func(low, high int64) *quoratev1.WhatIfOutcome {
		return &quoratev1.WhatIfOutcome{Rule: rule, Attempted: 6000, RefusedAtLeast: low, RefusedAtMost: high, Exact: low == high}
	}
	f.answer["WhatIf"] = func(_ context.Context, req any) (proto.Message, error) {
		w := req.(*quoratev1.WhatIfRequest)
		if w.Rate == "0/m" {
			return nil, status.Error(codes.InvalidArgument, "rate 0/m: must be above 0")
		}
		return &quoratev1.WhatIfResponse{
			Outcome: outcome(120, 180), Now: outcome(60, 60), RefusedThen: 60, Basis: quoratev1.Basis_BASIS_MINUTES, Statements: []string{evil}, Coverage: coverage,
			Points: []*quoratev1.WhatIfPoint{{Start: timestamppb.New(time.Unix(began, 0)), Seconds: 60, Attempted: 120, Refused: 6, RefusedAtLeast: 12, RefusedAtMost: 18}},
		}, nil
	}
	f.answer["Headroom"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.HeadroomResponse{Limits: []*quoratev1.LimitHeadroom{{Headroom: .4, Saturation: .6, Statement: "It is 60 % full."}}}, nil
	}
	f.answer["Suggest"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.SuggestResponse{Outcome: outcome(0, 0)}, nil
	}
	f.answer["Forecast"] = func(context.Context, any) (proto.Message, error) {
		return nil, status.Error(codes.FailedPrecondition, "has 2 days of history; 7 are needed")
	}
	return f
}

func pastConsole(f *limitsFake) *Console {
	return New(Deps{Conn: f, Now: func() time.Time { return time.Unix(began+3600, 0) }})
}

// TestLimitPage checks that the history shows its gaps, each by name, that keys show their errors,
// and that the slider shows the range in which the true value lies.
func TestLimitPage(t *testing.T) {
	res, body := get(pastConsole(pastFake()), "/console/limit?namespace=web&limit=login")
	for _, want := range []string{
		"5/m, burst 5", "The stated bound was exceeded", "08:10:00 to 08:11:00 UTC: no data", "08:20:00 to 08:22:00 UTC: n2&lt;script",
		"1,011", "at most 17 tokens", "120 to 180 of 6,000 tokens, 2.00 % to 3.00 % (bounds)", "60 of 6,000 tokens, 1.00 % (exact)",
		"All nodes have reported 57m of 1h; missing n2&lt;script", "It is 60 % full.", "Has 2 days of history", "&#34;unknown&#34;:true",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%d, no %q", res.StatusCode, want)
		}
	}
	if strings.Contains(body, evil) || inline.MatchString(body) {
		t.Error(body)
	}
}

// TestPolicyPast checks that an account policy has a history like a limit, and nothing that only
// limits have.
func TestPolicyPast(t *testing.T) {
	f := pastFake()
	f.answer["Headroom"] = func(context.Context, any) (proto.Message, error) {
		rule := &quoratev1.Limit{Namespace: "@accounts", Name: "cv~r~ci~day~builds", Rate: "10/d", Burst: 10, Kind: quoratev1.Kind_KIND_FIXED}
		return &quoratev1.HeadroomResponse{Limits: []*quoratev1.LimitHeadroom{{Rule: rule, Statement: "At least one was used up"}}}, nil
	}
	const page = "/console/limit?namespace=@accounts&limit=cv~r~ci~day~builds"
	res, body := get(pastConsole(f), page)
	for _, want := range []string{"@accounts/cv~r~ci~day~builds", "Each account: 10/d", "08:10:00 to 08:11:00 UTC: no data", "At least one was used up", "What if the rule changed?"} {
		if !strings.Contains(body, want) {
			t.Errorf("%d, no %q", res.StatusCode, want)
		}
	}
	for _, not := range []string{"Look at one key", "Accuracy", "limits/delete", "no longer exists"} {
		if strings.Contains(body, not) {
			t.Errorf("has %q", not)
		}
	}
	f.answer["History"] = nil
	if res, body := get(pastConsole(f), page); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "No history") {
		t.Errorf("without a past: %d", res.StatusCode)
	}
}

// TestLimitWithoutPast checks that the page of a node without history, or without any yet, shows
// the rest.
func TestLimitWithoutPast(t *testing.T) {
	f := pastFake()
	c := pastConsole(f)
	for _, answer := range []func(context.Context, any) (proto.Message, error){
		func(context.Context, any) (proto.Message, error) {
			return nil, status.Error(codes.Unavailable, "nothing is kept yet")
		},
		func(context.Context, any) (proto.Message, error) { return &quoratev1.HistoryResponse{}, nil },
		nil,
	} {
		f.answer["History"] = answer
		res, body := get(c, "/console/limit?namespace=web&limit=login")
		if res.StatusCode != http.StatusOK || !strings.Contains(body, "No history yet") || !strings.Contains(body, "No history yet to try rules on") || !strings.Contains(body, "5/m, burst 5") {
			t.Errorf("%d\n%s", res.StatusCode, body)
		}
	}
	const gone = "/console/limit?namespace=web&limit=gone"
	if res, body := get(c, gone); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "web/gone does not exist") {
		t.Errorf("%d\n%s", res.StatusCode, body)
	}
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) {
		return nil, status.Error(codes.NotFound, "did you mean web/login?")
	}
	if res, body := get(c, gone); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "did you mean web/login?") {
		t.Errorf("lacks similar names: %d\n%s", res.StatusCode, body)
	}
	if res, _ := get(c, "/console/limit"); res.StatusCode != http.StatusNotFound {
		t.Error(res.StatusCode)
	}
}

// TestLimitLive checks that live updates request only rates.
func TestLimitLive(t *testing.T) {
	f := pastFake()
	c := pastConsole(f)
	ctx, cancel := context.WithCancel(t.Context())
	c.Close() // after the first round
	req := mustRequest(ctx, "/console/live/limit?namespace=web&limit=login")
	_, body := do(c, req)
	cancel()
	if !strings.Contains(body, "event: now") || f.calls["TopRates"] != 1 || f.calls["GetLimits"]+f.calls["History"]+f.calls["WhatIf"] != 0 {
		t.Errorf("%v\n%s", f.calls, body)
	}
}

func mustRequest(ctx context.Context, path string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		panic(err)
	}
	return req
}

// TestWhatIfData checks the request and the chart for a position of the slider, and that invalid
// positions are refused.
func TestWhatIfData(t *testing.T) {
	f := pastFake()
	asked := &quoratev1.WhatIfRequest{}
	answer := f.answer["WhatIf"]
	f.answer["WhatIf"] = func(ctx context.Context, req any) (proto.Message, error) {
		asked = proto.Clone(req.(proto.Message)).(*quoratev1.WhatIfRequest)
		return answer(ctx, req)
	}
	c := pastConsole(f)
	const at = "/console/data/limit/whatif?namespace=web&limit=login&range=day&unit=m&"
	res, body := get(c, at+"amount=2.5&burst=7")
	if res.StatusCode != http.StatusOK || asked.Rate != "2.5/m" || asked.GetBurst() != 7 || asked.From.AsTime().Unix() != began+3600-86400 {
		t.Errorf("%d %v\n%s", res.StatusCode, asked, body)
	}
	for _, want := range []string{`"values":[2]`, `"values":[0.1]`, `"values":[0.2]`, `"values":[0.3]`, "(bounds)", `"from":"/console/data/limit/whatif?`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	for _, bad := range []string{"amount=0", "burst=x"} {
		if res, body := get(c, at+bad); res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "must be") {
			t.Errorf("%s: %d %s", bad, res.StatusCode, body)
		}
	}
}

// TestSliderOf checks the step and the range of the slider for limits of several sizes.
func TestSliderOf(t *testing.T) {
	bucket, window := quoratev1.Kind_KIND_BUCKET, quoratev1.Kind_KIND_SLIDING
	for _, tc := range []struct {
		limit     *quoratev1.Limit
		step      float64
		most      float64
		burstMost int64
	}{
		{&quoratev1.Limit{Rate: "10/s", Burst: 20, Kind: bucket}, .1, 40, 80},
		{&quoratev1.Limit{Rate: "1000/10s", Burst: 1, Kind: bucket}, 10, 4000, 10},
		{&quoratev1.Limit{Rate: "600/m", Burst: 600, Kind: window}, 10, 2400, 0},
		{&quoratev1.Limit{Rate: "2.5/s", Burst: 5, Kind: bucket}, .1, 10, 20},
	} {
		s, why := sliderOf(tc.limit, timeRanges[0])
		if s == nil || math.Abs(s.Step-tc.step) > 1e-9 || s.Most != tc.most || s.BurstMost != tc.burstMost || s.Least != s.Step {
			t.Errorf("%v: %+v %s", tc.limit, s, why)
		}
	}
	for _, l := range []*quoratev1.Limit{{Kind: quoratev1.Kind_KIND_CONCURRENCY}, {Class: quoratev1.Class_CLASS_BANNED}, {Rate: "x", Kind: bucket}, {Tiers: make([]*quoratev1.Tier, 2)}} {
		if s, why := sliderOf(l, timeRanges[0]); s != nil || why == "" {
			t.Errorf("%v has %+v", l, s)
		}
	}
}

// keyFake is a node with one key, in debt.
func keyFake() *limitsFake {
	f := newLimitsFake()
	f.answer["GetKey"] = func(_ context.Context, req any) (proto.Message, error) {
		k := req.(*quoratev1.GetKeyRequest)
		return &quoratev1.GetKeyResponse{
			Counters: []*quoratev1.KeyRate{
				{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key, Remaining: -7, Rule: &quoratev1.Limit{Rate: "5/m", Burst: 5}, Leader: "n2", Members: 2},
				{Namespace: k.Namespace, Limit: "everybody", Key: "*", Remaining: 3, Rule: &quoratev1.Limit{Rate: "5/s", Burst: 6}},
			},
			Override: &quoratev1.Override{Rate: "9/m", Comment: evil},
		}, nil
	}
	return f
}

// TestKeyPage checks what the page of a key shows, and that it escapes the key.
func TestKeyPage(t *testing.T) {
	c := New(Deps{Conn: keyFake()})
	res, body := get(c, "/console/key?namespace=web&limit=login&key="+url.QueryEscape(evil))
	for _, want := range []string{"7 tokens owed", "Nodes that hold tokens</dt><dd>2</dd>", "Parent <a href=\"/console/limit?limit=everybody&amp;namespace=web\">web/everybody</a>", "9/m", `value="0.5"`, "Reset the key"} {
		if res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, no %q in\n%s", res.StatusCode, want, body)
		}
	}
	if strings.Contains(body, evil) {
		t.Error(body)
	}
	if _, body := get(c, "/console/key?q=a"); !strings.Contains(body, "web/login") {
		t.Error(body)
	}
}

// TestInlineLimit: a limit that its caller defined, as with CL.THROTTLE, has a readable name and no link to a page
// of its own, and its key can be shown and reset, but not overridden.
func TestInlineLimit(t *testing.T) {
	const name = "@inline.bucket.soft.10.3600000000000.5.leader"
	f := keyFake()
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.TopRatesResponse{Keys: []*quoratev1.KeyRate{{Namespace: "redis", Limit: name, Key: "user:42"}}}, nil
	}
	f.answer["GetKey"] = func(_ context.Context, req any) (proto.Message, error) {
		k := req.(*quoratev1.GetKeyRequest)
		return &quoratev1.GetKeyResponse{Counters: []*quoratev1.KeyRate{{Namespace: k.Namespace, Limit: k.Limit, Key: k.Key, Rule: &quoratev1.Limit{Rate: "10/h", Burst: 5}}}}, nil
	}
	c := New(Deps{Conn: f})
	for _, page := range []string{"/console/key?q=user", "/console/key?namespace=redis&limit=" + name + "&key=user:42"} {
		res, body := get(c, page)
		if res.StatusCode != http.StatusOK || !strings.Contains(body, "redis: 10/h, burst 5") || strings.Contains(body, "/console/limit?limit=%40inline") {
			t.Errorf("%s: %d\n%s", page, res.StatusCode, body)
		}
		if one := strings.Contains(page, "key=user"); one && (!strings.Contains(body, "Reset the key") || strings.Contains(body, "Set an override")) {
			t.Errorf("%s: actions\n%s", page, body)
		}
	}
}

// TestKeyChanges checks that reset, override and clear ask for confirmation and make the API's
// calls.
func TestKeyChanges(t *testing.T) {
	f := keyFake()
	var set *quoratev1.Override
	f.answer["ResetKey"] = func(context.Context, any) (proto.Message, error) { return &quoratev1.ResetKeyResponse{}, nil }
	f.answer["DeleteOverrides"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.DeleteOverridesResponse{Deleted: 1}, nil
	}
	f.answer["SetOverrides"] = func(_ context.Context, req any) (proto.Message, error) {
		set = proto.Clone(req.(*quoratev1.SetOverridesRequest).Overrides[0]).(*quoratev1.Override)
		return &quoratev1.SetOverridesResponse{Set: 1}, nil
	}
	c := pastConsole(f)
	key := func(more ...string) url.Values {
		form := url.Values{"namespace": {"web"}, "limit": {"login"}, "key": {"a b"}}
		for i := 0; i < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	for action, call := range map[string]string{"reset": "ResetKey", "clear": "DeleteOverrides"} {
		_, body := do(c, post("/console/key/"+action, key()))
		if f.calls[call] != 0 {
			t.Errorf("%s before it was confirmed", call)
		}
		res, body := do(c, post("/console/key/"+action, key("once", fieldOf(t, body, "once"))))
		if res.StatusCode != http.StatusOK || f.calls[call] != 1 || !strings.Contains(body, "key=a&#43;b") && !strings.Contains(body, "key=a+b") {
			t.Errorf("%s: %d %s", action, res.StatusCode, body)
		}
	}
	for field, bad := range map[string]string{"burst": "many", "scale": "x", "expires": "-1h"} {
		res, body := do(c, post("/console/key/override", key(field, bad, "once", "x"+field)))
		if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, `class="field wrong"`) || set != nil {
			t.Errorf("%s: %d %s", field, res.StatusCode, body)
		}
	}
	res, body := do(c, post("/console/key/override", key("class", "counted", "rate", "20/s", "burst", "40", "scale", "1.5", "expires", "2d", "comment", "until Friday", "once", "y")))
	want := &quoratev1.Override{Namespace: "web", Limit: "login", Key: "a b", Class: quoratev1.Class_CLASS_COUNTED, Rate: "20/s", Burst: proto.Int64(40), Scale: 1.5, Comment: "until Friday", Expires: timestamppb.New(time.Unix(began+3600+2*86400, 0))}
	if res.StatusCode != http.StatusOK || !proto.Equal(set, want) {
		t.Errorf("%d %v; want %v\n%s", res.StatusCode, set, want, body)
	}
}

const accountName = "cv~project:infra~user:ann~~pool~builds"

func accountsFake() *fakeConn {
	f := newFake()
	id, _ := accountOf(accountName)
	state := &quoratev1.AccountState{Id: id, ProjectedBalance: 40, Account: &quoratev1.Account{
		Balance: 30, Policy: &quoratev1.Policy{Default: 10, Limit: 80, Refill: &quoratev1.Refill{Units: 5, Interval: 3600}},
		PolicyId: &quoratev1.PolicyID{Config: &quoratev1.PolicyConfigID{AppId: "cv", Realm: "project:infra", Version: "#v1"}, Key: &quoratev1.PolicyKey{Name: "pool"}},
	}}
	f.answer["ListAccounts"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.ListAccountsResponse{Accounts: []*quoratev1.AccountState{state}, NextPageToken: "more"}, nil
	}
	f.answer["ListRealms"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.ListRealmsResponse{Realms: []*quoratev1.RealmSummary{{AppId: "cv", Realm: "project:infra", HasAccounts: true, PolicyConfigs: 2}, {AppId: "rdb", Realm: evil, PolicyConfigs: 1}}, NextPageToken: "more"}, nil
	}
	f.answer["GetAccounts"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetAccountsResponse{Accounts: []*quoratev1.AccountState{state}}, nil
	}
	f.answer["GetAccountHistory"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetAccountHistoryResponse{Changes: []*quoratev1.AccountChange{{By: evil, RequestId: "r-1", PreviousBalance: 25, NewBalance: 30}}}, nil
	}
	f.answer["ListPolicies"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.ListPoliciesResponse{Policies: []*quoratev1.PolicySummary{{Id: &quoratev1.PolicyConfigID{Version: "#v1"}, Policies: 3, By: evil}}}, nil
	}
	f.answer["GetPolicies"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetPoliciesResponse{Id: &quoratev1.PolicyConfigID{Version: "#v1"}, Config: &quoratev1.PolicyConfig{Policies: []*quoratev1.PolicyEntry{{Key: &quoratev1.PolicyKey{Name: "pool"}, Policy: state.Account.Policy}}}}, nil
	}
	return f
}

// TestAccounts checks what the pages of accounts and policies show, and that they escape names.
func TestAccounts(t *testing.T) {
	c := New(Deps{Conn: accountsFake()})
	for path, wants := range map[string][]string{
		"accounts":                                          {"Application", `href="/console/accounts?app=cv&amp;realm=project%3Ainfra"><b>project:infra`, "2 configs", "1 config<", `href="/console/accounts?after=more"`},
		"accounts?after=more":                               {`href="/console/accounts">First`},
		"policies":                                          {`href="/console/policies?app=cv&amp;realm=project%3Ainfra"><b>project:infra`, `href="/console/policies?after=more"`},
		"accounts?app=cv&realm=project:infra":               {"pool", ">40<", ">80<", "after=more", `href="/console/accounts?app=cv&amp;identity=user%3Aann&amp;realm=project%3Ainfra"`, `href="/console/policies?app=cv&amp;realm=project%3Ainfra&amp;version=%23v1"`},
		"account?id=" + accountName:                         {accountName, "starts with 10, at most 80, &#43;5 every 1h", `value="0.5"`, "r-1", ">5<"},
		"policies?app=cv&realm=project:infra":               {"#v1", ">3<"},
		"policies?app=cv&realm=project:infra&version=%23v1": {"starts with 10", "pool"},
	} {
		res, body := get(c, "/console/"+path)
		for _, want := range wants {
			if res.StatusCode != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: %d, no %q in\n%s", path, res.StatusCode, want, body)
			}
		}
		if strings.Contains(body, evil) {
			t.Error(body)
		}
	}
	if res, _ := get(c, "/console/account?id=a~b"); res.StatusCode != http.StatusBadRequest {
		t.Error(res.StatusCode)
	}
}

// TestApplyOp checks that an operation keeps its request ID while the user corrects the form, and
// that an error appears at its field.
func TestApplyOp(t *testing.T) {
	f := accountsFake()
	var sent []*quoratev1.ApplyOpsRequest
	f.answer["ApplyOps"] = func(_ context.Context, req any) (proto.Message, error) {
		a := proto.Clone(req.(proto.Message)).(*quoratev1.ApplyOpsRequest)
		sent = append(sent, a)
		if a.Ops[0].Delta < -40 {
			return &quoratev1.ApplyOpsResponse{Results: []*quoratev1.OpResult{{Status: quoratev1.OpStatus_OP_STATUS_ERR_UNDERFLOW, StatusMsg: "the balance would be -2"}}}, nil
		}
		return &quoratev1.ApplyOpsResponse{Applied: true, Results: []*quoratev1.OpResult{{PreviousBalance: 40, NewBalance: 35}}}, nil
	}
	c := New(Deps{Conn: f})
	form := url.Values{"id": {accountName}}
	_, body := do(c, post("/console/account/apply", form))
	for _, name := range []string{"once", "request"} {
		form.Set(name, fieldOf(t, body, name))
	}
	form.Set("relative", "current")
	form.Set("delta", "-42")
	res, body := do(c, post("/console/account/apply", form))
	if res.StatusCode != http.StatusConflict || !strings.Contains(body, "underflow: the balance would be -2") || !strings.Contains(body, `class="field wrong"`) || fieldOf(t, body, "request") != form.Get("request") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	form.Set("delta", "-5")
	res, body = do(c, post("/console/account/apply", form))
	if res.StatusCode != http.StatusOK || !strings.Contains(body, "was 40 and is 35") || len(sent) != 2 || sent[1].RequestId != form.Get("request") || sent[1].Ops[0].Delta != -5 || accountWord(sent[1].Ops[0].AccountId) != accountName {
		t.Errorf("%d %v %s", res.StatusCode, sent, body)
	}
	for field, bad := range map[string]string{"delta": "1.5", "relative": "me", "request": " "} {
		wrong := url.Values{"id": {accountName}, "relative": {"zero"}, "delta": {"1"}, "request": {"r"}, "once": {"x" + field}}
		wrong.Set(field, bad)
		if res, body := do(c, post("/console/account/apply", wrong)); res.StatusCode != http.StatusBadRequest || len(sent) != 2 {
			t.Errorf("%s: %d %s", field, res.StatusCode, body)
		}
	}
}

// TestHoleText checks that a gap across midnight UTC shows its dates, whatever the node's own zone
// is.
func TestHoleText(t *testing.T) {
	zone := time.FixedZone("", -5*3600)
	midnight := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC).In(zone)
	for want, h := range map[string]hole{
		"2026-11-22 23:50 to 2026-11-23 00:10 UTC: no data":        {From: midnight.Add(-10 * time.Minute), To: midnight.Add(10 * time.Minute), Unknown: true},
		"04:50:00 to 05:10:00 UTC: n2 has not reported everything": {From: midnight.Add(290 * time.Minute), To: midnight.Add(310 * time.Minute), Missing: []string{"n2"}},
		"2026-11-23 01:00 to 2026-11-24 01:00 UTC: incomplete":     {From: midnight.Add(time.Hour), To: midnight.Add(25 * time.Hour)},
	} {
		if got := h.Text(); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
	}
}

// TestRefusedText checks that what a rule would have refused is one number where it is known, and a
// range with its likely value where it is not.
func TestRefusedText(t *testing.T) {
	for want, o := range map[string]*quoratev1.WhatIfOutcome{
		"–":                                  nil,
		"10 of 1,000 tokens, 1.00 % (exact)": {Attempted: 1000, RefusedAtLeast: 10, RefusedAtMost: 10, Exact: true},
		"about 10 of 1,000 tokens, 1.00 % (an estimate)":                 {Attempted: 1000, RefusedAtLeast: 10, RefusedAtMost: 10, Estimate: true},
		"about 10 to 20 of 1,000 tokens, 1.00 % to 2.00 % (an estimate)": {Attempted: 1000, RefusedAtLeast: 10, RefusedAtMost: 20, Estimate: true},
		"10 to 20 of 1,000 tokens, 1.00 % to 2.00 % (bounds)":            {Attempted: 1000, RefusedAtLeast: 10, RefusedAtMost: 20},
		"0 to 820 of 1,000 tokens, 0 % to 82 %, likely 1.00 %":           {Attempted: 1000, RefusedAtMost: 820, RefusedLikely: 10},
		"0 of 0 tokens, 0 % (exact)":                                     {},
	} {
		if got := refusedText(o); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}
