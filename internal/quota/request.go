package quota

import (
	"errors"
	"time"
)

// Request is one limit that a call asks for.
type Request struct {
	Key  Key
	Cost int64 // tokens; 0 asks without charging
	// MaxWait is the longest wait that the caller accepts; it can only lower the
	// limit's. Below 0 is the limit's own.
	MaxWait time.Duration
	// NeedsBucket refuses if the limit's max_keys leaves no room for the key, for soft limits too.
	NeedsBucket bool
}

// MaxRequests bounds the limits of one call.
const MaxRequests = 16

// LimitsWait as Request.MaxWait leaves the wait to the limit.
const LimitsWait time.Duration = -1

// Errors of reservations.
var (
	// ErrNoReservation says that a handle is not known: it has been settled, has
	// expired, or the node that made it is gone.
	ErrNoReservation = errors.New("no such reservation: it has been settled or has expired, or the node that made it is gone")
	// ErrTooManyReservations says that the node holds as many as it may.
	ErrTooManyReservations = errors.New("too many reservations are open on this node")
)

// Reservation is a handle of tokens that are set aside, or of what is in flight.
type Reservation struct {
	Handle  string        // opaque, at most 128 bytes of letters, digits, . _ -
	Expires time.Duration // from now, unless renewed
}
