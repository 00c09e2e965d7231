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
	// ErrInvalid: the call is wrong and will be every time; Error.Field says where.
	ErrInvalid = errors.New("invalid call")
	// ErrNoLimit: there is no limit of that name.
	ErrNoLimit = errors.New("no such limit")
	// ErrNoReservation: there is no reservation of that handle: it was settled, it expired, or
	// the node that kept it has died.
	ErrNoReservation = errors.New("no such reservation")
	// ErrUseAcquire: the limit counts what is in flight, so Allow and its like admit nothing:
	// take places with Acquire, and give them back with Cancel.
	ErrUseAcquire = errors.New("the limit counts what is in flight")
	// ErrUnavailable: no node answered in time, or the context had ended before the call.
	ErrUnavailable = errors.New("no node answered")
	// ErrClosed: the client was closed.
	ErrClosed = errors.New("client closed")
	// ErrTooLong: the context ended while waiting for tokens, or ends before there
	// can be any.
	ErrTooLong = errors.New("the wait is too long")
	// ErrNever: the tokens can never be had, however long one waits.
	ErrNever = errors.New("not to be had")
	// ErrTooManyWaiting: as many callers wait as may.
	ErrTooManyWaiting = errors.New("too many wait")
)

// Error is the error of every method here; a refusal is none, but for those that wait.
type Error struct {
	Kind   error  // one of the kinds above
	Node   string // the last node asked, if one was
	Field  string // the field at fault, if one is
	Detail string // what was wrong and what would be right
	cause  error
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

// Unwrap lets errors.Is find the kind, and the context's error where one was
// the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// ended is the error of a call whose context has ended before; nil if it has not.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &Error{Kind: ErrUnavailable, Detail: "the context has ended (" + err.Error() + "); nothing was decided or charged", cause: err}
	}
	return nil
}

// worthAnother says whether another node may answer what this one did not.
func worthAnother(err error) bool {
	c := status.Code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded
}

// countsTwice is the error of a call that may have been carried out, and would count twice if
// another node was asked.
type countsTwice struct{ error }

func (e *countsTwice) Unwrap() error { return e.error }

// once makes a countsTwice of the error of a call that was sent and not answered: an answer of a
// node has details.
func once(err error, sent *peer.Peer) error {
	if err == nil || sent.Addr == nil || !worthAnother(err) || len(status.Convert(err).Details()) > 0 {
		return err
	}
	return &countsTwice{err}
}

func fromError(err error, addr string) *Error {
	st := status.Convert(err)
	e := &Error{Kind: ErrUnavailable, Node: addr, Detail: st.Message(), cause: err}
	switch st.Code() {
	case codes.InvalidArgument:
		e.Kind = ErrInvalid
	case codes.NotFound:
		e.Kind = ErrNoLimit
	case codes.DeadlineExceeded:
		e.cause = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case codes.Canceled:
		e.cause = fmt.Errorf("%w: %w", context.Canceled, err)
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
