package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/auth"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/rbac"
)

// fakeConn answers calls by the last part of their names.
type fakeConn struct {
	answer map[string]func(ctx context.Context, req any) (proto.Message, error)
	mu     sync.Mutex // pages may make concurrent calls
	calls  map[string]int
}

func (f *fakeConn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	name := method[strings.LastIndexByte(method, '/')+1:]
	f.mu.Lock()
	f.calls[name]++
	f.mu.Unlock()
	h := f.answer[name]
	if h == nil {
		return status.Error(codes.Unimplemented, name)
	}
	res, err := h(ctx, args)
	if err != nil {
		return err
	}
	proto.Merge(reply.(proto.Message), res)
	return nil
}

func (*fakeConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}

const evil = `<script>alert("x")</script>`

func newFake() *fakeConn {
	f := &fakeConn{calls: map[string]int{}, answer: map[string]func(context.Context, any) (proto.Message, error){}}
	f.answer["GetStatus"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.GetStatusResponse{
			Ready: true, Cluster: evil, Node: "n1", MetaLeader: "n1",
			Nodes:  []*quoratev1.NodeStatus{{Id: "n1", Connected: true, Leads: 1, Faults: []string{evil}}, {Id: "n2", Version: evil}},
			Ranges: []*quoratev1.RangeStatus{{Id: 0, Leader: "n1", Replicas: []string{"n1", "n2"}}, {Id: 1}},
		}, nil
	}
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.TopRatesResponse{
			Keys:   []*quoratev1.KeyRate{{Namespace: "web", Limit: "login", Key: evil, Demand: 3}},
			Limits: []*quoratev1.LimitError{{Namespace: "web", Limit: "login", Attempted: 10, Admitted: 10, WorstExcess: 20, Bound: 8}},
		}, nil
	}
	return f
}

func do(c http.Handler, req *http.Request) (*http.Response, string) {
	w := httptest.NewRecorder()
	c.ServeHTTP(w, req)
	res := w.Result()
	body, _ := io.ReadAll(res.Body)
	return res, string(body)
}

func get(c http.Handler, path string) (*http.Response, string) {
	return do(c, httptest.NewRequest(http.MethodGet, path, nil))
}

func post(path string, form url.Values) *http.Request {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return req
}

