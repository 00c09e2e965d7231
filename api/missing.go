package api

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// noLimit returns the error of a check whose limit does not exist. A node that has just joined
// knows no limits until the meta group has sent them; then the error lets the caller try another
// node.
func (s *core) noLimit(n quota.LimitName) *apierr.Error {
	limits := s.node.Limits()
	if limits == nil || limits.Version == 0 {
		if st := s.node.Status(); !st.GetReady() {
			return &apierr.Error{
				Code: codes.Unavailable, HTTP: http.StatusServiceUnavailable, Reason: "NOT_READY", Retry: time.Second,
				Detail: "this node knows no limits yet: " + st.GetReason() + "; ask another node, or again in a second",
			}
		}
	}
	return s.noSuchLimit(n)
}

// noSuchLimit returns the error of a call about a limit that does not exist. With authentication it
// names no other namespaces: a caller with a permission in this one may not learn of them.
func (s *core) noSuchLimit(n quota.LimitName) *apierr.Error {
	explain := suggest.Explain
	if s.Guard != nil {
		explain = suggest.Within
	}
	return &apierr.Error{
		Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_LIMIT", Field: "limit",
		Detail: explain(n, s.node.Limits()), Meta: map[string]string{"namespace": n.Namespace, "limit": n.Limit},
	}
}
