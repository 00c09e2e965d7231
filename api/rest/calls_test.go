package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// step is one HTTP call and its expected answer.
type step struct {
	method, path, body string
	code               int
	want               string // in the body
	header             string // "Name: value"
}

func walk(t *testing.T, n api.Node, steps []step) {
	t.Helper()
	walkServer(t, serveHTTP(t, n), steps)
}

func walkRouter(t *testing.T, s *api.Service, steps []step) {
	t.Helper()
	srv := httptest.NewServer(New(s, Options{}).Handler)
	t.Cleanup(srv.Close)
	walkServer(t, srv, steps)
}

func walkServer(t *testing.T, srv *httptest.Server, steps []step) {
	t.Helper()
	for _, c := range steps {
		a := call(t, c.method, srv.URL+c.path, c.body)
		if a.code != c.code || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s %s:\n got %d %.900s\nwant %d %s", c.method, c.path, c.body, a.code, a.body, c.code, c.want)
		}
		if name, value, ok := strings.Cut(c.header, ": "); ok && a.header.Get(name) != value {
			t.Errorf("%s %s %s: %s is %q, want %q", c.method, c.path, c.body, name, a.header.Get(name), value)
		}
	}
}

func TestPeekWaitAndWholeKey(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 10/s 2", "web/w 60/m 3 fixed", "web/s 1/s 1 shadow")
	walk(t, n, []step{
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","cost":0}`, 200, `"allowed":true`, `RateLimit: "a";r=2;t=0`},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","cost":2}`, 200, `"remaining":0`, `RateLimit-Policy: "a";q=2;w=1`},
		// A question gets the status that a request would get.
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","cost":0}`, 429, `"why":"over_limit"`, "Retry-After: 2"},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","key":"*"}`, 429, `"why":"over_limit"`, ""},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","max_wait":0}`, 429, `"why":"over_limit"`, ""},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"a","max_wait":2.5}`, 200, `"why":"reserved","wait":1.5`, "Retry-After: "},
		// A window says when it ends.
		{"POST", "/v1/allow", `{"namespace":"web","limit":"w","cost":2}`, 200, `"near":false`, `RateLimit-Policy: "w";q=3;w=60`},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"w"}`, 200, `"near":true,"reset_after":2,"tier":1`, `RateLimit: "w";r=0;t=2`},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"s"}`, 200, `"shadow":false`, ""},
		{"POST", "/v1/allow", `{"namespace":"web","limit":"s"}`, 200, `"why":"over_limit","wait":null,"shadow":true`, ""},
	})
	if got := n.Used[quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "a"}, Key: quota.WholeKey}]; got != 2 {
		t.Errorf("%d tokens used; questions and refusals charge nothing", got)
	}
}

func TestHTTPRules(t *testing.T) {
	n := apitest.New(t).With(t, "slas/all 100/s 100 get=/**", "slas/get-product 1/s 1 get=/product/*", "web/x 1/s 1 get=/only")
	walk(t, n, []step{
		{"POST", "/v1/allow", `{"method":"GET","path":"/product/7","key":"org"}`, 200, `"name":"get-product"`, ""},
		{"POST", "/v1/allow", `{"method":"get","path":"/product/8?x=1","key":"org"}`, 429, `"name":"get-product"`, ""},
		{"POST", "/v1/allow", `{"method":"GET","path":"/other","key":"org"}`, 200, `"name":"all"`, ""},
		{"POST", "/v1/allow", `{"method":"PUT","path":"/product/7","key":"org"}`, 200, `"limit":null,"remaining":0,"retry_after":0,"why":"no_limit"`, "RateLimit: "},
		{"POST", "/v1/allow", `{"namespace":"web","method":"GET","path":"/only"}`, 200, `"name":"x"`, ""},
		{"POST", "/v1/allow", `{"method":"GET","path":"/` + strings.Repeat("x", api.MaxPath) + `"}`, 400, `path: is 8193 bytes; at most 8192`, ""},
		{"POST", "/v1/allow:all", `{"checks":[{"method":"GET","path":"/p","key":"org"},{"namespace":"web","limit":"x"}]}`, 429, `"allowed":false`, "Retry-After: 2"},
	})
	all := quota.Key{LimitName: quota.LimitName{Namespace: "slas", Limit: "all"}, Key: "org"}
	if got := n.Used[all]; got != 2 {
		t.Errorf("all has %d used, want 2: of the product that passed and of /other; what was refused charges none", got)
	}
}