// TestVendored checks that vendored files equal those in npm: htmx.org 4.0.1 and uplot 1.6.32.
func TestVendored(t *testing.T) {
	for name, want := range map[string]string{
		"htmx-4.0.1.min.js":    "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
		"uplot-1.6.32.min.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE.htmx":         "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
		"LICENSE.uplot":        "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		data, err := fs.ReadFile(files, "static/"+name)
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}

// inline matches what the Content-Security-Policy forbids: scripts, styles and handlers in the
// page.
var inline = regexp.MustCompile(`(?i)<style|<script>|<script [^>]*>[^<]|\sstyle=|\son[a-z]+=|hx-on|javascript:|(src|href)="(https?:)?//`)

// TestOverviewShadow checks that the overview's tables mark limits that do not enforce every
// refusal.
func TestOverviewShadow(t *testing.T) {
	f := newFake()
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.TopRatesResponse{
			Keys: []*quoratev1.KeyRate{{Namespace: "web", Limit: "dark", Demand: 3, Rule: &quoratev1.Limit{Enforcement: quoratev1.Enforcement_ENFORCEMENT_SHADOW, Fraction: 1}}},
			Limits: []*quoratev1.LimitError{
				{Namespace: "web", Limit: "login", Enforcement: quoratev1.Enforcement_ENFORCEMENT_ENFORCE, Fraction: 1},
				{Namespace: "web", Limit: "some", Enforcement: quoratev1.Enforcement_ENFORCEMENT_ENFORCE, Fraction: .25},
			},
		}, nil
	}
	_, body := get(New(Deps{Conn: f, Self: "n1"}), "/console/")
	body = regexp.MustCompile(`(?s)<svg.*?</svg>`).ReplaceAllString(body, "")
	for _, want := range []string{
		`">web/dark</a> <span class="badge warn">shadow</span></td>`, `">web/login</a></td>`, `">web/some</a> <span class="badge warn">enforced for 25 %</span></td>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in\n%s", want, body)
		}
	}
}

// TestPages checks that every page has strict headers, loads nothing from other hosts, and escapes
// external text.
func TestPages(t *testing.T) {
	c := New(Deps{Conn: newFake(), Self: "n1"})
	for _, p := range registry(c.Deps) {
		res, body := get(c, "/console/"+p.Path)
		if res.StatusCode >= 500 && res.StatusCode != http.StatusNotImplemented {
			t.Errorf("%q: %d\n%s", p.Path, res.StatusCode, body)
		}
		if got := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'self';") || strings.Contains(got, "unsafe") || !strings.Contains(got, "frame-ancestors 'none'") {
			t.Errorf("%q: policy %q", p.Path, got)
		}
		if m := inline.FindString(body); m != "" || strings.Contains(body, evil) {
			t.Errorf("%q has %q", p.Path, m)
		}
		if n := strings.Count(body, "<h1"); n != 1 {
			t.Errorf("%q has %d first headings", p.Path, n)
		}
	}
	if res, body := get(c, "/console/nowhere"); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "/console/nowhere") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestOverview checks that the overview shows faults, and shows the rest when the user may not
// read rates.
func TestOverview(t *testing.T) {
	f := newFake()
	c := New(Deps{Conn: f, Self: "n1"})
	_, body := get(c, "/console/")
	for _, want := range []string{"Exceeded", "without a leader:", "unreachable", "Fault."} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	denied := status.Error(codes.PermissionDenied, "needs rates.read")
	f.answer["TopRates"] = func(context.Context, any) (proto.Message, error) { return nil, denied }
	if res, body := get(c, "/console/"); res.StatusCode != http.StatusOK || !strings.Contains(body, "needs rates.read") || !strings.Contains(body, "n2") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestStatic checks that static files may be cached forever, and that no other file is served.
func TestStatic(t *testing.T) {
	c := New(Deps{Conn: newFake()})
	res, _ := get(c, c.static("app.js"))
	if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") || !strings.Contains(res.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	for _, name := range []string{"LICENSE.htmx", "../templates/layout.html", "nothing.js"} {
		if res, _ := get(c, "/console/static/"+url.PathEscape(name)); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}

// guarded returns a console that authenticates callers, a token of a viewer, and a func that
// revokes it.
func guarded(t *testing.T, f *fakeConn, now func() time.Time) (c *Console, token string, revoke func()) {
	t.Helper()
	return guardedAs(t, f, now, rbac.Binding{Role: "planner", Scope: rbac.Everywhere})
}

// guardedAs is guarded with another role for the viewer.
func guardedAs(t *testing.T, f *fakeConn, now func() time.Time, b rbac.Binding) (c *Console, token string, revoke func()) {
	t.Helper()
	text, id, hash := pki.NewBearer()
	b.Identity = "token:v"
	table, err := rbac.NewTable([]rbac.Binding{b})
	if err != nil {
		t.Fatal(err)
	}
	empty := table
	table, _ = table.Apply(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(&rbac.Token{ID: id, Name: "v", Hash: hash})}})
	guard, err := auth.New(auth.Config{Table: func() *rbac.Table { return table }, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return New(Deps{Conn: f, Guard: guard, Self: "n1", Now: now}), text, func() { table = empty }
}

// TestSignIn checks that nobody gets in without a valid token; that sign-out, expiry and revocation
// of the token end a session; that calls carry the caller's identity; and that sign-in is no open
// redirect.
func TestSignIn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	f := newFake()
	c, token, revoke := guarded(t, f, func() time.Time { return now })
	status := f.answer["GetStatus"]
	f.answer["GetStatus"] = func(ctx context.Context, req any) (proto.Message, error) {
		if who := auth.From(ctx); who == nil || who.Identity != "token:v" {
			t.Errorf("the call is made by %v", who)
		}
		return status(ctx, req)
	}
	if res, _ := get(c, "/console/"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(res.Header.Get("Location"), "/console/sign-in?next=") || f.calls["GetStatus"] != 0 {
		t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	for _, bad := range []string{"", "x", token + "x", token[:len(token)-4], "two words"} {
		res, body := do(c, post("/console/sign-in", url.Values{"token": {bad}}))
		if res.StatusCode != http.StatusUnauthorized || len(res.Cookies()) != 0 || len(bad) > 9 && strings.Contains(body, bad) {
			t.Errorf("%q: %d %v", bad, res.StatusCode, res.Cookies())
		}
	}
	signIn := func(next string) (*http.Cookie, string) {
		res, body := do(c, post("/console/sign-in", url.Values{"token": {token}, "next": {next}}))
		if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		return res.Cookies()[0], res.Header.Get("Location")
	}
	for next, want := range map[string]string{
		"/console/nodes?x=1": "/console/nodes?x=1", "https://evil.example/": "/console/", "//evil.example": "/console/",
		"/console/../v1/limits": "/console/", `/console/\evil`: "/console/", "": "/console/",
	} {
		if _, got := signIn(next); got != want {
			t.Errorf("%q leads to %q; want %q", next, got, want)
		}
	}
	in := func(cookie *http.Cookie) bool {
		req := httptest.NewRequest(http.MethodGet, "/console/", nil)
		req.AddCookie(cookie)
		res, _ := do(c, req)
		return res.StatusCode == http.StatusOK
	}
	cookie, _ := signIn("")
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || strings.Contains(cookie.Value, token) || !in(cookie) {
		t.Errorf("%+v", cookie)
	}
	out := post("/console/sign-out", nil)
	out.AddCookie(cookie)
	do(c, out)
	if in(cookie) {
		t.Error("in after signing out")
	}
	cookie, _ = signIn("")
	now = now.Add(sessionIdle + time.Second)
	if in(cookie) {
		t.Error("in after two idle hours")
	}
	cookie, _ = signIn("")
	revoke()
	if in(cookie) {
		t.Error("in after the token was revoked")
	}
}

// TestHome checks that a user who may see nothing of the overview starts on the first page of the
// navigation, and sees what a rollback leaves alone.
func TestHome(t *testing.T) {
	f := newFake()
	for _, name := range []string{"GetLimits", "ListVersions", "DiffLimits"} {
		f.answer[name] = func(context.Context, any) (proto.Message, error) {
			return map[string]proto.Message{"GetLimits": &quoratev1.GetLimitsResponse{}, "ListVersions": &quoratev1.ListVersionsResponse{}, "DiffLimits": &quoratev1.DiffLimitsResponse{}}[name], nil
		}
	}
	for _, who := range []struct {
		binding rbac.Binding
		to      string
		part    bool // of the namespaces
	}{
		{rbac.Binding{Role: "limit-writer", Scope: rbac.Namespace("web")}, "/console/limits", true},
		{rbac.Binding{Role: "checker", Scope: rbac.Everywhere}, "", true},
		{rbac.Binding{Role: "limit-writer", Scope: rbac.Everywhere}, "", false},
		{rbac.Binding{Role: "operator", Scope: rbac.Everywhere}, "", false},
	} {
		c, token, _ := guardedAs(t, f, time.Now, who.binding)
		signed, _ := do(c, post("/console/sign-in", url.Values{"token": {token}}))
		as := func(req *http.Request) (*http.Response, string) {
			req.AddCookie(signed.Cookies()[0])
			return do(c, req)
		}
		if res, _ := as(httptest.NewRequest(http.MethodGet, "/console/", nil)); res.Header.Get("Location") != who.to {
			t.Errorf("%+v: %d, leads to %q; want %q", who.binding, res.StatusCode, res.Header.Get("Location"), who.to)
		}
		if _, body := as(post("/console/versions/rollback", url.Values{"version": {"1"}})); strings.Contains(body, "Namespaces that you cannot read and write do not change") != who.part {
			t.Errorf("%+v: %s", who.binding, body)
		}
	}
}

// TestSessionsAreBounded checks the bounds on sessions in total and per identity, and that repeated
// sign-ins of one identity end no session of another.
func TestSessionsAreBounded(t *testing.T) {
	var s sessions
	now := time.Unix(1_800_000_000, 0)
	quiet := s.begin("a", "user:quiet", now)
	var own string
	for i := range maxSessions + 10 {
		if id := s.begin("b", "user:noisy", now.Add(time.Duration(i+1)*time.Millisecond)); i == 0 {
			own = id
		}
	}
	if len(s.byID) != maxOfOne+1 || s.credential(quiet, now, true) != "a" || s.credential(own, now, true) != "" {
		t.Errorf("%d sessions; the first of another %q, the first of its own %q", len(s.byID), s.credential(quiet, now, true), s.credential(own, now, true))
	}
	for i := range 2 * maxSessions {
		s.begin("c", fmt.Sprintf("user:%d", i%100), now.Add(time.Minute))
	}
	if len(s.byID) != maxSessions || s.credential(quiet, now, true) != "a" {
		t.Errorf("%d sessions; the first of another %q", len(s.byID), s.credential(quiet, now, true))
	}
}

// TestViewersAreShared checks that one identity cannot take all live pages.
func TestViewersAreShared(t *testing.T) { synctest.Test(t, viewersAreShared) }

func viewersAreShared(t *testing.T) {
	c, token, _ := guarded(t, newFake(), time.Now)
	defer c.Close()
	res, _ := do(c, post("/console/sign-in", url.Values{"token": {token}}))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	live := func(ctx context.Context) int {
		req := httptest.NewRequest(http.MethodGet, "/console/live/overview", nil).WithContext(ctx)
		for _, cookie := range res.Cookies() {
			req.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, req)
		return w.Code
	}
	for range maxViewersOfOne {
		wg.Go(func() { live(ctx) })
	}
	synctest.Wait()
	if n := c.viewers.Held(); n != maxViewersOfOne {
		t.Fatalf("%d live pages are open, want %d", n, maxViewersOfOne)
	}
	short, stop := context.WithTimeout(t.Context(), 2*time.Second)
	defer stop()
	if code := live(short); code != http.StatusServiceUnavailable {
		t.Errorf("one page more than one may have: %d", code)
	}
}

// TestFromOtherSites checks that a page of another site cannot make a change.
func TestFromOtherSites(t *testing.T) {
	c := New(Deps{Conn: newFake()})
	req := post("/console/sign-out", nil)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if res, _ := do(c, req); res.StatusCode != http.StatusForbidden {
		t.Errorf("%d", res.StatusCode)
	}
}

// TestLines checks the line diff and the context that it keeps.
func TestLines(t *testing.T) {
	for _, tc := range []struct{ before, after, want string }{
		{"a\nb\nc\n", "a\nx\nc\n", " a|-b|+x| c"},
		{"", "a\n", "+a"},
		{"a\n", "", "-a"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\n4\n5\n6\n7\n9\n", " ...| 5| 6| 7|-8|+9"},
		{"a\nb\n", "a\nb\n", " ..."},
	} {
		var got []string
		for _, l := range Lines(tc.before, tc.after) {
			got = append(got, l.Op+l.Text)
		}
		if s := strings.Join(got, "|"); s != tc.want {
			t.Errorf("%q, %q: %s; want %s", tc.before, tc.after, s, tc.want)
		}
	}
}

// TestChange checks that the first step shows the effect and changes nothing, that the second step
// makes the change once, that errors appear at their fields, and that a failed change may be
// retried.
func TestChange(t *testing.T) {
	f := newFake()
	c := New(Deps{Conn: f, Self: "n1"})
	res, body := do(c, post("/console/nodes/drain", url.Values{"node": {"n1"}}))
	once := regexp.MustCompile(`name="once" value="([0-9a-f]{32})"`).FindStringSubmatch(body)
	if res.StatusCode != http.StatusOK || once == nil || !strings.Contains(body, "hands over its leadership of 1 range,") || f.calls["ChangeNode"] != 0 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	fail := true
	f.answer["ChangeNode"] = func(_ context.Context, req any) (proto.Message, error) {
		if r := req.(*quoratev1.ChangeNodeRequest); r.Node != "n1" || r.Change != quoratev1.NodeChange_NODE_CHANGE_DRAIN {
			t.Errorf("%v", r)
		}
		if fail {
			return nil, status.Error(codes.Unavailable, "no leader just now")
		}
		return &quoratev1.ChangeNodeResponse{Moves: 3}, nil
	}
	form := url.Values{"node": {"n1"}, "once": {once[1]}}
	if res, body := do(c, post("/console/nodes/drain", form)); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "no leader just now") || !strings.Contains(body, once[1]) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	fail = false
	for range 3 {
		if res, body := do(c, post("/console/nodes/drain", form)); res.StatusCode != http.StatusOK || !strings.Contains(body, "n1 is draining") {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}
	if f.calls["ChangeNode"] != 2 {
		t.Errorf("made %d times", f.calls["ChangeNode"])
	}
	res, body = do(c, post("/console/nodes/join-token", url.Values{"ttl": {evil}, "uses": {"1"}, "once": {"a"}}))
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(body, "must be a duration") || !strings.Contains(body, `aria-invalid="true"`) || strings.Contains(body, evil) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestOnceAfterFailure checks that a change that failed and then succeeded is remembered as long as others.
func TestOnceAfterFailure(t *testing.T) {
	var o onceStore
	o.begin("a")
	o.end("a", nil)
	o.begin("a")
	o.end("a", &Result{})
	for i := range maxOnce - 1 {
		o.begin(strconv.Itoa(i))
	}
	if first, was := o.begin("a"); first || was == nil {
		t.Error("the change can be made twice")
	}
	if len(o.order) != len(o.done) {
		t.Errorf("%d entries in the order of %d changes", len(o.order), len(o.done))
	}
}

// TestOnceIsBounded checks that the oldest changes are forgotten, and that no secret of a change is
// kept.
func TestOnceIsBounded(t *testing.T) {
	var o onceStore
	for i := range maxOnce + 5 {
		o.begin(strings.Repeat("x", 1+i))
	}
	if len(o.done) != maxOnce || len(o.order) != maxOnce {
		t.Errorf("%d, %d", len(o.done), len(o.order))
	}
	o.begin("a")
	if first, was := o.begin("a"); first || was != nil {
		t.Error("under way")
	}
	o.end("a", &Result{Secret: "s"})
	if first, was := o.begin("a"); first || was == nil || was.Secret != "" {
		t.Errorf("%v %+v", first, was)
	}
}

// TestAuditPage checks what the page asks of the cluster's audit logs, that it shows entries escaped
// and in pages, and which nodes are missing.
func TestAuditPage(t *testing.T) {
	f := newFake()
	var asked *quoratev1.ListAuditEntriesRequest
	f.answer["ListAuditEntries"] = func(_ context.Context, req any) (proto.Message, error) {
		asked = req.(*quoratev1.ListAuditEntriesRequest)
		return &quoratev1.ListAuditEntriesResponse{
			Entries: []*quoratev1.AuditEntry{
				{Node: "n2", Identity: "user:ann", Method: "/quorate.v1.KeyService/ResetKey", Result: "ok", What: evil},
				{Node: "n1", Identity: evil, Method: "m", Result: "denied", Detail: evil},
				{
					Node: "n1", Identity: "token:boss", Method: "/quorate.v1.SecurityService/SetBinding", Result: "ok", Unwritten: 1,
					What: `binding={identity="group:on-call" role="operator" scope="*"}`, Answer: "changed=true",
				},
			},
			NextPageToken: "n1=3 n2=4", MissingNodes: []*quoratev1.MissingNode{{Node: "n3", Reason: "it does not answer"}},
		}, nil
	}
	c := New(Deps{Conn: f, Self: "n1"})
	_, body := get(c, "/console/audit?who=ANN&result=ok&node=n2&method=reset+a&text=x")
	for _, want := range []string{"reset a key", "tried to call m", "KeyService/ResetKey", "nodes#node-n2", "Entries of", "It does not answer.", "3 entries", "<b>token:boss</b></a> granted operator to group:on-call, everywhere<div class=\"dim\">1 denied attempt before this not written</div><details class=\"dim\"><summary>Call</summary><div>SecurityService/SetBinding</div>", "<div>Answer: changed: true</div></details>", `from=n1%3D3&#43;n2%3D4&amp;`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	if strings.Contains(body, evil) || strings.Contains(body, `rel="prev"`) {
		t.Error(body)
	}
	if asked.Node != "n2" || asked.Identity != "ANN" || asked.Result != "ok" || asked.Text != "x" || !slices.Contains(asked.Methods, "KeyService/ResetKey") || asked.PageToken != "" {
		t.Errorf("asked for %v", asked)
	}
	if _, body := get(c, "/console/audit?from=n1%3D3+n2%3D4"); asked.PageToken != "n1=3 n2=4" || !strings.Contains(body, `rel="prev"`) {
		t.Errorf("asked for %v\n%s", asked, body)
	}
}

