package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

func serveHTTP(t testing.TB, n api.Node) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(New(api.New(n, api.Options{ParseLimits: apitest.ParseLimits, FormatLimits: apitest.FormatLimits, Lint: apitest.LintLimits, Version: "test"}), Options{}).Handler)
	t.Cleanup(srv.Close)
	return srv
}

type answer struct {
	code   int
	header http.Header
	body   string
	fields map[string]any
}

func call(t testing.TB, method, url, body string) answer {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d does
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{code: res.StatusCode, header: res.Header, body: string(b)}
	if strings.Contains(res.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(b, &a.fields); err != nil {
			t.Fatalf("%s %s: body is not JSON: %v\n%s", method, url, err, b)
		}
	}
	return a
}

// restOfLimit are the remaining fields of a plain bucket limit in answers to checks, restInList
// those in lists of limits.
const (
	restOfLimit = `,"kind":"bucket"}`
	restInList  = `,"kind":"bucket","class":"counted","enforcement":"enforce","fraction":1,"near":80,"decide":"auto"}`
)

func TestAllowAdmitsThenRefuses(t *testing.T) {
	srv := serveHTTP(t, apitest.New(t))
	const body = `{"namespace":"web","limit":"per_client","key":"203.0.113.7","cost":15}`
	a := call(t, "POST", srv.URL+"/v1/allow", body)
	const want = `{"allowed":true,"limit":{"namespace":"web","name":"per_client","rate":"10/s","burst":20,"ceiling":"soft"` + restOfLimit +
		`,"remaining":5,"retry_after":0,"why":"held","wait":null,"shadow":false,"near":false,"reset_after":null,"tier":0}` + "\n"
	if a.code != 200 || a.body != want {
		t.Errorf("got %d %s\nwant 200 %s", a.code, a.body, want)
	}
	for name, want := range map[string]string{"RateLimit-Policy": `"per_client";q=20;w=2`, "RateLimit": `"per_client";r=5;t=1`, "Retry-After": "", "Content-Type": "application/json"} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	a = call(t, "POST", srv.URL+"/v1/allow", body)
	if a.code != 429 || !strings.Contains(a.body, `"allowed":false`) || !strings.Contains(a.body, `"retry_after":1.5,"why":"over_limit"`) {
		t.Errorf("got %d %s", a.code, a.body)
	}
	if got := a.header.Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After %q, want 1.5 s rounded up", got)
	}
	if got := a.header.Get("RateLimit"); got != `"per_client";r=5;t=2` {
		t.Errorf("RateLimit %q", got)
	}
	a = call(t, "POST", srv.URL+"/v1/allow", `{"namespace":"web","limit":"per_client","key":"k","cost":21}`)
	if a.code != 429 || !strings.Contains(a.body, `"retry_after":null,"why":"over_burst"`) || a.header.Get("Retry-After") != "" {
		t.Errorf("a cost that can never pass: %d %s %v", a.code, a.body, a.header)
	}
}

