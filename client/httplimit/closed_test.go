package httplimit_test

import (
	"context"
	"net/http"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/httplimit"
)

// noLimits is a node without limits.
type noLimits struct {
	quoratev1.UnimplementedQuotaServiceServer
}

func (noLimits) Allow(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
	return nil, status.Error(codes.NotFound, "limit: web/mistyped does not exist")
}

// TestClientFailsClosed checks that an unknown limit admits nothing if the client or the middleware
// fails closed.
func TestClientFailsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		client []client.Option
		opts   []httplimit.Option
		want   int
	}{
		"neither":        {nil, nil, http.StatusOK},
		"the client":     {[]client.Option{client.WithFailClosed()}, nil, http.StatusServiceUnavailable},
		"the middleware": {nil, []httplimit.Option{httplimit.FailClosed()}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			l := attachTo(t, noLimits{}, c.client...)
			if w := do(l, get("/"), append(c.opts, httplimit.Limit("web", "mistyped"))...); w.Code != c.want {
				t.Errorf("%d, want %d", w.Code, c.want)
			}
		})
	}
}