// TestManyTokens checks that long lists are split into pages.
func TestManyTokens(t *testing.T) {
	f := newFake()
	f.answer["WhoAmI"] = func(context.Context, any) (proto.Message, error) {
		return &quoratev1.WhoAmIResponse{Identity: evil}, nil
	}
	f.answer["ListTokens"] = func(context.Context, any) (proto.Message, error) {
		out := &quoratev1.ListTokensResponse{}
		for range 10_000 {
			out.Tokens = append(out.Tokens, &quoratev1.BearerToken{Id: "id", Name: evil})
		}
		return out, nil
	}
	c := New(Deps{Conn: f})
	for page, want := range map[string]string{"0": "1 to 100 of 10000", "99": "9901 to 10000 of 10000", "4000": "9901 to 10000 of 10000", "-3": "1 to 100 of 10000", "x": "1 to 100 of 10000"} {
		res, body := get(c, "/console/access?tokens="+page)
		if res.StatusCode != http.StatusOK || !strings.Contains(body, want) || strings.Count(body, "<code>id</code>") != 100 || strings.Contains(body, evil) {
			t.Errorf("%s: %d, %d rows", page, res.StatusCode, strings.Count(body, "<code>id</code>"))
		}
	}
}

// TestBeyond checks that a limit counts as beyond its bound only if the excess is larger than the
// possible measurement error.
func TestBeyond(t *testing.T) {
	for text, want := range map[string]float64{"10/s": 10, "6/m": .1, "2.5/s": 2.5, "100/10s": 10, "24/1d": 1. / 3600, "48/2d": 1. / 3600, "": 0, "x/s": 0, "1/x": 0, "5/0s": 0} {
		if got := rateOf(text); got != want {
			t.Errorf("%q: %g; want %g", text, got, want)
		}
	}
	e := &quoratev1.LimitError{Namespace: "web", Limit: "login", WorstExcess: 3, Bound: 1, LongestGap: durationpb.New(2 * time.Second)}
	for rate, want := range map[string]bool{"": true, "0.4/s": true, "0.5/s": false} {
		b := boundOf([]*quoratev1.LimitError{e}, []*quoratev1.Limit{{Namespace: "web", Name: "login", Rate: rate}})
		if got := len(b.Beyond) == 1; got != want || b.Worst[0].Beyond != want {
			t.Errorf("%q: beyond %v; want %v", rate, got, want)
		}
	}
}