// TestRequestFaults has one row per invalid call.
func TestRequestFaults(t *testing.T) {
	srv := serveHTTP(t, apitest.New(t))
	long := strings.Repeat("x", quota.MaxKeyLen+1)
	ok := func(extra string) string { return `{"namespace":"web","limit":"per_client","key":"k"` + extra + `}` }
	for _, c := range []struct {
		path, body, field, detail string
		code                      int
	}{
		{"/v1/allow", "", "body", "is empty; send JSON such as", 400},
		{"/v1/allow", "[]", "body", `is an array; must be an object, such as {"namespace":`, 400},
		{"/v1/allow", "namespace=web&limit=a", "body", `is namespace=web&limit=a; must be an object, such as {"namespace":`, 400},
		{"/v1/allow", "{\n \"namespace\": \"web\"\n \"limit\": \"a\"}", "body", `at byte 23 (line 3, column 2): the string "limit", where a comma or } after a field belongs`, 400},
		{"/v1/allow", "{\"namespace\":\"web\",\n\"limit\":\"a}", "limit", "the string at byte 28 (line 2, column 9) of the body has no closing quote", 400},
		{"/v1/allow", `{"limit":"\x"}`, "limit", `\x, at byte 9 of the body, has a bad escape`, 400},
		{"/v1/allow", ok("") + "{}", "body", "has more after the object", 400},
		{"/v1/allow", ok(`,"costs":2`), "costs", `unknown field "costs"; did you mean "cost"? known: namespace, limit, key, cost, max_wait, method, path`, 400},
		{"/v1/allow", ok(`,"Key":"x"`), "Key", "unknown field", 400},
		{"/v1/allow", ok(`,"key":"x"`), "key", "is a duplicate", 400},
		{"/v1/allow", ok(`,"cost":"2"`), "cost", `is the string "2"; must be a whole number from 0 to 4398046511104`, 400},
		{"/v1/allow", ok(`,"cost":1.5`), "cost", "is 1.5; must be a whole number", 400},
		{"/v1/allow", ok(`,"cost":1e3`), "cost", "is 1e3; must be a whole number", 400},
		{"/v1/allow", ok(`,"cost":{}`), "cost", "is an object", 400},
		{"/v1/allow", ok(`,"cost":99999999999999999999`), "cost", "is 99999999999999999999", 400},
		{"/v1/allow", ok(`,"cost":-1`), "cost", "-1; must be 0 (which only asks) to", 400},
		{"/v1/allow", ok(`,"cost":4398046511105`), "cost", "4398046511105; must be 0 (which only asks) to 4398046511104", 400},
		{"/v1/allow", ok(`,"max_wait":"1s"`), "max_wait", `is the string "1s"; must be a number of seconds, such as 0.5`, 400},
		{"/v1/allow", ok(`,"max_wait":-1`), "max_wait", "is -1; must be 0 to 31622400 seconds", 400},
		{"/v1/allow", ok(`,"max_wait":1e9`), "max_wait", "is 1e9; must be 0 to 31622400 seconds", 400},
		{"/v1/allow", ok(`,"method":"GET","path":"/a"`), "limit", `is "per_client", but method and path choose the limits; give one or the other`, 400},
		{"/v1/allow", `{"method":"GET"}`, "path", `is ""; must begin with /`, 400},
		{"/v1/allow", `{"path":"/a"}`, "method", "is 0 bytes; must be an HTTP method such as GET", 400},
		{"/v1/allow", `{"namespace":"web","method":"GET","path":"/a"}`, "namespace", `"web" has no limits for HTTP requests; give them a match, or name a limit`, 404},
		{"/v1/allow", ok(`,}`), "body", "where a field name in double quotes belongs", 400},
		{"/v1/allow", `{"namespace":1,"limit":"l","key":"k"}`, "namespace", "is 1; must be a string", 400},
		{"/v1/allow", `{"namespace":null,"limit":"l","key":"k"}`, "namespace", "is null; must be a string", 400},
		{"/v1/allow", `{"limit":"l","key":"k"}`, "namespace", "is empty", 400},
		{"/v1/allow", `{"namespace":"web","limit":"a b","key":"k"}`, "limit", `has ' ' at byte 1`, 400},
		{"/v1/allow", `{"namespace":"web","limit":"per_client","key":"` + long + `"}`, "key", "is 1025 bytes; at most 1024", 400},
		{"/v1/allow", "{\"namespace\":\"web\",\"limit\":\"per_client\",\"key\":\"\xff\"}", "key", "is not UTF-8", 400},
		{"/v1/allow", `{"namespace":"web","limit":"per_clent","key":"k"}`, "limit", `did you mean "web/per_client"? namespace "web" has: login, per_client`, 404},
		{"/v1/allow", `{"namespace":"wep","limit":"per_client","key":"k"}`, "limit", `unknown namespace "wep"; did you mean "web"? known: api, web`, 404},
		{"/v1/allow", strings.Repeat(" ", api.MaxCheckBody+1), "", "larger than 16384 bytes", 413},
		{"/v1/allow:batch", `{"checks":[]}`, "checks", "0 checks; must be 1 to 1000", 400},
		{"/v1/allow:batch", `{}`, "checks", "0 checks", 400},
		{"/v1/allow:batch", `{"checks":{}}`, "checks", "is an object; must be an array", 400},
		{"/v1/allow:batch", `{"checks":[` + ok("") + `,` + ok(`,"cost":true`) + `]}`, "checks[1].cost", "is true; must be", 400},
		{"/v1/allow:batch", `{"checks":[1]}`, "checks[0]", "is 1; must be an object", 400},
		{"/v1/allow:batch", `{"check":[]}`, "check", "unknown field \"check\"; did you mean \"checks\"?", 400},
		{"/v1/allow:batch", batch(apiproto.MaxBatch + 1), "checks", "more than 1000; send at most 1000", 400},
	} {
		a := call(t, "POST", srv.URL+c.path, c.body)
		detail, _ := a.fields["detail"].(string)
		field, _ := a.fields["field"].(string)
		if a.code != c.code || field != c.field || !strings.Contains(detail, c.detail) || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %.80s:\n got %d field %q: %s\nwant %d field %q: %s", c.path, c.body, a.code, field, detail, c.code, c.field, c.detail)
		}
		if a.fields["type"] != "about:blank" || a.fields["title"] == "" || a.fields["status"] != float64(c.code) {
			t.Errorf("%.60s: not a complete problem: %s", c.body, a.body)
		}
	}
}

