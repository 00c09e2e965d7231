package api

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/internal/missing"
	"github.com/quorate/quorate/internal/quota"
)

// noLimit is the fault of a check whose limit is not there. A node that has just
// joined knows none before the meta group has told it: another node does.
func (s *service) noLimit(n quota.LimitName) *fault {
	limits := s.node.Limits()
	if limits == nil || limits.Version == 0 {
		if st := s.node.Status(); !st.GetReady() {
			return &fault{
				code: codes.Unavailable, http: http.StatusServiceUnavailable, reason: "NOT_READY", retry: time.Second,
				detail: "this node knows no limits yet: " + st.GetReason() + "; ask another node, or again in a second",
			}
		}
	}
	return s.noSuchLimit(n)
}

// noSuchLimit is the fault of a call about a limit that is not there. Where callers are known it names no other
// namespaces: who may ask in this one may not be told of those.
func (s *service) noSuchLimit(n quota.LimitName) *fault {
	explain := missing.Explain
	if s.guard != nil {
		explain = missing.Within
	}
	return &fault{
		code: codes.NotFound, http: http.StatusNotFound, reason: "NO_SUCH_LIMIT", field: "limit",
		detail: explain(n, s.node.Limits()), meta: map[string]string{"namespace": n.Namespace, "limit": n.Limit},
	}
}
