package api

import (
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// APILimit is the limit on the API itself, if it exists. It counts control calls per proven
// identity, else per address, of IPv6 per /64 network. It does not count checks and reports, nor changes of limits, which
// are needed to raise a limit that is too low.
var APILimit = quota.LimitName{Namespace: "quorate", Limit: "api"}

// throttle returns an error if quorate/api refuses a control call.
func (s *Gate) throttle(v *Call) error {
	if !v.Rule.Control || v.Rule.Always {
		return nil
	}
	if _, there := s.node.Limits().Find(APILimit); !there {
		return nil
	}
	key := v.Owner()
	d := s.node.Check(quota.Key{LimitName: APILimit, Key: key}, 1)
	if d.Allowed {
		return nil
	}
	f := &apierr.Error{
		Code: codes.ResourceExhausted, HTTP: http.StatusTooManyRequests, Reason: "TOO_MANY_CALLS",
		Detail: "too many control calls of " + key + ": the limit quorate/api refuses them",
		Meta:   map[string]string{"limit": "quorate/api", "key": key},
	}
	if d.RetryAfter != apiproto.Never && d.RetryAfter > 0 {
		f.Retry = max(d.RetryAfter, time.Millisecond)
	}
	return f
}