func batch(n int) string {
	return `{"checks":[` + strings.TrimSuffix(strings.Repeat(`{"namespace":"api","limit":"per_tenant","key":"k"},`, n), ",") + `]}`
}

func TestBatch(t *testing.T) {
	srv := serveHTTP(t, apitest.New(t))
	a := call(t, "POST", srv.URL+"/v1/allow:batch", batch(apiproto.MaxBatch))
	results, _ := a.fields["results"].([]any)
	if a.code != 200 || len(results) != apiproto.MaxBatch {
		t.Fatalf("got %d with %d results", a.code, len(results))
	}
	if got := results[apiproto.MaxBatch-1].(map[string]any)["response"].(map[string]any)["remaining"]; got != float64(0) {
		t.Errorf("remaining after the last check: %v, want 0", got)
	}
	a = call(t, "POST", srv.URL+"/v1/allow:batch", `{"checks":[{"namespace":"web","limit":"nope","key":"k"},{"namespace":"web","limit":"login","key":"k"},{"namespace":"web","limit":"login","key":"k","cost":-1}]}`)
	for _, want := range []string{`{"response":null,"error":"limit: unknown limit web/nope`, `"remaining":4,"retry_after":0,"why":"held","wait":null,"shadow":false,"near":false,"reset_after":null,"tier":0},"error":""}`, `{"response":null,"error":"cost: -1; must be`} {
		if !strings.Contains(a.body, want) {
			t.Errorf("no %s in %s", want, a.body)
		}
	}
}

// parted records the number of requests in each call that decides a part of a batch.
type parted struct {
	*apitest.Node
	parts []int
}

func (n *parted) Batch() func([]quota.Call) {
	decide := n.Node.Batch()
	return func(calls []quota.Call) {
		size := 0
		for _, c := range calls {
			size += len(c.Requests)
		}
		n.parts = append(n.parts, size)
		decide(calls)
	}
}

