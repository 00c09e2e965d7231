package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/httplimit"
)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// do sends one request through the middleware.
func do(l client.Limiter, r *http.Request, opts ...httplimit.Option) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	httplimit.New(l, append([]httplimit.Option{httplimit.Limit("web", "per_client")}, opts...)...)(hello).ServeHTTP(w, r)
	return w
}

func get(target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// TestAnswers checks the response to each result.
func TestAnswers(t *testing.T) {
	shadow := client.Result{Allowed: true, Shadow: true, Limit: client.Limit{Name: "new_limit"}}
	gone := errors.New("no node answered")
	for _, tc := range []struct {
		name    string
		l       *fake
		r       *http.Request
		opts    []httplimit.Option
		status  int
		header  map[string]string // "" means absent
		problem string
	}{
		{"passes", always(passed(19)), get("/"), nil, 200, map[string]string{"RateLimit": `"per_client";r=19;t=1`, "RateLimit-Policy": `"per_client";q=20;w=2`, "Retry-After": "", "X-RateLimit-Limit": ""}, ""},
		{"refused", always(refused(1500 * time.Millisecond)), get("/"), nil, 429, map[string]string{"RateLimit": `"per_client";r=0;t=2`, "RateLimit-Policy": `"per_client";q=20;w=2`, "Retry-After": "2"}, "the limit per_client is used up; try again in 2 seconds"},
		{"refused for ever", always(refused(client.Never)), get("/"), nil, 429, map[string]string{"RateLimit": `"per_client";r=0`, "Retry-After": ""}, "the limit per_client never admits this request, however long the caller waits"},
		{"legacy", always(passed(5)), get("/"), []httplimit.Option{httplimit.Headers(httplimit.XRateLimit)}, 200, map[string]string{"RateLimit": "", "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "5", "X-RateLimit-Reset": "2"}, ""},
		{"both", always(passed(5)), get("/"), []httplimit.Option{httplimit.Headers(httplimit.XRateLimit | httplimit.IETF)}, 200, map[string]string{"RateLimit": `"per_client";r=5;t=1`, "X-RateLimit-Limit": "20"}, ""},
		{"no fields", always(refused(time.Second)), get("/"), []httplimit.Option{httplimit.Headers(0)}, 429, map[string]string{"RateLimit": "", "RateLimit-Policy": "", "Retry-After": "1"}, "the limit per_client is used up; try again in 1 second"},
		{"nothing matches", always(client.Result{Allowed: true, Why: client.WhyNoLimit}), get("/"), []httplimit.Option{httplimit.Rules("")}, 200, map[string]string{"RateLimit": "", "RateLimit-Policy": ""}, ""},
		{"shadow", always(shadow), get("/"), nil, 200, map[string]string{"RateLimit": ""}, ""},
		{"shadow, told", always(shadow), get("/"), []httplimit.Option{httplimit.ShadowHeader("quorate-shadow")}, 200, map[string]string{"Quorate-Shadow": "new_limit"}, ""},
		{"fails open", broken(gone), get("/"), nil, 200, map[string]string{"RateLimit": ""}, ""},
		{"fails closed", broken(gone), get("/"), []httplimit.Option{httplimit.FailClosed()}, 503, map[string]string{"Retry-After": "1"}, "the rate limiter has no answer"},
		{"no key, shared", always(passed(3)), get("/"), []httplimit.Option{httplimit.Key(extract.Header("X-Key"))}, 200, nil, ""},
		{"no key, refused", always(passed(3)), get("/"), []httplimit.Option{httplimit.Key(extract.Header("X-Key")), httplimit.MissingKey(extract.Refuse)}, 400, map[string]string{"Retry-After": ""}, "header X-Key is missing"},
		{"bad cost", always(passed(3)), get("/", "X-Cost", "no"), []httplimit.Option{httplimit.Cost(extract.HeaderCost("X-Cost", 5))}, 400, nil, "header X-Cost must be a number from 1 to 5"},
		{"long path", always(passed(3)), get("/" + strings.Repeat("a", 9000)), []httplimit.Option{httplimit.Rules("")}, 400, nil, "the path has 9001 bytes; less than 8192"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := do(tc.l, tc.r, tc.opts...)
			if w.Code != tc.status {
				t.Errorf("status %d, want %d", w.Code, tc.status)
			}
			for name, want := range tc.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			for _, name := range []string{"RateLimit", "RateLimit-Policy"} {
				if _, err := httpsfv.UnmarshalList(w.Header().Values(name)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if tc.problem == "" {
				if w.Body.String() != "hello" {
					t.Errorf("body %q", w.Body)
				}
				return
			}
			checkProblem(t, w, tc.status, tc.problem)
		})
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, status int, detail string) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
		Violated            []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%q is no problem: %v (%s)", w.Body, err, w.Header().Get("Content-Type"))
	}
	if p.Detail != detail || p.Status != status || p.Title == "" {
		t.Errorf("got %+v, want detail %q", p, detail)
	}
	wantType, violated := "about:blank", 0
	if status == http.StatusTooManyRequests {
		wantType, violated = httplimit.QuotaExceeded, 1
	}
	if p.Type != wantType || len(p.Violated) != violated {
		t.Errorf("got %+v, want type %s", p, wantType)
	}
}

// TestAsked checks what the middleware asks the limiter.
func TestAsked(t *testing.T) {
	tenant := httplimit.Key(extract.Header("X-Tenant"))
	for _, tc := range []struct {
		name string
		r    *http.Request
		opts []httplimit.Option
		want client.HTTPCheck
	}{
		{"limit", get("/a"), nil, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "192.0.2.1", Cost: 1}},
		{"header", get("/a", "X-Tenant", "acme"), []httplimit.Option{tenant}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "acme", Cost: 1}},
		{"no header", get("/a"), []httplimit.Option{tenant}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "*", Cost: 1}},
		{"no header, skipped", get("/a"), []httplimit.Option{tenant, httplimit.MissingKey(extract.Skip)}, client.HTTPCheck{}},
		{"bytes", get("/a", "X-Tenant", "\xff"), []httplimit.Option{tenant}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: extract.Bound("\xff"), Cost: 1}},
		{"cost", get("/a", "X-Cost", "5"), []httplimit.Option{httplimit.Cost(extract.HeaderCost("X-Cost", 5))}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "192.0.2.1", Cost: 5}},
		{"rules", get("/v1/%69tems?x=/y"), []httplimit.Option{httplimit.Rules("shop")}, client.HTTPCheck{Namespace: "shop", Method: "GET", Path: "/v1/items", Key: "192.0.2.1", Cost: 1}},
		{"rules, bytes", get("/v1/%ff"), []httplimit.Option{httplimit.Rules("shop")}, client.HTTPCheck{Namespace: "shop", Method: "GET", Path: "/v1/\x7f", Key: "192.0.2.1", Cost: 1}},
		{"proxy", get("/a", "X-Forwarded-For", "6.6.6.6, 203.0.113.7"), []httplimit.Option{httplimit.Key(extract.RemoteIP(extract.Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}))}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "203.0.113.7", Cost: 1}},
		{"skipped method", get("/a"), []httplimit.Option{httplimit.SkipMethods("HEAD", "GET")}, client.HTTPCheck{}},
		{"other method", get("/a"), []httplimit.Option{httplimit.SkipMethods("HEAD", "OPTIONS")}, client.HTTPCheck{Namespace: "web", Path: "per_client", Key: "192.0.2.1", Cost: 1}},
		{"skipped path", get("/healthz?x"), []httplimit.Option{httplimit.SkipPaths("/healthz", "/readyz")}, client.HTTPCheck{}},
		{"skipped", get("/a", "X-Internal", "1"), []httplimit.Option{httplimit.SkipPaths("/healthz"), httplimit.Skip(func(r *http.Request) bool { return r.Header.Get("X-Internal") != "" })}, client.HTTPCheck{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &fake{}
			if w := do(l, tc.r, tc.opts...); w.Code != http.StatusOK {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if got := l.last(); got != tc.want {
				t.Errorf("asked %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestPathValueInsideOfTheMux checks that middleware inside of a ServeMux can use its path values
// as keys.
func TestPathValueInsideOfTheMux(t *testing.T) {
	l := &fake{}
	limited := httplimit.New(l, httplimit.Limit("api", "per_tenant"), httplimit.Key(extract.PathValue("tenant")), httplimit.MissingKey(extract.Refuse))
	mux := http.NewServeMux()
	mux.Handle("GET /tenants/{tenant}/items", limited(hello))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, get("/tenants/acme/items"))
	if w.Code != http.StatusOK || l.last().Key != "acme" {
		t.Errorf("status %d, asked %+v", w.Code, l.last())
	}
}

// TestTwo checks that nested middleware reports both limits.
func TestTwo(t *testing.T) {
	outer, inner := passed(3), passed(7)
	inner.Limit.Name, inner.Policies[0].Name = "per_tenant", "per_tenant"
	opts := []httplimit.Option{httplimit.Limit("a", "b"), httplimit.Headers(httplimit.IETF | httplimit.XRateLimit)}
	w := httptest.NewRecorder()
	httplimit.New(always(outer), opts...)(httplimit.New(always(inner), opts...)(hello)).ServeHTTP(w, get("/"))
	list, err := httpsfv.UnmarshalList(w.Header().Values("RateLimit"))
	if err != nil || len(list) != 2 || len(w.Header().Values("RateLimit-Policy")) != 2 {
		t.Errorf("%v: %v", w.Header(), err)
	}
	if got := w.Header().Get("X-RateLimit-Remaining"); got != "3" {
		t.Errorf("remaining %s; want that of the tighter one", got)
	}
}

// TestOnRefusedAndOnError checks when both callbacks run, and what they receive.
func TestOnRefusedAndOnError(t *testing.T) {
	var seen []string
	note := httplimit.OnRefused(func(w http.ResponseWriter, _ *http.Request, f httplimit.Refusal) {
		seen = append(seen, fmt.Sprint(f.Status, " ", w.Header().Get("Retry-After"), " ", f.Result.Limit.Name, " ", f.Err))
		w.WriteHeader(http.StatusTeapot)
	})
	errs := httplimit.OnError(func(_ context.Context, err error) { seen = append(seen, err.Error()) })
	gone := errors.New("gone")
	if w := do(always(refused(time.Second)), get("/"), note); w.Code != http.StatusTeapot || w.Header().Get("RateLimit") == "" {
		t.Errorf("status %d, %v", w.Code, w.Header())
	}
	do(broken(gone), get("/"), note, errs, httplimit.FailClosed())
	do(broken(gone), get("/"), note, errs)
	do(&fake{}, get("/"), note, httplimit.Key(extract.Header("x")), httplimit.MissingKey(extract.Refuse))
	want := []string{"429 1 per_client <nil>", "gone", "503 1  gone", "gone", "400   header X is missing"}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

// TestDeadContext checks that a request whose context has ended does not reach the handler, even
// where errors let requests pass.
func TestDeadContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w := do(&fake{}, get("/").WithContext(ctx)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// TestReserved checks that a limit that reserves future tokens delays the request, but not beyond
// its lifetime.
func TestReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := passed(0)
		r.Wait = 3 * time.Second
		start := time.Now()
		if w := do(always(r), get("/")); w.Code != http.StatusOK || time.Since(start) != r.Wait {
			t.Errorf("status %d after %v", w.Code, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if w := do(always(r), get("/").WithContext(ctx)); w.Code != http.StatusServiceUnavailable || time.Since(start) != time.Second {
			t.Errorf("status %d after %v", w.Code, time.Since(start))
		}
	})
}

// TestTimeout checks that a limiter that hangs costs only the configured timeout.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := hanging{&fake{}}
		start := time.Now()
		if w := do(l, get("/"), httplimit.Timeout(50*time.Millisecond)); w.Code != http.StatusOK || time.Since(start) != 50*time.Millisecond {
			t.Errorf("status %d after %v", w.Code, time.Since(start))
		}
	})
}

// hanging never answers.
type hanging struct{ *fake }

func (hanging) Allow(ctx context.Context, _, _, _ string, _ int64) (client.Result, error) {
	<-ctx.Done()
	return client.Result{}, ctx.Err()
}

// TestJitter checks that refused callers return at different times, never too early, and that both
// fields agree.
func TestJitter(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		w := do(always(refused(10*time.Second)), get("/"), httplimit.Jitter(5*time.Second))
		retry := w.Header().Get("Retry-After")
		if got, want := w.Header().Get("RateLimit"), `"per_client";r=0;t=`+retry; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
		seen[retry] = true
	}
	for s := 11; s <= 15; s++ {
		if !seen[strconv.Itoa(s)] {
			t.Errorf("never %d seconds: %v", s, seen)
		}
	}
	if delete(seen, "10"); len(seen) != 5 {
		t.Errorf("got %v, want 10 to 15 seconds", seen)
	}
	if w := do(always(refused(client.Never)), get("/"), httplimit.Jitter(5*time.Second)); w.Header().Get("Retry-After") != "" {
		t.Errorf("no waiting helps, but %v", w.Header())
	}
}

// TestMistakes checks that invalid options panic at construction and name the mistake.
func TestMistakes(t *testing.T) {
	for want, f := range map[string]func(){
		"httplimit: New: the limiter is nil; must be a client.Limiter":                                 func() { httplimit.New(nil, httplimit.Limit("a", "b")) },
		"httplimit: New: no limit to check; give Limit(namespace, limit) or Rules(namespace)":          func() { httplimit.New(&fake{}) },
		`httplimit: New: the namespace of the limit "b" is empty`:                                      func() { httplimit.New(&fake{}, httplimit.Limit("", "b")) },
		"httplimit: New: the timeout is -1ns; must be more than 0":                                     func() { httplimit.New(&fake{}, httplimit.Rules(""), httplimit.Timeout(-1)) },
		"httplimit: New: the jitter is 25h0m0s; must be 0 to 24h0m0s":                                  func() { httplimit.New(&fake{}, httplimit.Rules(""), httplimit.Jitter(25*time.Hour)) },
		"httplimit: NewTransport: no limit to check; give Limit(namespace, limit) or Rules(namespace)": func() { httplimit.NewTransport(&fake{}, nil) },
		"httplimit: NewTransport: Wait: -1ns, Honour: 0s; must not be negative":                        func() { httplimit.NewTransport(&fake{}, nil, httplimit.Rules(""), httplimit.Wait(-1)) },
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("got %v, want %s", got, want)
				}
			}()
			f()
		}()
	}
}

