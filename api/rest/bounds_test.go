package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestSlowWatcher checks that a watcher that reads nothing is ended, over gRPC and over HTTP.
func TestSlowWatcher(t *testing.T) {
	n := apitest.New(t)
	s := api.New(n, api.Options{})
	s.Stuck = 50 * time.Millisecond
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	quoratev1.RegisterEventServiceServer(srv, s.Events)
	go srv.Serve(l)
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStaticStreamWindowSize(64<<10))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := quoratev1.NewEventServiceClient(conn).Watch(t.Context(), &quoratev1.WatchRequest{})
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan struct{})
	go func() { // more than any window holds
		for {
			select {
			case n.Events <- testEvent(strings.Repeat("k", 1000)):
			case <-quit:
				return
			}
		}
	}()
	waitFor(t, "the watch to end", n.Stopped)
	close(quit)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "has read nothing for 50ms") {
		t.Errorf("%v", err)
	}
}

// TestHeadersAreBounded checks the bound of headers on both wires.
func TestHeadersAreBounded(t *testing.T) {
	srv := httptest.NewUnstartedServer(nil)
	srv.Config = New(api.New(apitest.New(t), api.Options{}), Options{})
	srv.Start()
	defer srv.Close()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", strings.Repeat("x", maxHTTPHeader+8<<10))
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "431") {
		t.Errorf("%q %v", line, err)
	}
	c := quoratev1.NewQuotaServiceClient(dialGRPC(t, apitest.New(t), api.Options{}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", grpcapi.MaxGRPCHeader))
	if _, err := c.Allow(ctx, &quoratev1.AllowRequest{Namespace: "web", Limit: "login", Key: "k"}); err == nil {
		t.Error("gRPC takes headers of more than 16 KiB")
	}
}

// TestMessagesAreBounded checks the bound of messages over gRPC; TestRequestFaults covers bodies
// over HTTP.
func TestMessagesAreBounded(t *testing.T) {
	c := quoratev1.NewLimitServiceClient(dialGRPC(t, apitest.New(t), api.Options{}))
	_, err := c.ApplyLimits(t.Context(), &quoratev1.ApplyLimitsRequest{Yaml: strings.Repeat("x", grpcapi.MaxGRPCMessage)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v", err)
	}
}

// TestAPILimit checks that the limit on the API, if it exists, counts by proven identity, else by
// address, that it does not count checks, and that changes of limits still work.
func TestAPILimit(t *testing.T) {
	s := newSecured(t, everyRole())
	s.Node.With(t, "quorate/api 1/s 2", "web/per_client 10/s 20")
	conn, h := s.both(t)
	top := func(who string) error {
		_, err := quoratev1.NewRateServiceClient(conn).TopRates(s.as(t.Context(), who), &quoratev1.TopRatesRequest{Top: 1})
		return err
	}
	for i := range 2 {
		if err := top("planner"); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	err := top("planner")
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "too many control calls of token:planner: the limit quorate/api refuses them") {
		t.Errorf("%v", err)
	}
	if w := s.do(h, "planner", "GET", "/v1/rates", ""); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
		t.Errorf("HTTP: %d %v", w.Code, w.Header())
	}
	if err := top("limit-reader"); err != nil {
		t.Errorf("another identity: %v", err)
	}
	for range 5 {
		if _, err := quoratev1.NewQuotaServiceClient(conn).Allow(s.as(t.Context(), "checker"), &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"}); err != nil {
			t.Errorf("checks are not counted: %v", err)
		}
		if _, err := quoratev1.NewLimitServiceClient(conn).ApplyLimits(s.as(t.Context(), "admin"), &quoratev1.ApplyLimitsRequest{Yaml: "quorate/api 1/s 2\nweb/per_client 10/s 20"}); err != nil {
			t.Errorf("the way out is closed: %v", err)
		}
	}
	for range 3 {
		s.do(h, "", "GET", "/v1/whoami", "")
	}
	if w := s.do(h, "", "GET", "/v1/whoami", ""); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "address:192.0.2.1") {
		t.Errorf("nobody: %d %s", w.Code, w.Body)
	}
	if w := s.do(h, "", "GET", "/healthz", ""); w.Code != http.StatusOK {
		t.Errorf("probes: %d", w.Code)
	}
}

