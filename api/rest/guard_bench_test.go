package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/rbac"
)

// BenchmarkGuard measures the cost of authentication by a bearer token for a check: through all of
// gRPC on a pipe, and through the HTTP handler alone.
func BenchmarkGuard(b *testing.B) {
	for _, mode := range []string{"off", "on"} {
		s := newSecured(b, map[string]rbac.Binding{"ci": {Role: "checker", Scope: rbac.Namespace("web")}})
		s.Node.With(b, "web/per_client 1000000000/s 900000000")
		if mode == "off" {
			s.opts.Guard = nil
		}
		b.Run("grpc/"+mode, func(b *testing.B) {
			c := quoratev1.NewQuotaServiceClient(s.dial(b))
			ctx := s.as(context.Background(), "ci")
			req := &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k"}
			for b.Loop() {
				if _, err := c.Allow(ctx, req); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("http/"+mode, func(b *testing.B) {
			h := s.handler()
			body := []byte(`{"namespace":"web","limit":"per_client","key":"k"}`)
			reader := bytes.NewReader(body)
			req := httptest.NewRequest(http.MethodPost, "/v1/allow", nil)
			req.Header.Set("Authorization", "Bearer "+s.tokens["ci"])
			for b.Loop() {
				reader.Reset(body)
				req.Body = io.NopCloser(reader)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, req); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}
