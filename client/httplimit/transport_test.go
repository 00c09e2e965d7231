package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/extract"
	"github.com/quorate/quorate/client/httplimit"
)

// answers is a server in the form of a RoundTripper.
type answers func(*http.Request) *http.Response

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

func ok(*http.Request) *http.Response { return answer(200) }

func answer(status int, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

var out = httplimit.Limit("out", "to_shop")

// body records that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// send makes a separate request and returns how long it took.
func send(ctx context.Context, t http.RoundTripper, url string) (status int, took time.Duration, err error) {
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	start := time.Now()
	res, err := t.RoundTrip(r)
	if err == nil {
		status = res.StatusCode
	}
	return status, time.Since(start), err
}

// TestTransportWaits checks that a waiting client sends at the rate of the limit.
func TestTransportWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bucket{burst: 2, every: time.Second}
		l := &fake{answer: b.take}
		tr := httplimit.NewTransport(l, answers(ok), out, httplimit.Wait(time.Minute))
		start := time.Now()
		for range 6 {
			if status, _, err := send(t.Context(), tr, "http://shop/x"); status != 200 {
				t.Fatal(err)
			}
		}
		if got := time.Since(start); got != 4*time.Second {
			t.Errorf("six requests took %v, want 4s", got)
		}
		if got := l.last(); got.Key != "shop" || got.Namespace != "out" || got.Path != "to_shop" {
			t.Errorf("asked %+v", got)
		}
	})
}

// TestTransportRefuses checks the error of a request that the transport does not send, and how
// long it waits before.
func TestTransportRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name string
			l    *fake
			opts []httplimit.TransportOption
			took time.Duration
			want string
			is   error
		}{
			{"at once", always(refused(time.Second)), nil, 0, "httplimit: the limit per_client admits more in 1s", httplimit.ErrRefused},
			{"for ever", always(refused(client.Never)), []httplimit.TransportOption{httplimit.Wait(time.Hour)}, 0, "httplimit: the limit per_client does not admit this request", httplimit.ErrRefused},
			{"after a while", always(refused(time.Second)), []httplimit.TransportOption{httplimit.Wait(2500 * time.Millisecond)}, 2 * time.Second, "httplimit: the limit per_client admits more in 1s", httplimit.ErrRefused},
			{"closed", broken(client.ErrUnavailable), []httplimit.TransportOption{httplimit.FailClosed()}, 0, "httplimit: no node answered", client.ErrUnavailable},
			{"no key", &fake{}, []httplimit.TransportOption{httplimit.Key(extract.Header("x")), httplimit.MissingKey(extract.Refuse)}, 0, "httplimit: header X is missing", extract.ErrMissing},
		} {
			tr := httplimit.NewTransport(tc.l, answers(ok), append([]httplimit.TransportOption{out}, tc.opts...)...)
			b := &body{Reader: strings.NewReader("x")}
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop/", b)
			start := time.Now()
			_, err := tr.RoundTrip(r)
			if err == nil || err.Error() != tc.want || !errors.Is(err, tc.is) {
				t.Errorf("%s: %v, want %s", tc.name, err, tc.want)
			}
			if got := time.Since(start); got != tc.took || !b.closed {
				t.Errorf("%s: took %v, body closed: %v", tc.name, got, b.closed)
			}
		}
	})
}

// TestTransportPasses checks that requests pass without a decision unless the transport fails
// closed, and that skipped paths always pass.
func TestTransportPasses(t *testing.T) {
	l := broken(client.ErrUnavailable)
	if status, _, err := send(t.Context(), httplimit.NewTransport(l, answers(ok), out), "http://shop/"); status != 200 {
		t.Errorf("fails open: %v", err)
	}
	tr := httplimit.NewTransport(l, answers(ok), out, httplimit.FailClosed(), httplimit.SkipPaths("/health"))
	if status, _, err := send(t.Context(), tr, "http://shop/health"); status != 200 {
		t.Errorf("skipped: %v", err)
	}
}

