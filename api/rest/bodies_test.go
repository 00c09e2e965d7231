package rest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/api/gubernator"
	"github.com/quorate/quorate/internal/console"
	"github.com/quorate/quorate/internal/fairshare"
)

// TestNoRoomForBodies checks that mounted handlers answer 503, as all other calls do, if there is no memory for another
// body: the request is not at fault, and may be sent again.
func TestNoRoomForBodies(t *testing.T) {
	s := newSecured(t, everyRole())
	svc := api.New(s, s.opts)
	s.web.Mount = map[string]http.Handler{
		envoy.JSONPath:               envoy.New(s, envoy.Options{May: api.PermittedTo}).Handler(),
		gubernator.PathGetRateLimits: gubernator.New(nil, gubernator.Options{May: api.PermittedTo}).Handlers()[gubernator.PathGetRateLimits],
		Console:                      console.New(console.Deps{Conn: (*grpc.ClientConn)(nil), Guard: s.opts.Guard, Self: "n1"}),
	}
	h := newRouter(svc, s.web)
	form := httptest.NewRequest(http.MethodPost, "/console/sign-in", strings.NewReader(url.Values{"token": {s.tokens["admin"]}}.Encode()))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	signed := httptest.NewRecorder()
	h.ServeHTTP(signed, form)
	cookies := signed.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("sign-in: %d %s", signed.Code, signed.Body)
	}
	for _, owner := range []string{"token:admin", "address:192.0.2.1"} {
		if h.bodies.callers.TryAcquire(owner, callerBytes) != fairshare.NotFull {
			t.Fatal("the pool is not free")
		}
	}
	for _, path := range []string{"/v1/refund", envoy.JSONPath, gubernator.PathGetRateLimits, "/console/edit/apply", "/console/data/edit/check"} {
		req := httptest.NewRequest(http.MethodPost, path, io.MultiReader(strings.NewReader("{}"))) // of unknown length
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(path, Console) {
			req.AddCookie(cookies[0])
		} else {
			req.Header.Set("Authorization", "Bearer "+s.tokens["admin"])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "this node is reading as many bytes of requests of ") {
			t.Errorf("%s: %d %s; want 503", path, w.Code, w.Body)
		}
	}
}