// TestAPILimitWithoutAuth checks that callers with an unproven name are counted by address: a name
// costs nothing.
func TestAPILimitWithoutAuth(t *testing.T) {
	n := apitest.New(t).With(t, "quorate/api 1/s 2")
	h := New(api.New(n, api.Options{}), Options{}).Handler
	last := 0
	for i := range 3 {
		req := httptest.NewRequest(http.MethodGet, "/v1/status", nil)
		req.Header.Set("quorate-user", fmt.Sprintf("user:%d", i))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		last = w.Code
	}
	if last != http.StatusTooManyRequests || n.Used[quota.Key{LimitName: api.APILimit, Key: "address:192.0.2.1"}] != 2 {
		t.Errorf("%d %v", last, n.Used)
	}
	for i := range 3 { // a caller has the whole network
		req := httptest.NewRequest(http.MethodGet, "/v1/status", nil)
		req.RemoteAddr = fmt.Sprintf("[2001:db8::%d]:4711", i)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		last = w.Code
	}
	if last != http.StatusTooManyRequests || n.Used[quota.Key{LimitName: api.APILimit, Key: "address:2001:db8::/64"}] != 2 {
		t.Errorf("%d %v", last, n.Used)
	}
}

// TestDebug checks that only admins get profiles, within bounds.
func TestDebug(t *testing.T) {
	s := newSecured(t, everyRole())
	h := NewDebug(api.New(s, s.opts)).Handler
	for _, c := range []struct {
		who, path string
		code      int
	}{
		{"admin", "/debug/pprof/goroutine?debug=1", 200},
		{"admin", "/debug/pprof/", 200},
		{"operator", "/debug/pprof/goroutine?debug=1", 403},
		{"", "/debug/pprof/goroutine?debug=1", 401},
		{"", "/debug/pprof/", 401},
		{"admin", "/debug/pprof/profile?seconds=61", 400},
		{"admin", "/debug/pprof/profile?seconds=x", 400},
		{"admin", "/metrics", 404},
	} {
		if w := s.do(h, c.who, "GET", c.path, ""); w.Code != c.code {
			t.Errorf("%q %s: %d; want %d", c.who, c.path, w.Code, c.code)
		}
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/vars"} {
		if w := s.do(s.handler(), "admin", "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("the API port serves %s: %d", path, w.Code)
		}
	}
}

