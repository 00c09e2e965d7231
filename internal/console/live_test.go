package console

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestLive checks that a part is sent when it has changed, and only then.
func TestLive(t *testing.T) {
	f := newFake()
	c := New(Deps{Conn: f, Self: "n1"})
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(c)
	defer srv.Close()
	defer c.Close()
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/console/live/overview", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%v %v", err, res)
	}
	buf := make([]byte, 64<<10)
	n, _ := io.ReadAtLeast(res.Body, buf, 500)
	if text := string(buf[:n]); !strings.Contains(text, "event: health\ndata: ") || strings.Contains(text, evil) {
		t.Errorf("%s", text)
	}
}

// TestHeadOfLive checks that HEAD answers with the headers of a live page and ends.
func TestHeadOfLive(t *testing.T) {
	c := New(Deps{Conn: newFake(), Self: "n1"})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	rec := httptest.NewRecorder()
	c.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodHead, "/console/live/overview", nil))
	if ctx.Err() != nil || rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/event-stream" || rec.Body.Len() > 0 {
		t.Errorf("%v, %d %v %s", ctx.Err(), rec.Code, rec.Header(), rec.Body)
	}
}

// TestLiveSignedOut checks that an open page learns that its session is over, at once and at its
// next request, instead of hearing that the node does not answer.
func TestLiveSignedOut(t *testing.T) {
	c, token, _ := guarded(t, newFake(), time.Now)
	srv := httptest.NewServer(c)
	defer srv.Close()
	defer c.Close()
	signed, _ := do(c, post("/console/sign-in", url.Values{"token": {token}}))
	cookie := signed.Cookies()[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := func(after string, then func()) {
		t.Helper()
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/console/live/overview", nil)
		req.AddCookie(cookie)
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%s: %v %v", after, err, res)
		}
		defer res.Body.Close()
		then()
		if text, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(text), "event: signed-out\ndata: You are signed out: the session has ended, or its token was revoked. Load the page again to sign in.\n\n") {
			t.Errorf("%s: %v %s", after, err, text)
		}
	}
	told("signed out meanwhile", func() {
		out := post("/console/sign-out", nil)
		out.AddCookie(cookie)
		do(c, out)
	})
	told("again", func() {})
}