// TestTransportContext checks that the request's context ends the wait.
func TestTransportContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := httplimit.NewTransport(always(refused(time.Minute)), answers(ok), out, httplimit.Wait(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, took, err := send(ctx, tr, "http://shop/"); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestHonour checks that a client that a host asks to stay away does so, for that host only, for as
// long as asked, but no longer than its own maximum.
func TestHonour(t *testing.T) {
	const most = time.Minute
	for _, tc := range []struct {
		name   string
		first  *http.Response
		least  time.Duration // until the client sends the next request
		atMost time.Duration
	}{
		{"nothing", answer(200), 0, 0},
		{"retry after", answer(429, "Retry-After", "10", "RateLimit", `"a";r=0;t=20`), 10 * time.Second, 11 * time.Second},
		{"unavailable", answer(503, "Retry-After", "10"), 10 * time.Second, 11 * time.Second},
		{"retry after of others", answer(301, "Retry-After", "10"), 0, 0},
		{"rate limit", answer(200, "RateLimit", `"a";r=0;t=20, "b";r=5;t=40`), 20 * time.Second, 22 * time.Second},
		{"some left", answer(200, "RateLimit", `"a";r=1;t=20`), 0, 0},
		{"malformed", answer(200, "RateLimit", `a;r=0;t="20`), 0, 0},
		{"out of a cache", answer(200, "RateLimit", `"a";r=0;t=20`, "Age", "3"), 0, 0},
		{"not believed", answer(429, "Retry-After", "1000000"), most, most},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				l := &fake{}
				tr := httplimit.NewTransport(l, answers(func(r *http.Request) *http.Response {
					if n++; n == 1 {
						return tc.first
					}
					return answer(200)
				}), out, httplimit.Honour(most), httplimit.Wait(time.Hour))
				send(t.Context(), tr, "http://shop/")
				if _, took, err := send(t.Context(), tr, "http://other/"); took != 0 || err != nil {
					t.Errorf("another host: %v after %v", err, took)
				}
				if _, took, err := send(t.Context(), tr, "http://shop/"); took < tc.least || took > tc.atMost || err != nil {
					t.Errorf("%v after %v; want %v to %v", err, took, tc.least, tc.atMost)
				}
				if l.times() != 3 {
					t.Errorf("asked %d times", l.times())
				}
			})
		})
	}
}

// TestHonourRefuses checks the error for a host that asked the client to stay away, and that such
// a request spends no tokens.
func TestHonourRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fake{}
		tr := httplimit.NewTransport(l, answers(func(*http.Request) *http.Response { return answer(429, "Retry-After", "10") }), out, httplimit.Honour(time.Minute))
		send(t.Context(), tr, "http://shop/")
		var refused *httplimit.RefusedError
		if _, _, err := send(t.Context(), tr, "http://shop/"); !errors.As(err, &refused) || refused.Host != "shop" || refused.RetryAfter < 10*time.Second || !strings.HasPrefix(err.Error(), "httplimit: an answer of shop admits more in 1") {
			t.Errorf("%v", err)
		}
		if l.times() != 1 {
			t.Errorf("asked %d times; want no tokens spent on what is not sent", l.times())
		}
	})
}

// TestHonourIsBounded checks that many hosts do not fill the memory, and that the client remembers
// those that it must still leave alone.
func TestHonourIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := httplimit.NewTransport(&fake{}, answers(func(r *http.Request) *http.Response {
			if r.URL.Path == "/" {
				return answer(429, "Retry-After", "10")
			}
			return answer(200)
		}), out, httplimit.Honour(time.Minute))
		for i := range 3000 {
			send(t.Context(), tr, fmt.Sprintf("http://h%d/", i))
		}
		held := 0
		for i := range 3000 {
			if _, _, err := send(t.Context(), tr, fmt.Sprintf("http://h%d/x", i)); err != nil {
				held++
			}
		}
		if held != 1024 {
			t.Errorf("%d hosts are remembered, want 1024", held)
		}
	})
}

// TestClientAndServer checks that a client that honours the middleware's answers is refused only
// once.
func TestClientAndServer(t *testing.T) {
	b := &bucket{burst: 1, every: 500 * time.Millisecond}
	l := &fake{answer: b.take}
	s := httptest.NewServer(httplimit.New(l, httplimit.Limit("web", "per_client"))(hello))
	defer s.Close()
	c := &http.Client{Transport: httplimit.NewTransport(&fake{}, nil, out, httplimit.Honour(time.Minute))}
	var got []string
	for range 4 {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
		res, err := c.Do(r)
		if err != nil {
			got = append(got, strconv.FormatBool(errors.Is(err, httplimit.ErrRefused)))
			continue
		}
		got = append(got, res.Status[:3])
		res.Body.Close()
	}
	// The first request empties the bucket, and its answer says so.
	if want := "[200 true true true]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