// TestBatchInParts checks that a batch whose checks match many limits is decided in parts, which bounds its memory, and
// that its answers are those of its checks, in order.
func TestBatchInParts(t *testing.T) {
	n := &parted{Node: apitest.New(t)}
	limits := []quota.Limit{{LimitName: quota.LimitName{Namespace: "web", Limit: "plain"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 5}}
	for i := range 300 {
		l := limits[0]
		l.LimitName.Limit, l.Burst, l.Match = fmt.Sprint("http", i), 1<<20, &quota.Match{Path: "/a"}
		limits = append(limits, l)
	}
	set, err := quota.NewLimits(7, limits)
	if err != nil {
		t.Fatal(err)
	}
	n.Active = set
	srv := serveHTTP(t, n)
	plain := call(t, "POST", srv.URL+"/v1/allow:batch", `{"checks":[`+strings.Repeat(`{"namespace":"web","limit":"plain","key":"k"},`, apiproto.MaxBatch-1)+`{"namespace":"web","limit":"plain","key":"k"}]}`)
	if plain.code != 200 || !slices.Equal(n.parts, []int{apiproto.MaxBatch}) {
		t.Errorf("%d, parts of %d requests; want one part", plain.code, n.parts)
	}
	n.parts = nil
	a := call(t, "POST", srv.URL+"/v1/allow:batch", `{"checks":[`+strings.Repeat(`{"namespace":"web","method":"GET","path":"/a","key":"k"},`, 9)+`{"namespace":"web","limit":"plain","key":"j"}]}`)
	results, _ := a.fields["results"].([]any)
	if a.code != 200 || len(results) != 10 || !slices.Equal(n.parts, []int{1200, 1200, 301}) {
		t.Fatalf("%d, %d results, parts of %d requests; want 1200, 1200 and 301", a.code, len(results), n.parts)
	}
	for i, r := range results {
		want := float64(1<<20 - 1 - i)
		if i == 9 {
			want = 4
		}
		if got := r.(map[string]any)["response"].(map[string]any)["remaining"]; got != want {
			t.Errorf("check %d: %v remain, want %v", i, got, want)
		}
	}
}

func TestControlRoutes(t *testing.T) {
	n := apitest.New(t)
	srv := serveHTTP(t, n)
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/healthz", "", 200, "ok\n"},
		{"HEAD", "/healthz", "", 200, ""},
		{"GET", "/readyz", "", 200, "ready\n"},
		{"GET", "/readyz/cluster", "", 200, "ready\n"},
		{"GET", "/healthcheck", "", 200, "OK"}, // as envoyproxy/ratelimit
		{"GET", "/v1/status", "", 200, `"ranges":[{"id":0,"leader":"n1","term":3,"replicas":["n1","n2"],"removed":[],"step":"","lag":null}]`},
		{"GET", "/v1/status?x=1", "", 400, "unknown query parameter; none is known"},
		{"GET", "/v1/rates", "", 200, `"rate":9.5,"demand":31.25,"attempted":1152921504606846976,`},
		{"GET", "/v1/rates?top=1000&namespace=web&limit=login&order=remaining&key_prefix=acme/", "", 200, `"ranges_covered":15,"ranges_total":16`},
		{"GET", "/v1/rates?order=speed", "", 400, `order: is \"speed\"; must be one of demand, rate, refusal_rate, utilisation`},
		{"GET", "/v1/rates?key_prefix=" + strings.Repeat("x", 1025), "", 400, `key_prefix: is 1025 bytes; at most 1024`},
		{"GET", "/v1/rates?top=1001", "", 400, "top: 1001; must be 1 to 1000"},
		{"GET", "/v1/rates?top=x", "", 400, `top: is \"x\"; must be a whole number`},
		{"GET", "/v1/rates?tpo=1", "", 400, `unknown query parameter; did you mean \"top\"? known: top, namespace, limit, order, key_prefix`},
		{"GET", "/v1/rates?top=1&top=2", "", 400, "top: given 2 times"},
		{"GET", "/v1/rates?limit=a", "", 400, `namespace: is empty, but limit is \"a\"`},
		{"GET", "/v1/limits", "", 200, `{"version":7,"limits":[{"namespace":"api","name":"none","rate":"0/s","burst":0,"ceiling":"soft"` + restInList},
		{"PUT", "/v1/limits", "web/a 1/s 2\nweb/b 3/m 4 hard", 200, `{"version":8,"changed":true,"changes":[],"findings":[]}`},
		{"GET", "/v1/limits", "", 200, `{"version":8,"limits":[{"namespace":"web","name":"a","rate":"1/s","burst":2,"ceiling":"soft"` + restInList + `,{"namespace":"web","name":"b"`},
		{"PUT", "/v1/limits?source=l.yaml", "bad", 400, `l.yaml:1:1: first fault\nl.yaml:2:5: second fault`},
		{"PUT", "/v1/limits", "", 400, "the body is empty; send a limit file"},
		{"PUT", "/v1/limits", strings.Repeat("x", apiproto.MaxLimitsFile+1), 413, "larger than 4194304 bytes"},
		{"GET", "/v1/allow", "", 405, "GET is not for /v1/allow; use POST"},
		{"DELETE", "/v1/limits", "", 405, "use GET, PUT"},
		{"GET", "/v1/limits/web/a", "", 405, "GET is not for /v1/limits/{namespace}/{limit}; use DELETE"},
		{"GET", "/nope", "", 404, `"unknown path /nope; /v1/openapi.json lists all paths of the API"`},
		{"POST", "/v1/alow", "", 404, "unknown path /v1/alow; did you mean /v1/allow?"},
		{"POST", "/allow", "", 404, "unknown path /allow; did you mean /v1/allow? /v1/openapi.json lists all paths of the API"},
	} {
		a := call(t, c.method, srv.URL+c.path, c.body)
		if a.code != c.code || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: got %d %.300s\nwant %d %s", c.method, c.path, a.code, a.body, c.code, c.want)
		}
		if c.code == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow header", c.method, c.path)
		}
	}
	if n.Asked.Top != apiproto.MaxTop || n.Asked.Limit != "login" || n.Asked.Order != quoratev1.RateOrder_RATE_ORDER_REMAINING || n.Asked.KeyPrefix != "acme/" {
		t.Errorf("the node was asked for %v", n.Asked)
	}
}

