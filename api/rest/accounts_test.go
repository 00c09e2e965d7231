package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/apiproto"
)

// The subjects of the calls in these tests, as JSON and as a query.
const (
	aliceJSON  = `{"app_id":"cv","realm":"project:infra","identity":"user:alice","namespace":"ci","name":"alice","resource_type":"builds"}`
	nobodyJSON = `{"app_id":"cv","realm":"project:infra","name":"nobody","resource_type":"builds"}`
	slotsJSON  = `{"app_id":"cv","realm":"project:infra","name":"slots","resource_type":"slots"}`
	policyJSON = `{"config":{"app_id":"cv","realm":"project:infra","version":"$abc"},"key":{"namespace":"ci","name":"default","resource_type":"builds"}}`
	buildOp    = `{"account_id":` + aliceJSON + `,"policy_id":` + policyJSON + `,"delta":-1}`
	aliceQuery = "app_id=cv&realm=project:infra&identity=user:alice&namespace=ci&name=alice&resource_type=builds"
	aliceState = `"account":{"balance":7,"updated_at":"2027-01-15T08:00:00Z","policy_changed_at":"2027-01-15T08:00:00Z","policy_id":` + policyJSON +
		`,"policy":{"default":10,"limit":10,"refill":{"units":10,"interval":86400,"offset":0},"options":0,"lifetime":2592000},"expires_at":"2027-02-14T08:00:00Z","refilled_at":"2027-01-15T08:00:00Z"},` +
		`"projected_balance":10,"next_refill_at":"2027-01-16T00:00:00Z"}`
)

