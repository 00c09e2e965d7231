package membership

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrStale means that the membership has changed since the proposer read it. The proposer
// must decide again.
var ErrStale = errors.New("the membership has changed in the meantime")

// staleError is an ErrStale of a change that may change the membership of one revision only.
type staleError struct {
	revision uint64 // of the membership instead
}

func (e *staleError) Error() string { return ErrStale.Error() }

func (e *staleError) Unwrap() error { return ErrStale }

// Error is a refusal to show to the caller.
type Error struct {
	Kind Kind
	Text string
}

// Kind classifies a refusal.
type Kind uint8

// The kinds of refusals.
const (
	Invalid   Kind = iota // the request is invalid
	Denied                // the token or certificate does not admit the node
	Exists                // it exists already
	Missing               // it does not exist
	Forbidden             // the present state does not allow it
	Full                  // a bound is reached
	Later                 // not yet: try again
)

// kindCodes maps kinds to gRPC codes.
var kindCodes = [...]codes.Code{
	Invalid: codes.InvalidArgument, Denied: codes.PermissionDenied, Exists: codes.AlreadyExists, Missing: codes.NotFound,
	Forbidden: codes.FailedPrecondition, Full: codes.ResourceExhausted, Later: codes.Aborted,
}

// Code returns the gRPC code of the kind.
func (k Kind) Code() codes.Code { return kindCodes[k] }

// KindOf returns the kind of a gRPC code; Forbidden for a code without a kind.
func KindOf(c codes.Code) Kind {
	for k, code := range kindCodes {
		if code == c {
			return Kind(k)
		}
	}
	return Forbidden
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// GRPCStatus returns the gRPC status that callers receive.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Kind.Code(), e.Text) }

func refuse(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}
