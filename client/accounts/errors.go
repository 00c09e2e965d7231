package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
)

// Kinds of [Error] besides those of package client, for errors.Is.
var (
	// ErrMismatch reports that the request ID was used for other operations.
	ErrMismatch = errors.New("the request id was used for other operations")
	// ErrContended reports that other operations held the accounts until the call timed out;
	// nothing was applied.
	ErrContended = errors.New("other calls hold the accounts")
	// ErrFull reports that the cluster has reached one of its bounds, or is too busy; nothing was
	// changed.
	ErrFull = errors.New("the cluster is full")
)

// ApplyError reports that operations failed, so that none was applied. The request ID is not used
// up: the same call may be made again.
type ApplyError struct {
	Ops     []*quoratev1.Op
	Results []*quoratev1.OpResult // one for each operation
}

// Error describes the failed operations, at most three.
func (e *ApplyError) Error() string {
	const most = 3
	var parts []string
	failed := 0
	for i, r := range e.Results {
		if r.GetStatus() == quoratev1.OpStatus_OP_STATUS_SUCCESS {
			continue
		}
		if failed++; failed <= most {
			parts = append(parts, e.describe(i, r))
		}
	}
	if failed > most {
		parts = append(parts, fmt.Sprintf("and %d more", failed-most))
	}
	return fmt.Sprintf("quorate: nothing was applied: %d of %d operations failed: %s", failed, len(e.Results), strings.Join(parts, "; "))
}

func (e *ApplyError) describe(i int, r *quoratev1.OpResult) string {
	s := fmt.Sprintf("ops[%d]", i)
	if i < len(e.Ops) {
		id := e.Ops[i].GetAccountId()
		s += fmt.Sprintf(" (account %q of %q in %s)", id.GetName(), id.GetResourceType(), id.GetRealm())
	}
	s += ": " + strings.TrimPrefix(r.GetStatus().String(), "OP_STATUS_ERR_")
	if msg := r.GetStatusMsg(); msg != "" {
		s += ": " + msg
	}
	return s
}

// Failed reports whether any operation failed with the status.
func (e *ApplyError) Failed(s quoratev1.OpStatus) bool {
	for _, r := range e.Results {
		if r.GetStatus() == s {
			return true
		}
	}
	return false
}

// Error is the type of all errors except [ApplyError]. Its kind is client.ErrInvalid,
// client.ErrUnavailable, client.ErrClosed, ErrMismatch, ErrContended or ErrFull; its cause is the
// context's error, the node's status for status.Code, or both.
type Error = client.Error

func invalid(field, format string, args ...any) *Error {
	return &Error{Kind: client.ErrInvalid, Field: field, Detail: field + ": " + fmt.Sprintf(format, args...)}
}

func fromError(ctx context.Context, err error, conn *grpc.ClientConn) *Error {
	st := status.Convert(err)
	e := &Error{Kind: client.ErrUnavailable, Node: conn.Target(), Detail: st.Message(), Cause: err}
	switch st.Code() {
	case codes.InvalidArgument, codes.Unimplemented, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound, codes.OutOfRange:
		e.Kind = client.ErrInvalid
	case codes.AlreadyExists:
		e.Kind = ErrMismatch
	case codes.Aborted:
		e.Kind = ErrContended
	case codes.ResourceExhausted:
		e.Kind = ErrFull
	}
	if ended := ctx.Err(); ended != nil {
		e.Cause = fmt.Errorf("%w: %w", ended, err)
	}
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.FieldViolations) > 0 {
			e.Field = bad.FieldViolations[0].GetField()
		}
	}
	return e
}