// TestAccountsOverHTTP has one row per call and form of its request.
func TestAccountsOverHTTP(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	const failed = `{"results":[{"new_balance":6,"previous_balance":7,"account_status":"already_exists","status":"success","status_msg":"","previous_balance_adjusted":7}],"originally_set":"2027-01-15T08:00:00Z","applied":true,"repeated":false}`
	walk(t, n, []step{
		{"POST", "/v1/accounts:apply", `{"request_id":"build-17","ops":[` + buildOp + `]}`, 200, failed, ""},
		{"POST", "/v1/admin/accounts:apply", `{"ops":[` + buildOp + `]}`, 200, failed, ""},
		{"POST", "/v1/accounts:get", `{"accounts":[` + aliceJSON + `,` + nobodyJSON + `]}`, 200, `{"accounts":[{"id":` + aliceJSON + `,` + aliceState +
			`,{"id":{"app_id":"cv","realm":"project:infra","identity":"","namespace":"","name":"nobody","resource_type":"builds"},"account":null,"projected_balance":0,"next_refill_at":null}],"at":"2027-01-15T08:00:00Z"}`, ""},
		{"POST", "/v1/admin/accounts:get", `{"accounts":[` + aliceJSON + `]}`, 200, aliceState, ""},
		{"GET", "/v1/admin/accounts:history?" + aliceQuery, "", 200, `{"changes":[{"at":"2027-01-15T08:00:00Z","by":"user:alice","request_id":"build-17","previous_balance":8,"new_balance":7,"policy_id":null},{"at":"2027-01-15T07:59:59.999999999Z","by":"user:bob","request_id":"","previous_balance":10,"new_balance":8,"policy_id":` + policyJSON + `}]}`, ""},
		{"GET", "/v1/admin/realms", "", 200, `{"realms":[{"app_id":"cv","realm":"project:infra","has_accounts":true,"policy_configs":1}],"next_page_token":""}`, ""},
		{"GET", "/v1/admin/realms?page_size=1", "", 200, `"next_page_token":"Y3Z-cHJvamVjdDppbmZyYQ"`, ""},
		{"GET", "/v1/admin/realms?page_token=Y3Z-cHJvamVjdDppbmZyYQ", "", 200, `{"realms":[],"next_page_token":""}`, ""},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=project:infra", "", 200, `"next_page_token":""}`, ""},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=project:infra&page_size=1", "", 200, `"next_page_token":"Y3Z-cHJvamVjdDppbmZyYX5-fnNsb3RzfnNsb3Rz"}`, ""},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=project:infra&page_token=Y3Z-cHJvamVjdDppbmZyYX5-fnNsb3RzfnNsb3Rz", "", 200, `{"accounts":[{"id":` + aliceJSON, ""},
		{"POST", "/v1/policies:load", `{"app_id":"cv","realm":"project:infra","config":{"policies":[{"key":{"name":"p","resource_type":"cpu"},"policy":{"limit":"5","default":3,"lifetime":3153600000}}]}}`, 200, `{"id":{"app_id":"cv","realm":"project:infra","version":"$hash"},"created":true}`, ""},
		{"PUT", "/v1/admin/policies", `{"app_id":"cv","realm":"project:infra","config":{"policies":[{"key":{"name":"p","resource_type":"cpu"},"policy":{"limit":5}}]}}`, 200, `"created":false`, ""},
		{"PUT", "/v1/admin/policies", `{"app_id":"cv","realm":"project:infra","version":"v7","config":{"policies":[{"key":{"name":"p","resource_type":"cpu"},"policy":{"limit":5}}]}}`, 200, `"version":"#v7"},"created":true`, ""},
		{"GET", "/v1/admin/policies?app_id=cv&realm=project:infra&page_size=1", "", 200, `{"policies":[{"id":{"app_id":"cv","realm":"project:infra","version":"$abc"},"policies":2,"loaded_at":"2027-01-15T08:00:00Z","by":"user:bob"}],"next_page_token":"$abc"}`, ""},
		{"GET", "/v1/admin/policies:get?app_id=cv&realm=project:infra&version=$abc", "", 200, `{"id":{"app_id":"cv","realm":"project:infra","version":"$abc"},"config":{"policies":[{"key":{"namespace":"","name":"slots","resource_type":"slots"},"policy":{"default":0,"limit":5,"refill":null,"options":1,"lifetime":null}},{"key":{"namespace":"ci"`, ""},
		{"GET", "/v1/admin/policies:get?app_id=cv&realm=project:infra&version=$gone", "", 404, `"reason":"NO_SUCH_POLICIES"`, ""},
		{"DELETE", "/v1/admin/policies?app_id=cv&realm=project:infra&version=$abc", "", 200, `{"purged":true}`, ""},
		{"DELETE", "/v1/admin/policies?app_id=cv&realm=project:infra&version=$abc", "", 200, `{"purged":false}`, ""},
	})
}