// TestAudit checks that each change and each denied call has one line in the audit log, on both
// wires, with caller, subject and outcome and without secrets, and that other calls have none.
func TestAudit(t *testing.T) {
	path := t.TempDir() + "/audit.log"
	now := time.Now() // moves with every entry: the clock of some systems does not
	log, err := audit.Open(audit.Options{Path: path, Now: func() time.Time {
		now = now.Add(time.Millisecond)
		return now
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := newSecured(t, everyRole())
	s.opts.Audit, s.opts.Self = log, "n1"
	conn, h := s.both(t)
	ctx := func(who string) context.Context { return s.as(t.Context(), who) }
	sec, limits := quoratev1.NewSecurityServiceClient(conn), quoratev1.NewLimitServiceClient(conn)
	made, err := sec.CreateToken(ctx("admin"), &quoratev1.CreateTokenRequest{Name: "build", Comment: "for CI"})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = limits.ApplyLimits(ctx("limit-writer"), &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1", Comment: "why"})
	_, _ = limits.ApplyLimits(ctx("limit-writer"), &quoratev1.ApplyLimitsRequest{Yaml: "rubbish"})
	_, _ = limits.ApplyLimits(ctx("checker"), &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 1"})
	_, _ = limits.GetLimits(ctx("limit-reader"), &quoratev1.GetLimitsRequest{}) // changes nothing
	s.do(h, "limit-writer", "POST", "/v1/keys:reset", `{"namespace":"web","limit":"a","key":"k"}`)
	s.do(h, "", "DELETE", "/v1/tokens?id=x", "")
	s.do(h, "admin", "DELETE", "/v1/admin/policies?app_id=cv&realm=project:infra&version=%24abc", "")
	lines := readAudit(t, path)
	want := []struct{ identity, method, result, code, has string }{
		{"token:admin", "/quorate.v1.SecurityService/CreateToken", "ok", "", `name="build"`},
		{"token:limit-writer", "/quorate.v1.LimitService/ApplyLimits", "ok", "", `yaml=(11 bytes)`},
		{"token:limit-writer", "/quorate.v1.LimitService/ApplyLimits", "failed", "INVALID_LIMIT_FILE", "first fault"},
		{"token:checker", "/quorate.v1.LimitService/ApplyLimits", "denied", "PERMISSION_DENIED", "needs limits.write"},
		{"token:limit-writer", "/quorate.v1.KeyService/ResetKey", "ok", "", `key="k"`},
		{"anonymous:anonymous", "/quorate.v1.SecurityService/RevokeToken", "denied", "NO_CREDENTIAL", "needs access.admin everywhere"},
		{"token:admin", "/quorate.v1.AccountAdminService/PurgePolicies", "ok", "", `realm="project:infra"`},
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), strings.Join(lines, ""))
	}
	for i, w := range want {
		line := strings.ReplaceAll(lines[i], `\"`, `"`)
		for _, part := range []string{`"identity":"` + w.identity + `"`, `"method":"` + w.method + `"`, `"result":"` + w.result + `"`, w.code, w.has, `"node":"n1"`, `"request_id":"`} {
			if !strings.Contains(line, part) {
				t.Errorf("line %d has no %s: %s", i, part, line)
			}
		}
	}
	all := strings.Join(lines, "")
	secrets := append([]string{made.Token}, mapValues(s.tokens)...)
	for _, token := range secrets {
		if secret := strings.Split(token, ".")[2]; strings.Contains(all, secret) {
			t.Errorf("a secret is in the audit log: %s", all)
		}
	}
	if !strings.Contains(lines[0], `"serial":"`) || !strings.Contains(lines[0], "token=[secret]") {
		t.Error(lines[0])
	}
}

func mapValues(m map[string]string) (out []string) {
	for _, v := range m {
		out = append(out, v)
	}
	return out
}

// readAudit returns the lines of an audit log, changes and attempts, sorted by time.
func readAudit(t *testing.T, path string) (lines []string) {
	t.Helper()
	for _, p := range []string{path, audit.AttemptsPath(path)} {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			lines = append(lines, line)
		}
	}
	at := func(line string) time.Time {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		return e.Time
	}
	slices.SortStableFunc(lines, func(a, b string) int { return at(a).Compare(at(b)) })
	return lines
}

// TestStrangersDoNotEraseTheAuditLog checks that many failed calls with long texts leave the
// entries of changes in the log.
func TestStrangersDoNotEraseTheAuditLog(t *testing.T) {
	path := t.TempDir() + "/audit.log"
	log, err := audit.Open(audit.Options{Path: path, MaxBytes: 4 << 10, Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s := newSecured(t, everyRole())
	s.opts.Audit, s.opts.Self = log, "n1"
	h := s.handler()
	if w := s.do(h, "admin", "POST", "/v1/tokens", `{"name":"evidence"}`); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	for range 500 {
		req := httptest.NewRequest(http.MethodPost, "/v1/cluster/join", strings.NewReader(`{"node":"`+strings.Repeat("x", 1000)+`"}`))
		req.Header.Set("X-Request-Id", strings.Repeat("x", 8000))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code < 400 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if w := s.do(h, "stranger", "POST", "/v1/cluster/join", `{}`); w.Code < 400 { // authenticated, without permissions
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), "evidence") || strings.Count(string(data), "\n") != 1 {
		t.Errorf("what the log has of what was done: %v %s", err, data)
	}
	if _, err := os.Stat(path + ".1"); err == nil {
		t.Error("the log was rotated")
	}
}

// TestSecurityService checks bindings and tokens on both wires; a token works once it is created,
// and no longer after it is revoked.
func TestSecurityService(t *testing.T) {
	s := newSecured(t, everyRole())
	guard, err := auth.New(auth.Config{Table: s.Security, Bindings: []rbac.Binding{{Identity: "user:x", Role: "planner"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Guard = guard
	h := s.handler()
	do := func(who, method, path, body, want string, code int) string {
		t.Helper()
		w := s.do(h, who, method, path, body)
		if w.Code != code || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: %d %s; want %d %s", method, path, w.Code, w.Body, code, want)
		}
		return w.Body.String()
	}
	answer := do("admin", "POST", "/v1/tokens", `{"name":"ci","ttl":3600,"comment":"builds"}`, `"token":"quorate1t.`, 200)
	s.tokens["new"] = strings.Split(strings.SplitAfter(answer, `"token":"`)[1], `"`)[0]
	id := strings.Split(s.tokens["new"], ".")[1]
	do("new", "GET", "/v1/whoami", "", `{"identity":"token:ci","credential":"token","groups":[],"authentication":true,"bindings":[]}`, 200)
	do("new", "GET", "/v1/limits", "", `needs limits.read`, 403)
	do("admin", "PUT", "/v1/bindings", `{"binding":{"identity":"token:ci","role":"limit-reader","scope":"namespace:web"}}`, `{"changed":true}`, 200)
	do("new", "GET", "/v1/limits", "", `"namespace":"web"`, 200)
	do("new", "GET", "/v1/whoami", "", `"role":"limit-reader"`, 200)
	do("admin", "PUT", "/v1/bindings", `{"binding":{"identity":"ci","role":"limit-reader"}}`, `"field":"binding.identity"`, 400)
	do("admin", "PUT", "/v1/bindings", `{}`, `binding.identity: is 0 bytes`, 400)
	do("admin", "PUT", "/v1/bindings", `{"binding":{"identity":"user:z","role":"planer"}}`, `unknown role \"planer\"; did you mean \"planner\"? known: checker`, 404)
	do("admin", "GET", "/v1/bindings?identity=user:x", "", `"role":"planner","permissions":[],"scope":"*","by":"","at":null,"kept_in":"settings"}]}`, 200)
	do("admin", "DELETE", "/v1/bindings?identity=user:x&role=planner", "", `NOT_IN_CLUSTER`, 409)
	do("admin", "DELETE", "/v1/bindings?identity=client:admin&role=admin", "", `kept in built in`, 409)
	do("admin", "DELETE", "/v1/bindings?identity=user:y&role=planner", "", `unknown binding of \"user:y\" to role \"planner\" everywhere`, 404)
	do("admin", "DELETE", "/v1/bindings?identity=token:ci&role=limit-reader&scope=namespace:web", "", `{}`, 200)
	do("new", "GET", "/v1/limits", "", `needs limits.read`, 403)
	do("admin", "GET", "/v1/tokens", "", `"id":"`+id+`","name":"ci"`, 200)
	do("admin", "POST", "/v1/tokens", `{"name":"c i"}`, `"field":"name"`, 400)
	do("admin", "POST", "/v1/tokens", `{"name":"ci","ttl":-1}`, `"field":"ttl"`, 400)
	do("admin", "POST", "/v1/tokens", `{"name":"long","ttl":315360000}`, `"expires_at":"20`, 200) // 3650 days
	do("admin", "POST", "/v1/tokens", `{"name":"long","ttl":315360001}`, `"field":"ttl"`, 400)
	do("admin", "DELETE", "/v1/tokens?id="+s.tokens["new"], "", `is a whole token`, 400)
	do("admin", "DELETE", "/v1/tokens?id="+id, "", `{}`, 200)
	do("admin", "DELETE", "/v1/tokens?id="+id, "", `NO_SUCH_TOKEN`, 404)
	do("new", "GET", "/v1/whoami", "", `it may have been revoked`, 401)
	do("checker", "GET", "/v1/roles", "", `{"name":"checker","summary":"services that ask before they serve","permissions":["check"]}`, 200)
	if strings.Contains(do("admin", "GET", "/v1/tokens", "", "", 200), "hash") {
		t.Error("hashes are shown")
	}
}
