package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// The kinds of [Error], for errors.Is.
var (
	// ErrInvalid reports an invalid call, which fails every time; see Error.Field.
	ErrInvalid = errors.New("invalid call")
	// ErrNoLimit reports an unknown limit.
	ErrNoLimit = errors.New("unknown limit")
	// ErrNoReservation reports an unknown handle: the reservation was settled, has expired, or its
	// node has died.
	ErrNoReservation = errors.New("unknown reservation")
	// ErrUseAcquire reports a check of a concurrency limit, which Allow never admits: take
	// places with Acquire, and give them back with Cancel.
	ErrUseAcquire = errors.New("use Acquire")
	// ErrUnavailable reports that no node answered in time, or that the context had ended before
	// the call.
	ErrUnavailable = errors.New("no node answered")
	// ErrDenied reports that the node refuses the caller, which has no valid credential or lacks a
	// permission. It matches ErrUnavailable too: nothing was decided or booked.
	ErrDenied error = deniedKind{}
	// ErrClosed reports that the client is closed.
	ErrClosed = errors.New("client closed")
	// ErrTooLong reports that the context ended while waiting for tokens, or would end before there
	// can be enough.
	ErrTooLong = errors.New("wait too long")
	// ErrNever reports that the tokens can never be available.
	ErrNever = errors.New("never available")
	// ErrTooManyWaiting reports that the maximum number of callers is waiting.
	ErrTooManyWaiting = errors.New("too many waiting callers")
)

type deniedKind struct{}

func (deniedKind) Error() string { return "permission denied" }

func (deniedKind) Is(target error) bool { return target == ErrUnavailable }

// Error is the type of all errors of this package, and of package accounts except its ApplyError. A
// refusal is an error only of methods that wait.
type Error struct {
	Kind   error  // one of the errors above, or of package accounts
	Node   string // last node asked, if any
	Field  string // invalid field, if any
	Detail string // what is wrong, and what would be right
	Cause  error  // the error of the context, or the status of the node's answer, if any
}

// Error implements error.
func (e *Error) Error() string {
	s := "quorate: " + e.Kind.Error()
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Node != "" {
		s += " (node " + e.Node + ")"
	}
	return s
}

// Unwrap returns the kind, and the cause if there is one.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// usable returns an error if the client is closed or the context has ended.
func (c *Client) usable(ctx context.Context) error {
	if c.closed.Load() {
		return errClosed()
	}
	if err := ctx.Err(); err != nil {
		return &Error{Kind: ErrUnavailable, Detail: "the context has ended (" + err.Error() + "); nothing was decided or charged", Cause: err}
	}
	return nil
}

// worthAnother reports whether another node may answer.
func worthAnother(err error) bool {
	c := status.Code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded
}

// maybeCharged is the error of a call that may have been executed, and would count twice at another
// node.
type maybeCharged struct{ error }

func (e *maybeCharged) Unwrap() error { return e.error }

// markMaybeCharged returns err as a maybeCharged if the call was sent and not answered. The answer of a node has
// details.
func markMaybeCharged(err error, sent *peer.Peer) error {
	if err == nil || sent.Addr == nil || !worthAnother(err) || len(status.Convert(err).Details()) > 0 {
		return err
	}
	return &maybeCharged{err}
}

func fromError(err error, addr string) *Error {
	st := status.Convert(err)
	e := &Error{Kind: ErrUnavailable, Node: addr, Detail: st.Message(), Cause: err}
	switch st.Code() {
	case codes.InvalidArgument:
		e.Kind = ErrInvalid
	case codes.NotFound:
		e.Kind = ErrNoLimit
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Kind = ErrDenied
	case codes.DeadlineExceeded:
		e.Cause = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case codes.Canceled:
		e.Cause = fmt.Errorf("%w: %w", context.Canceled, err)
	}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.BadRequest:
			if len(d.FieldViolations) > 0 {
				e.Field = d.FieldViolations[0].GetField()
			}
		case *errdetails.ErrorInfo:
			if d.Reason == "NO_SUCH_RESERVATION" {
				e.Kind = ErrNoReservation
			}
		}
	}
	return e
}