// TestApplyOpsHandsOn checks that the node gets every field of a call, and the caller.
func TestApplyOpsHandsOn(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	srv := serveHTTP(t, n)
	send := func(body string, headers ...string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/accounts:apply", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", res, err)
		}
		res.Body.Close()
	}
	a := &n.Accounts
	send(`{"request_id":"r1","request_id_ttl":60,"ops":[`+buildOp+`,{"account_id":`+nobodyJSON+`,"relative_to":"zero","delta":"12","options":5}]}`, "Quorate-User", "user:alice", "X-Forwarded-User", "proxy")
	want := []account.Op{
		{Account: apitest.Alice, Policy: &account.PolicyRef{Config: apitest.CvConfig, Key: apitest.BuildKey}, Delta: -1},
		{Account: apitest.Nobody, RelativeTo: account.Zero, Delta: 12, Options: account.IgnorePolicyBounds | account.WithPolicyLimitDelta},
	}
	if fmt.Sprintf("%+v %+v", *a.Ops[0].Policy, a.Ops[1]) != fmt.Sprintf("%+v %+v", *want[0].Policy, want[1]) || a.Ops[0].Account != apitest.Alice || a.Ops[0].Delta != -1 || a.Ops[0].Rule != nil {
		t.Errorf("got %+v", a.Ops)
	}
	if a.By != "user:alice" || a.Request != "r1" || a.Ttl != time.Minute || a.Owner != "address:127.0.0.1" { // an identity that is not proven owns nothing
		t.Errorf("by %q, request %q, ttl %v, for %q", a.By, a.Request, a.Ttl, a.Owner)
	}
	send(`{"ops":[`+buildOp+`]}`, "X-Forwarded-User", "proxy")
	if a.By != "proxy" || a.Request != "" || a.Ttl != account.DefaultTTL {
		t.Errorf("by %q, request %q, ttl %v", a.By, a.Request, a.Ttl)
	}
	send(`{"ops":[` + buildOp + `]}`)
	if a.By != api.Anonymous {
		t.Errorf("by %q", a.By)
	}
	c := quoratev1.NewAccountServiceClient(dialGRPC(t, n, api.Options{}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "quorate-user", "user:carl")
	if _, err := c.GetAccounts(ctx, &quoratev1.GetAccountsRequest{Accounts: []*quoratev1.AccountID{apiproto.AccountID(apitest.Alice)}, Stale: true}); err != nil || !a.Stale {
		t.Errorf("stale %v, %v", a.Stale, err)
	}
	req := &quoratev1.ApplyOpsRequest{RequestIdTtl: durationpb.New(time.Hour), Ops: []*quoratev1.Op{{AccountId: apiproto.AccountID(apitest.Alice), RelativeTo: quoratev1.RelativeTo_RELATIVE_TO_LIMIT}}}
	if res, err := c.ApplyOps(ctx, req); err != nil || !res.Applied || a.By != "user:carl" || a.Owner != "address:bufconn" || a.Ttl != time.Hour || a.Ops[0].RelativeTo != account.Limit {
		t.Errorf("%v %v by %q for %q ttl %v ops %v", res, err, a.By, a.Owner, a.Ttl, a.Ops)
	}
}

// TestListHandsOn checks that an identity and a namespace that are given as empty still filter.
func TestListHandsOn(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	srv := serveHTTP(t, n)
	f := &n.Accounts.Filter
	call(t, "GET", srv.URL+"/v1/admin/accounts?app_id=cv&realm=project:infra&identity=&name_prefix=al&resource_type=builds", "")
	if f.App != "cv" || f.Realm != "project:infra" || f.Identity == nil || *f.Identity != "" || f.Namespace != nil || f.NamePrefix != "al" || f.Resource != "builds" {
		t.Errorf("%+v", f)
	}
	call(t, "GET", srv.URL+"/v1/admin/accounts?app_id=cv&realm=project:infra&namespace=ci&page_token="+api.AccountPageToken(apitest.Slots), "")
	if f.Identity != nil || f.Namespace == nil || *f.Namespace != "ci" || n.Accounts.After != apitest.Slots {
		t.Errorf("%+v after %v", f, n.Accounts.After)
	}
}