// TestManyRules checks that a path that more limits match than a caller may name is decided by all of
// them: the limits bound their number, and an error would let the client of a proxy pass.
func TestManyRules(t *testing.T) {
	var rules []string
	for i := range 3 * quota.MaxRequests {
		rules = append(rules, fmt.Sprintf("slas/r%d 100/s 100 get=/**", i))
	}
	n := apitest.New(t).With(t, append(rules, "slas/z 1/s 1 get=/**")...)
	walk(t, n, []step{
		{"POST", "/v1/allow", `{"method":"GET","path":"/p","key":"k"}`, 200, `"name":"z"`, ""},
		{"POST", "/v1/allow:all", `{"checks":[{"method":"GET","path":"/p","key":"k"}]}`, 429, `"name":"z"`, ""},
	})
	if res := forward(t, forwardServer(t, n).URL+"/v1/forward-auth?key=k", "X-Forwarded-Uri", "/p"); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a proxy's request: %d; want that the limit z refuses it", res.StatusCode)
	}
}

func TestAllOrNothing(t *testing.T) {
	n := apitest.New(t)
	check := func(limit, rest string) string {
		return `{"namespace":"web","limit":"` + limit + `","key":"k"` + rest + `}`
	}
	all := func(checks ...string) string { return `{"checks":[` + strings.Join(checks, ",") + `]}` }
	many := make([]string, quota.MaxRequests+1)
	for i := range many {
		many[i] = check("login", "")
	}
	walk(t, n, []step{
		{"POST", "/v1/allow:all", all(check("login", ""), check("per_client", `,"cost":3`)), 200, `{"allowed":true,"results":[{"allowed":true,"limit":{"namespace":"web","name":"login"`, ""},
		{"POST", "/v1/allow:all", all(check("login", `,"cost":5`), check("per_client", "")), 429, `{"allowed":false,"limit":null,"remaining":0,"retry_after":null,"why":"unknown","wait":null,"shadow":false,"near":false,"reset_after":null,"tier":0}],"wait":null,"retry_after":1.5}`, "Retry-After: 2"},
		{"POST", "/v1/allow:all", all(check("per_client", ""), check("login", `,"cost":5`)), 429, `{"allowed":false,"results":[{"allowed":true,"limit":{"namespace":"web","name":"per_client"`, "Retry-After: 2"},
		{"POST", "/v1/allow:all", all(check("login", `,"cost":6`), check("per_client", "")), 429, `"retry_after":null}`, "Retry-After: "},
		{"POST", "/v1/allow:all", all(check("login", `,"cost":5,"max_wait":9`), check("per_client", "")), 200, `"wait":1.5,"retry_after":null}`, ""},
		{"POST", "/v1/allow:all", all(many...), 400, "checks: 17 checks; must be 1 to 16", ""},
		{"POST", "/v1/allow:all", `{"checks":[]}`, 400, "checks: 0 checks", ""},
		{"POST", "/v1/allow:all", all(check("login", ""), check("none", "")), 404, "checks[1].limit: unknown limit web/none", ""},
		{"POST", "/v1/allow:all", all(check("login", ""), check("l l", "")), 400, `checks[1].limit: \"l l\" has ' ' at byte 1`, ""},
		{"POST", "/v1/allow:all", all(check("login", `,"max_wait":true`)), 400, "checks[0].max_wait: is true; must be a number of seconds", ""},
		{"POST", "/v1/allow:all", all(check("login", `,"keys":1`)), 400, `checks[0].keys: unknown field \"keys\"; did you mean \"key\"?`, ""},
	})
	if got := n.Used[quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "per_client"}, Key: "k"}]; got != 4 {
		t.Errorf("%d used of per_client, want 4: a refusal by login charges nothing here", got)
	}
}

