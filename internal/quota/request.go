package quota

import (
	"errors"
	"time"
)

// Request is one limit of a call.
type Request struct {
	Key  Key
	Cost int64 // tokens; 0 asks without charging
	// MaxWait is the longest wait that the caller accepts. It can only shorten the limit's own;
	// below 0 means the limit's own.
	MaxWait time.Duration
	// NeedsBucket refuses the request if max_keys leaves no room for the key, even under soft.
	NeedsBucket bool
}

// Call is requests that must all pass: if one is refused, none is charged. A call without requests passes.
type Call struct {
	Requests []Request
	Out      []Decision // as long as Requests; decisions after the first refusal are zero
	Refund   bool       // the call has one request, and gives its cost back
	Allowed  bool
}

// MaxRequests bounds the checks of one call that is decided all or nothing. A check by HTTP method and
// path charges all limits that match, which the limits bound, not the caller.
const MaxRequests = 16

// LimitsWait is the Request.MaxWait that leaves the wait to the limit.
const LimitsWait time.Duration = -1

// Errors of reservations.
var (
	// ErrNoReservation reports an unknown handle: the reservation was settled, has expired, or its
	// node is gone.
	ErrNoReservation = errors.New("unknown reservation: it was settled, it expired, or the node that made it is gone")
	// ErrTooManyReservations reports that the node has as many open reservations as it may have.
	ErrTooManyReservations = errors.New("too many reservations are open on this node")
)

// Reservation is a handle to reserved tokens, or to an acquisition of a concurrency limit.
type Reservation struct {
	Handle  string        // opaque, at most 128 bytes of letters, digits, . _ -
	Expires time.Duration // from now, unless renewed
}