// TestAccountFaults has one row per invalid call, with its error.
func TestAccountFaults(t *testing.T) {
	op := func(s string) string { return `{"ops":[` + buildOp + `,{"account_id":` + aliceJSON + s + `}]}` }
	id := func(s string) string { return `{"accounts":[` + nobodyJSON + `,` + s + `]}` }
	load := func(policy string) string {
		return `{"app_id":"cv","realm":"r","config":{"policies":[{"key":{"name":"p","resource_type":"cpu"},"policy":` + policy + `}]}}`
	}
	long := strings.Repeat("x", account.MaxAtom+1)
	n := apitest.New(t).WithAccounts()
	srv := serveHTTP(t, n)
	for _, c := range []struct{ path, body, field, detail string }{
		{"/v1/accounts:apply", `{}`, "ops", "must be 1 to 1000"},
		{"/v1/accounts:apply", `{"ops":[{}]}`, "ops[0].account_id", "is missing"},
		{"/v1/accounts:apply", `{"ops":[{"account_id":` + strings.Replace(aliceJSON, `"alice"`, `""`, 1) + `}]}`, "ops[0].account_id.name", "is empty"},
		{"/v1/accounts:apply", op(`,"delta":9007199254741`), "ops[1].delta", "9007199254741; must be -9007199254740 to 9007199254740"},
		{"/v1/accounts:apply", op(`,"delta":"-9007199254741"`), "ops[1].delta", "-9007199254741"},
		{"/v1/accounts:apply", op(`,"delta":"1.5"`), "ops[1].delta", "must be a whole number"},
		{"/v1/accounts:apply", op(`,"delta":""`), "ops[1].delta", "must be a whole number"},
		{"/v1/accounts:apply", op(`,"delta":"1,2"`), "ops[1].delta", "must be a whole number"},
		{"/v1/accounts:apply", op(`,"relative_to":"balance"`), "ops[1].relative_to", "must be one of current_balance, zero, default, limit"},
		{"/v1/accounts:apply", op(`,"options":8`), "ops[1].options", "1 (IGNORE_POLICY_BOUNDS), 2 (DO_NOT_CAP_PROPOSED) and 4 (WITH_POLICY_LIMIT_DELTA)"},
		{"/v1/accounts:apply", op(`,"options":3`), "ops[1].options", "both IGNORE_POLICY_BOUNDS"},
		{"/v1/accounts:apply", op(`,"options":-1`), "ops[1].options", "from 0 to 4294967295"},
		{"/v1/accounts:apply", op(`,"options":"1"`), "ops[1].options", "must be a whole number"},
		{"/v1/accounts:apply", op(`,"policy_id":{}`), "ops[1].policy_id.config", "is missing"},
		{"/v1/accounts:apply", op(`,"policy_id":` + strings.Replace(policyJSON, "$abc", "abc", 1)), "ops[1].policy_id.config.version", `"abc"`},
		{"/v1/accounts:apply", op(`,"policy_id":` + strings.Replace(policyJSON, `"builds"`, `"cpu"`, 1)), "ops[1].policy_id.key.resource_type", `"builds"`},
		{"/v1/accounts:apply", `{"request_id":"` + long + `","ops":[` + buildOp + `]}`, "request_id", "257 bytes; at most 256"},
		{"/v1/accounts:apply", `{"request_id_ttl":0,"ops":[` + buildOp + `]}`, "request_id_ttl", "must be 1s to 744h0m0s"},
		{"/v1/accounts:apply", `{"request_id_ttl":2678401,"ops":[` + buildOp + `]}`, "request_id_ttl", "must be 1s to 744h0m0s"},
		{"/v1/accounts:get", `{}`, "accounts", "must be 1 to 1000"},
		{"/v1/accounts:get", id(`{"app_id":"a~b"}`), "accounts[1].app_id", "~"},
		{"/v1/accounts:get", id(`{"app_id":"a","realm":"` + long + `"}`), "accounts[1].realm", "257 bytes"},
		{"/v1/accounts:get", id(`{"app_id":"a","realm":"r","identity":"\n"}`), "accounts[1].identity", "control character"},
		{"/v1/admin/accounts:get", id(`{"app_id":"a","realm":"r","name":"n"}`), "accounts[1].resource_type", "is empty"},
		{"/v1/policies:load", `{"realm":"r"}`, "app_id", "is empty"},
		{"/v1/policies:load", `{"app_id":"a","realm":"r"}`, "config.policies", "must be 1 to 10000"},
		{"/v1/policies:load", `{"app_id":"cv","realm":"r","config":{"policies":[{}]}}`, "config.policies[0].key", "is missing"},
		{"/v1/policies:load", load(`{"default":18446744073709551615}`), "config.policies[0].policy.default", "must be a whole number from 0"},
		{"/v1/policies:load", load(`{"default":9223372036854775807}`), "config.policies[0].policy.default", "9223372036854775807; must be 0 to the limit"},
		{"/v1/policies:load", load(`null`), "config.policies[0].policy", "is missing"},
		{"/v1/policies:load", load(`{"limit":9007199254740992}`), "config.policies[0].policy.limit", "0 to 9007199254740991"},
		{"/v1/policies:load", load(`{"options":2}`), "config.policies[0].policy.options", "ABSOLUTE_RESOURCE"},
		{"/v1/policies:load", load(`{"refill":{"units":1,"interval":7000}}`), "config.policies[0].policy.refill.interval", "day"},
		{"/v1/policies:load", load(`{"refill":{"units":1,"interval":60,"offset":86401}}`), "config.policies[0].policy.refill.offset", "0 to 86"},
		{"/v1/policies:load", load(`{"lifetime":3153600001}`), "config.policies[0].policy.lifetime", "must be 0 to 3153600000 seconds"},
		{"/v1/policies:load", load(`{"lifetime":0}`), "config.policies[0].policy.lifetime", "must be above 0"},
		{"/v1/policies:load", strings.Replace(load(`{"limit":5}`), `"cv"`, `"cv","version":"$x"`, 1), "version", "hash"},
		{"/v1/policies:load", `{"app_id":"cv","realm":"r","config":{"policies":[{"key":{"name":"p","resource_type":"t"},"policy":{"limit":1}},{"key":{"name":"p","resource_type":"t"},"policy":{"limit":1}}]}}`, "config.policies[1].key", "config.policies[0]"},
		{"/v1/policies:load", `{"app_id":"cv","realm":"r","config":{"policies":[{"key":{"name":"p"}},{"key":{"name":"q","resource_type":"t"},"policy":{"options":4}}]}}`, "config.policies[0].key.resource_type", "config.policies[1].policy.options"},
	} {
		a := call(t, "POST", srv.URL+c.path, c.body)
		detail, _ := a.fields["detail"].(string)
		if a.code != 400 || a.fields["field"] != c.field || !strings.Contains(detail, c.detail) {
			t.Errorf("%s %.300s:\n got %d %s\nwant 400 %s: ...%s", c.path, c.body, a.code, a.body, c.field, c.detail)
		}
	}
	many := make([]string, 20+2)
	for i := range many {
		many[i] = fmt.Sprintf(`{"key":{"name":"p%d","resource_type":"t"},"policy":{"options":2}}`, i)
	}
	a := call(t, "POST", srv.URL+"/v1/policies:load", `{"app_id":"a","realm":"r","config":{"policies":[`+strings.Join(many, ",")+`]}}`)
	if !strings.Contains(a.body, "policies[19].policy.options") || strings.Contains(a.body, "policies[20]") || !strings.Contains(a.body, "; and 2 more") {
		t.Errorf("many faults: %s", a.body)
	}
	for _, c := range []struct{ path, field string }{
		{"/v1/admin/accounts", "app_id"},
		{"/v1/admin/accounts?app_id=a", "realm"},
		{"/v1/admin/accounts?app_id=a&realm=r&page_size=1001", "page_size"},
		{"/v1/admin/accounts?app_id=cv&realm=r&page_token=%25", "page_token"},
		{"/v1/admin/accounts?app_id=cv&realm=r&page_token=Y3Z-cn7_fn5ufnQ", "page_token"}, // identity 0xff: no node could forward it
		{"/v1/admin/accounts?app_id=other&realm=project:infra&page_token=" + api.AccountPageToken(apitest.Alice), "page_token"},
		{"/v1/admin/accounts:history?app_id=cv", "realm"},
		{"/v1/admin/policies:get?app_id=cv&realm=r&version=$", "version"},
		{"/v1/admin/policies?app_id=cv&realm=r&page_size=1001", "page_size"},
		{"/v1/admin/policies?app_id=cv&realm=r&page_token=~", "page_token"},
		{"/v1/admin/realms?page_token=~", "page_token"},
		{"/v1/admin/realms?page_token=Y3Y", "page_token"}, // cv
		{"/v1/admin/realms?page_size=1001", "page_size"},
	} {
		if a := call(t, "GET", srv.URL+c.path, ""); a.code != 400 || a.fields["field"] != c.field {
			t.Errorf("%s: %d %s", c.path, a.code, a.body)
		}
	}
	if n.Accounts.Ops != nil || n.Accounts.Reads > 0 || n.Accounts.Loaded != nil {
		t.Error("a faulty call reached the node")
	}
}