func TestRefundAndReport(t *testing.T) {
	walk(t, apitest.New(t), []step{
		{"POST", "/v1/report", `{"namespace":"web","limit":"login","key":"k","used":100}`, 200, `{"booked":10,`, ""},
		{"POST", "/v1/report", `{"namespace":"web","limit":"login","key":"k","used":100}`, 200, `"remaining":0,"retry_after":1,"why":"held"}`, ""},
		{"POST", "/v1/refund", `{"namespace":"web","limit":"login","key":"k","cost":7}`, 200, `"remaining":2}`, ""},
		{"POST", "/v1/refund", `{"namespace":"web","limit":"login","key":"k"}`, 200, `"remaining":3}`, ""},
		{"POST", "/v1/refund", `{"namespace":"web","limit":"login","key":"k","cost":0}`, 400, "cost: 0; must be 1 to 4398046511104", ""},
		{"POST", "/v1/refund", `{"namespace":"web","limit":"none"}`, 404, "unknown limit web/none", ""},
		{"POST", "/v1/report", `{"namespace":"web","limit":"none","used":1}`, 404, "unknown limit web/none", ""},
		{"POST", "/v1/report", `{"namespace":"web","limit":"login","key":"k"}`, 400, "used: 0; must be 1 to", ""},
		{"POST", "/v1/report", `{"namespace":"","limit":"login","used":1}`, 400, "namespace: is empty", ""},
		{"POST", "/v1/report", `{"namespace":"web","limit":"","used":1}`, 400, "limit: is empty", ""},
		{"POST", "/v1/report", "", 400, `is empty; send JSON such as {\"namespace\": ..., \"limit\": ..., \"key\": ..., \"used\": ...}`, ""},
		{"POST", "/v1/report?x=1", "{}", 400, "unknown query parameter", ""},
	})
}

// TestReportsAreNoDecisions checks that reported use is not in the metrics of decisions.
func TestReportsAreNoDecisions(t *testing.T) {
	n := apitest.New(t)
	srv := serveHTTP(t, n)
	call(t, "POST", srv.URL+"/v1/report", `{"namespace":"web","limit":"login","key":"k","used":1}`)
	call(t, "POST", srv.URL+"/v1/allow", `{"namespace":"web","limit":"per_client","key":"k"}`)
	if text := call(t, "GET", srv.URL+"/metrics", "").body; strings.Contains(text, `quorate_decisions_total{limit="login"`) || !strings.Contains(text, `quorate_decisions_total{limit="per_client"`) {
		t.Error(text)
	}
}