func TestClusterFaults(t *testing.T) {
	n := apitest.New(t)
	srv := serveHTTP(t, n)
	put := func() answer { return call(t, "PUT", srv.URL+"/v1/limits", "web/a 1/s 2") }
	for _, err := range []error{apitest.NoLeader{}, fmt.Errorf("meta: %w", apitest.NoLeader{}), status.Error(codes.Unavailable, "no leader")} {
		n.SetErr, n.RateErr = err, err
		if a := put(); a.code != 503 || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "no leader") {
			t.Errorf("%v: %d %s", err, a.code, a.body)
		}
		if a := call(t, "GET", srv.URL+"/v1/rates", ""); a.code != 503 {
			t.Errorf("rates: %v: %d %s", err, a.code, a.body)
		}
	}
	n.SetErr = errors.New("disk full")
	if a := put(); a.code != 500 || !strings.Contains(a.body, "disk full") {
		t.Errorf("%d %s", a.code, a.body)
	}
	n.Leaderless = "1 of 4 ranges have no leader"
	for path, code := range map[string]int{"/readyz": 200, "/healthcheck": 200, "/readyz/cluster": 503} {
		a := call(t, "GET", srv.URL+path, "")
		if a.code != code || code == 503 && (!strings.Contains(a.body, "the cluster is not ready: "+n.Leaderless) || a.header.Get("Retry-After") != "1") {
			t.Errorf("%s of a node that decides and sees no leader: %d %s; want %d", path, a.code, a.body, code)
		}
	}
	n.Reason = "the node stops"
	if a := call(t, "GET", srv.URL+"/healthcheck", ""); a.code != 500 {
		t.Errorf("/healthcheck of a node that is not ready: %+v", a)
	}
	a := call(t, "GET", srv.URL+"/readyz", "")
	if a.code != 503 || !strings.Contains(a.body, "not ready: the node stops") || a.header.Get("Retry-After") != "1" {
		t.Errorf("readyz: %d %s", a.code, a.body)
	}
	if a := call(t, "GET", srv.URL+"/healthz", ""); a.code != 200 {
		t.Errorf("healthz needs no leader: %d", a.code)
	}
}

func TestSlowHeaderIsCutOff(t *testing.T) {
	srv := New(api.New(apitest.New(t), api.Options{}), Options{})
	if srv.ReadHeaderTimeout <= 0 || srv.ReadTimeout <= 0 || srv.WriteTimeout <= 0 || srv.IdleTimeout <= 0 || srv.MaxHeaderBytes <= 0 {
		t.Fatalf("a bound is missing: %+v", srv)
	}
	srv.ReadHeaderTimeout = 50 * time.Millisecond // do not wait for the real one
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l) // ends with Close
	defer srv.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "POST /v1/allow HTTP/1.1\r\nHost: x\r\nX-Slow: ") // the read below shows errors
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))                  // as above
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}

// TestNotReady checks that a node that has just joined, and knows no limits yet, does not say that
// a limit does not exist.
func TestNotReady(t *testing.T) {
	n := apitest.New(t)
	n.Active, n.Reason = apitest.MustLimits(t, 0), "the limits of the meta group have not arrived yet"
	srv := serveHTTP(t, n)
	body := `{"namespace":"web","limit":"per_client","key":"k"}`
	if a := call(t, "POST", srv.URL+"/v1/allow", body); a.code != http.StatusServiceUnavailable || !strings.Contains(a.body, n.Reason) {
		t.Errorf("%d %s", a.code, a.body)
	}
	n.Reason = ""
	if a := call(t, "POST", srv.URL+"/v1/allow", body); a.code != http.StatusNotFound {
		t.Errorf("a cluster without limits: %d %s", a.code, a.body)
	}
}
