package membership

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrStale says that the membership has changed since the proposer looked:
// decide anew.
var ErrStale = errors.New("the membership has changed meanwhile")

// Error is a refusal that whoever asked should see.
type Error struct {
	Kind Kind
	Text string
}

// Kind is what sort of refusal.
type Kind uint8

// The kinds of refusals.
const (
	Invalid   Kind = iota // the request is wrong
	Denied                // the token does not open the door
	Exists                // there is one already
	Missing               // there is none
	Forbidden             // not in the present state
	Full                  // a bound is reached
	Later                 // not yet: ask again
)

// kindCodes are the gRPC codes of the kinds.
var kindCodes = [...]codes.Code{
	Invalid: codes.InvalidArgument, Denied: codes.PermissionDenied, Exists: codes.AlreadyExists, Missing: codes.NotFound,
	Forbidden: codes.FailedPrecondition, Full: codes.ResourceExhausted, Later: codes.Aborted,
}

// Code is the gRPC code of the kind.
func (k Kind) Code() codes.Code { return kindCodes[k] }

// KindOf is the kind of a gRPC code; Forbidden for one that is of none.
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

// GRPCStatus is how the refusal travels to callers.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Kind.Code(), e.Text) }

func refuse(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}