// TestOutcomes checks that each outcome of a call has one code on each wire.
func TestOutcomes(t *testing.T) {
	results := []account.Result{{Status: account.Underflow, Message: "balance 0, delta -1", Previous: 0}}
	for _, c := range []struct {
		name    string
		outcome account.Outcome
		err     error
		code    codes.Code
		http    int
		body    string // over HTTP
		id      string
		retry   bool
	}{
		{name: "done", outcome: account.Outcome{Results: results[:0], At: apitest.FakeAt}, http: 200, body: `"applied":true,"repeated":false`},
		{name: "repeated", outcome: account.Outcome{Code: account.Repeated, At: apitest.FakeAt}, http: 200, body: `"applied":true,"repeated":true`},
		{name: "failed", outcome: account.Outcome{Code: account.Failed, Results: results}, http: 409, body: `{"results":[{"new_balance":0,"previous_balance":0,"account_status":"already_exists","status":"err_underflow","status_msg":"balance 0, delta -1","previous_balance_adjusted":0}],"originally_set":null,"applied":false,"repeated":false}`},
		{name: "mismatched", outcome: account.Outcome{Code: account.Mismatched}, id: "r", code: codes.AlreadyExists, http: 422, body: `request_id: \"r\" was used by \"anonymous:anonymous\" for other operations`},
		{name: "held", outcome: account.Outcome{Code: account.Held}, code: codes.Aborted, http: 503, body: `"reason":"ACCOUNTS_HELD"`, retry: true},
		{name: "full", outcome: account.Outcome{Code: account.Full, Message: "4000000 accounts"}, code: codes.ResourceExhausted, http: 503, body: `4000000 accounts; nothing was applied`},
		{name: "no leader, with a request id", id: "r", err: apitest.NoLeader{}, code: codes.Unavailable, http: 503, body: "repeat it with the same request_id", retry: true},
		{name: "no leader, without", err: apitest.NoLeader{}, code: codes.Unavailable, http: 503, body: "look at the accounts before you repeat it"},
		{name: "too slow", id: "r", err: context.DeadlineExceeded, code: codes.DeadlineExceeded, http: 504, body: "repeat it with the same request_id"},
		{name: "no leader, nothing was done", err: nodeError{what: "no leader took it"}, code: codes.Unavailable, http: 503, body: "no leader took it; try again in a second", retry: true},
		{name: "not known, without a request id", err: nodeError{what: "lost", maybe: true}, code: codes.Unavailable, http: 503, body: "look at the accounts before you repeat it"},
		{name: "overloaded", err: nodeError{what: "4096 calls wait", busy: true}, code: codes.ResourceExhausted, http: 503, body: "4096 calls wait; try again later", retry: true},
		{name: "moved under a read", err: fmt.Errorf("accounts: %w", nodeError{what: "changed 10 times", aborted: true}), code: codes.Aborted, http: 503, body: "changed 10 times", retry: true},
		{name: "policies full", err: &account.PoliciesFullError{What: "configs", Have: 1, Adding: 1, Most: 1}, code: codes.ResourceExhausted, http: 503, body: "Purge configs"},
		{name: "another", err: errors.New("disk"), code: codes.Internal, http: 500, body: "disk"},
		{name: "no outcome", outcome: account.Outcome{Code: account.Committed}, code: codes.Internal, http: 500, body: "outcome 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := apitest.New(t).WithAccounts()
			n.Accounts.Outcome, n.Accounts.Err = c.outcome, c.err
			a := call(t, "POST", serveHTTP(t, n).URL+"/v1/accounts:apply", `{"request_id":"`+c.id+`","ops":[`+buildOp+`]}`)
			if a.code != c.http || !strings.Contains(a.body, c.body) {
				t.Errorf("got %d %s\nwant %d %s", a.code, a.body, c.http, c.body)
			}
			if retry := a.header.Get("Retry-After") != ""; retry != c.retry {
				t.Errorf("Retry-After: %v, want %v", a.header, c.retry)
			}
			if problem := a.header.Get("Content-Type") == "application/problem+json"; problem != (c.code != codes.OK) {
				t.Errorf("an answer is JSON, and a fault a problem: %v", a.header)
			}
			res, err := quoratev1.NewAccountServiceClient(dialGRPC(t, n, api.Options{})).ApplyOps(t.Context(), &quoratev1.ApplyOpsRequest{RequestId: c.id, Ops: []*quoratev1.Op{{AccountId: apiproto.AccountID(apitest.Alice)}}})
			if status.Code(err) != c.code || err == nil && res.Applied != (c.http == 200) {
				t.Errorf("gRPC: %v %v", res, err)
			}
		})
	}
}