// TestServer runs the middleware in a real server. It checks that admitted requests stream both
// ways unchanged, and that refused ones get an answer.
func TestServer(t *testing.T) {
	b := &bucket{burst: 2, every: time.Hour}
	l := &fake{answer: b.take}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		if err := rc.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 4)
		for {
			n, err := io.ReadFull(r.Body, buf)
			w.Write(buf[:n])
			if rc.Flush() != nil || err != nil {
				return
			}
		}
	})
	s := httptest.NewServer(httplimit.New(l, httplimit.Limit("web", "per_client"), httplimit.Key(extract.Header("X-Key")))(echo))
	defer s.Close()
	for i, want := range []int{200, 200, 429} {
		pr, pw := io.Pipe()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, pr)
		r.Header.Set("X-Key", "ann")
		go func() {
			io.WriteString(pw, "ping")
			if want != http.StatusOK {
				pw.Close() // net/http reads on before it answers
			}
		}()
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, res.StatusCode, want)
		}
		list, err := httpsfv.UnmarshalList(res.Header.Values("RateLimit"))
		if err != nil || len(list) != 1 {
			t.Errorf("request %d: RateLimit %v: %v", i, res.Header, err)
		}
		if want == http.StatusOK {
			got := make([]byte, 4)
			if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != "ping" {
				t.Errorf("request %d: %q, %v", i, got, err)
			}
		}
		pw.Close()
		res.Body.Close()
	}
}