func TestReservations(t *testing.T) {
	n := apitest.New(t).With(t, "web/a 10/s 10", "web/jobs 0/s 2 inflight")
	one := `{"checks":[{"namespace":"web","limit":"a","cost":10}]`
	walk(t, n, []step{
		{"POST", "/v1/reserve", one + `,"ttl":30}`, 200, `{"allowed":true,"handle":"n1.7-0","expires_in":30,"results":[{"allowed":true`, ""},
		{"POST", "/v1/reserve", one + `}`, 429, `{"allowed":false,"handle":"","expires_in":null,`, "Retry-After: 2"},
		{"POST", "/v1/reserve", one + `,"ttl":0}`, 400, "ttl: 0s; must be 1ms to 24h0m0s, or absent for the limit's own", ""},
		{"POST", "/v1/reserve", one + `,"ttl":86401}`, 400, "ttl: 24h0m1s", ""},
		{"POST", "/v1/reserve", `{"checks":[{"namespace":"web","limit":"a","cost":0}]}`, 400, "checks: web/a has cost 0; a reservation sets at least 1 aside", ""},
		{"POST", "/v1/reserve", `{"checks":[{"namespace":"web","limit":"b"}]}`, 404, "unknown limit web/b", ""},
		{"POST", "/v1/renew", `{"handle":"n1.7-0","ttl":5}`, 200, "{}", ""},
		{"POST", "/v1/settle", `{"handle":"n1.7-0","used":4}`, 200, "{}", ""},
		{"POST", "/v1/settle", `{"handle":"n1.7-0"}`, 404, "handle: node n1: unknown reservation: it was settled, it expired", ""},
		{"POST", "/v1/renew", `{"handle":"n1.7-0"}`, 404, "NO_SUCH_RESERVATION", ""},
		{"POST", "/v1/settle", `{"handle":"a b"}`, 400, `handle: is \"a b\"; must be what Reserve or Acquire returned`, ""},
		{"POST", "/v1/settle", `{}`, 400, `handle: is \"\"`, ""},
		{"POST", "/v1/settle", `{"handle":"n1.7-0","used":-1}`, 400, "used: -1; must be 0 to", ""},
		{"POST", "/v1/acquire", `{"namespace":"web","limit":"jobs","count":2}`, 200, `{"allowed":true,"handle":"n1.7-0","expires_in":60,"result":{"allowed":true,`, ""},
		{"POST", "/v1/acquire", `{"namespace":"web","limit":"jobs"}`, 429, `{"allowed":false,"handle":""`, "Retry-After: 2"},
		{"POST", "/v1/acquire", `{"namespace":"web","limit":"a"}`, 400, "limit: web/a is a token bucket, not a concurrency limit; check it with Allow, POST /v1/allow", ""},
		{"POST", "/v1/acquire", `{"namespace":"web","limit":"jobs","count":0}`, 400, "count: 0; must be 1 to", ""},
		{"POST", "/v1/acquire", `{"namespace":"web","limit":"none"}`, 404, "unknown limit web/none", ""},
		{"POST", "/v1/release", `{"handle":"n1.7-0"}`, 200, "{}", ""},
	})
	if n.Owner != "" {
		t.Errorf("without authentication a reservation counts for %q", n.Owner)
	}
	if n.Settled["n1.7-0"] != 0 || n.Settled["n1.7-0 renewed"] != int64(5*time.Second) {
		t.Errorf("the node was told %v", n.Settled)
	}
	n.Full = true
	walk(t, n, []step{{"POST", "/v1/reserve", one + `}`, 503, "too many reservations are open on this node; settle some", "Retry-After: 1"}})
}

// TestReservationOfNobody checks that what was reserved for a caller that has left is given back.
func TestReservationOfNobody(t *testing.T) {
	n := apitest.New(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := api.New(n, api.Options{}).Quota.Reserve(ctx, &quoratev1.ReserveRequest{Checks: []*quoratev1.AllowRequest{{Namespace: "web", Limit: "login", Key: "k"}}})
	if used, settled := n.Settled["n1.7-0"]; status.Code(err) != codes.Canceled || !settled || used != 0 {
		t.Errorf("%v; settled: %v, %d were used", err, settled, used)
	}
}

func TestGRPCReservations(t *testing.T) {
	n := apitest.New(t)
	c := quoratev1.NewQuotaServiceClient(dialGRPC(t, n, api.Options{}))
	res, err := c.Reserve(t.Context(), &quoratev1.ReserveRequest{Checks: []*quoratev1.AllowRequest{{Namespace: "web", Limit: "login", Key: "k"}}, Ttl: durationpb.New(time.Minute)})
	if err != nil || !res.Allowed || res.ExpiresIn.AsDuration() != time.Minute {
		t.Fatalf("%v %v", res, err)
	}
	if _, err := c.Settle(t.Context(), &quoratev1.SettleRequest{Handle: res.Handle}); err != nil || n.Settled[res.Handle] != -1 {
		t.Errorf("settle without used: %v, the node was told %v", err, n.Settled)
	}
	if _, err := c.Release(t.Context(), &quoratev1.ReleaseRequest{Handle: res.Handle}); status.Code(err) != codes.NotFound {
		t.Errorf("released after it was settled: %v", err)
	}
	all, err := c.AllowAll(t.Context(), &quoratev1.AllowAllRequest{Checks: []*quoratev1.AllowRequest{{Namespace: "web", Limit: "login", Key: "k", MaxWait: durationpb.New(-1)}}})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "checks[0].max_wait: -1ns; must be 0 to") {
		t.Errorf("%v %v", all, err)
	}
	n.Full = true
	if _, err = c.Acquire(t.Context(), &quoratev1.AcquireRequest{Namespace: "web", Limit: "none", Key: "k"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("too many: %v", err)
	}
}
