package api

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// noLimit is the fault of a check whose limit is not there. A node that has just
// joined knows none before the meta group has told it: another node does.
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

// noSuchLimit is the fault of a call about a limit that is not there. Where callers are known it names no other
// namespaces: who may ask in this one may not be told of those.
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
