package api

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

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
	return noSuchLimit(n, limits)
}