// nodeError is an error as the nodes of a cluster return it.
type nodeError struct {
	what                 string
	maybe, busy, aborted bool
}

func (e nodeError) Error() string   { return e.what }
func (e nodeError) NoLeader() bool  { return true }
func (e nodeError) MayBeDone() bool { return e.maybe }
func (e nodeError) TooBusy() bool   { return e.busy }
func (e nodeError) Aborted() bool   { return e.aborted }

// TestReadsSayWhatIsWrong checks that errors of the node reach the caller of every read.
func TestReadsSayWhatIsWrong(t *testing.T) {
	n := apitest.New(t).WithAccounts()
	n.Accounts.Err = apitest.NoLeader{}
	var steps []step
	for _, c := range [][3]string{
		{"POST", "/v1/accounts:get", `{"accounts":[` + aliceJSON + `]}`},
		{"GET", "/v1/admin/accounts:history?" + aliceQuery, ""},
		{"GET", "/v1/admin/accounts?app_id=cv&realm=r", ""},
		{"POST", "/v1/policies:load", `{"app_id":"cv","realm":"r","config":{"policies":[{"key":{"name":"p","resource_type":"cpu"},"policy":{}}]}}`},
		{"GET", "/v1/admin/policies?app_id=cv&realm=r", ""},
		{"GET", "/v1/admin/policies:get?app_id=cv&realm=r&version=$abc", ""},
		{"DELETE", "/v1/admin/policies?app_id=cv&realm=r&version=$abc", ""},
	} {
		steps = append(steps, step{c[0], c[1], c[2], 503, "the meta group has no leader; try again in a second", "Retry-After: 1"})
	}
	walk(t, n, steps)
}

// TestFieldsOverGRPC checks that the error's details name the faulty field.
func TestFieldsOverGRPC(t *testing.T) {
	c := quoratev1.NewAccountServiceClient(dialGRPC(t, apitest.New(t).WithAccounts(), api.Options{}))
	_, err := c.ApplyOps(t.Context(), &quoratev1.ApplyOpsRequest{Ops: []*quoratev1.Op{{AccountId: apiproto.AccountID(apitest.Alice)}, {AccountId: apiproto.AccountID(apitest.Alice), RelativeTo: 4}}})
	st := status.Convert(err)
	if st.Code() != codes.InvalidArgument || !strings.HasPrefix(st.Message(), "ops[1].relative_to: 4; must be 0 (CURRENT_BALANCE)") {
		t.Fatal(err)
	}
	for _, d := range st.Details() {
		if b, ok := d.(*errdetails.BadRequest); ok && b.FieldViolations[0].Field == "ops[1].relative_to" {
			return
		}
	}
	t.Errorf("no detail names the field: %v", st.Details())
}
