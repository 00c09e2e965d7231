package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/client"
)

// TestFit checks that for any method and path the limiter accepts the request or calls it faulty.
func TestFit(t *testing.T) {
	for _, tc := range []struct{ method, path, wantMethod, wantPath, err string }{
		{"GET", "/a", "GET", "/a", ""},
		{"", "/a", "GET", "/a", ""},
		{"OPTIONS", "*", "OPTIONS", "/*", ""},
		{"CONNECT", "", "CONNECT", "/", ""},
		{"G\xff", "/\xff\xfe/b", "G?", "/?/b", ""},
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
