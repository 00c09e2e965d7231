package gate

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/internal/quota"
)

// TestFit checks that for any method and path the limiter accepts the request or calls it faulty.
func TestFit(t *testing.T) {
	for _, tc := range []struct{ method, path, wantMethod, wantPath, err string }{
		{"GET", "/a", "GET", "/a", ""},
		{"", "/a", "GET", "/a", ""},
		{"OPTIONS", "*", "OPTIONS", "/*", ""},
		{"CONNECT", "", "CONNECT", "/", ""},
		{"G\xff", "/\xff\xfe/b", "G?", "/\x7f/b", ""},
		{strings.Repeat("G", 65), "/", "", "", "the method has 65 bytes; at most 64"},
		{"GET", strings.Repeat("a", MaxPath), "", "", "the path has 8192 bytes; less than 8192"},
		{"GET", strings.Repeat("a", MaxPath-1), "GET", "/" + strings.Repeat("a", MaxPath-1), ""},
	} {
		m, p, err := fit(tc.method, tc.path)
		if m != tc.wantMethod || p != tc.wantPath || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%q %.20q: %q, %.20q, %v", tc.method, tc.path, m, p, err)
		}
	}
}

// TestFitKeepsMatching checks that a path with a "?" in it, which arrives as %3F, matches the patterns that it
// would match with any other character: it begins no query.
func TestFitKeepsMatching(t *testing.T) {
	for _, tc := range []struct{ pattern, escaped string }{
		{"/search/*", "/search/%3Fq"},
		{"/search/*", "/search/%3F"},
		{"/files/*/zip", "/files/%3F/zip"},
		{"/files/*/zip", "/files/%FF/zip"},
		{"/files/a*/zip", "/files/a%ff%3F/zip"},
	} {
		u, err := url.Parse(tc.escaped)
		if err != nil {
			t.Fatal(err)
		}
		method, path, err := fit("GET", u.Path)
		if m := (&quota.Match{Path: tc.pattern}); err != nil || !m.Matches(method, path) {
			t.Errorf("%s does not match %s as %q, %v", tc.escaped, tc.pattern, path, err)
		}
	}
}

// FuzzFit checks that whatever fit returns is valid for the limiter.
func FuzzFit(f *testing.F) {
	f.Add("GET", "/a")
	f.Add("\xff", "*\xff")
	f.Fuzz(func(t *testing.T, method, path string) {
		m, p, err := fit(method, path)
		if err == nil && (m == "" || len(m) > MaxMethod || p[0] != '/' || len(p) > MaxPath || !utf8.ValidString(m) || !utf8.ValidString(p)) {
			t.Errorf("%q %q: %q %q", method, path, m, p)
		}
	})
}

// TestTurn checks how long a caller waits for its turn, and when it gives up.
func TestTurn(t *testing.T) {
	refused := func(d time.Duration) client.Result { return client.Result{RetryAfter: d} }
	for _, tc := range []struct {
		name    string
		answers []client.Result
		most    time.Duration
		want    Outcome
		took    time.Duration
	}{
		{"at once", []client.Result{{Allowed: true}}, 0, Pass, 0},
		{"never", []client.Result{refused(client.Never)}, time.Hour, Refuse, 0},
		{"after two", []client.Result{refused(time.Second), refused(2 * time.Second), {Allowed: true}}, 3 * time.Second, Pass, 3 * time.Second},
		{"one too many", []client.Result{refused(time.Second), refused(2 * time.Second)}, 2900 * time.Millisecond, Refuse, time.Second},
		{"no loop", []client.Result{refused(0), {Allowed: true}}, time.Second, Pass, time.Millisecond},
		{"gone", []client.Result{refused(time.Minute)}, time.Hour, Drop, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			start, answers := time.Now(), tc.answers
			_, got, err := Turn(ctx, tc.most, func() (client.Result, Outcome, error) {
				r := answers[0]
				answers = answers[1:]
				if r.Allowed {
					return r, Pass, nil
				}
				return r, Refuse, nil
			})
			if took := time.Since(start); got != tc.want || took != tc.took || len(answers) != 0 || (got == Drop) != errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v after %v, %v", tc.name, got, took, err)
			}
		})
	}
}

// late is a limiter that decides when the caller has left, as a client does by its own limits.
type late struct {
	client.Limiter
	leave context.CancelFunc
}

func (l late) Allow(context.Context, string, string, string, int64) (client.Result, error) {
	l.leave()
	return client.Result{Allowed: true, Mode: client.ModeFallback}, nil
}

// TestCallerLeaves checks that a request does not pass whose caller has left when it is decided.
func TestCallerLeaves(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	g := Gate{Limiter: late{leave: leave}, Namespace: "web", Limit: "l", Key: extract.Constant("k")}
	if err := g.Validate(false); err != nil {
		t.Fatal(err)
	}
	if _, got, err := g.Ask(extract.Request{Call: &extract.Call{Context: ctx}}, "", ""); got != Drop || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
}

// waits is a limiter that makes callers wait for tokens to come.
type waits struct {
	client.Limiter
	taken int64
}

func (w *waits) Allow(_ context.Context, _, _, _ string, cost int64) (client.Result, error) {
	w.taken += cost
	return client.Result{Allowed: true, Wait: time.Minute}, nil
}

func (w *waits) Refund(ctx context.Context, namespace, limit, key string, tokens int64) error {
	if namespace == "web" && limit == "l" && key == "k" && ctx.Err() == nil {
		w.taken -= tokens
	}
	return nil
}

// TestCallerLeavesWhileItWaits checks that the tokens to come of a caller that leaves are given back, and
// that those of a caller that stays are not.
func TestCallerLeavesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &waits{}
		g := Gate{Limiter: l, Namespace: "web", Limit: "l", Key: extract.Constant("k"), Cost: func(extract.Request) (int64, error) { return 3, nil }}
		if err := g.Validate(false); err != nil {
			t.Fatal(err)
		}
		for most, want := range map[time.Duration]Outcome{time.Second: Drop, time.Hour: Pass} {
			l.taken = 0
			ctx, cancel := context.WithTimeout(t.Context(), most)
			_, got, err := g.Ask(extract.Request{Call: &extract.Call{Context: ctx}}, "", "")
			cancel()
			if got != want || want == Drop && l.taken != 0 || want == Pass && l.taken != 3 {
				t.Errorf("after at most %v: %v, %v, %d taken", most, got, err, l.taken)
			}
		}
	})
}

// lateContext is a context whose deadline passes before it ends, as on a busy machine.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now(), true }

// TestDeadlineDoesNotPass checks that a request without a decision passes, unless its deadline has passed: also
// where its context does not say so yet.
func TestDeadlineDoesNotPass(t *testing.T) {
	var g Gate
	if _, got, err := g.failed(t.Context(), client.ErrUnavailable); got != Pass {
		t.Errorf("in time: %v, %v", got, err)
	}
	if _, got, err := g.failed(lateContext{t.Context()}, client.ErrUnavailable); got != Drop || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too late: %v, %v", got, err)
	}
}
