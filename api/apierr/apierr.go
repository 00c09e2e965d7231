// Package apierr defines the error of an API call for all transports: over gRPC a status with
// details (BadRequest, ErrorInfo, RetryInfo), and over HTTP a status with an RFC 9457 problem.
package apierr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/internal/quota"
)

// domain is the domain of ErrorInfo details.
const domain = "quorate"

// Error explains why a call was not served.
type Error struct {
	Code   codes.Code        // over gRPC
	HTTP   int               // status over HTTP
	Reason string            // UPPER_SNAKE, for programs
	Field  string            // the field at fault, if any
	Detail string            // the fault, its cause and its remedy
	Meta   map[string]string // of ErrorInfo
	Retry  time.Duration     // when to try again; 0 for never or unknown
}

// Error returns the field at fault and the detail.
func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Detail
	}
	return e.Detail
}

// GRPCStatus returns the error as gRPC sends it.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.Code, e.Error())
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: e.Reason, Domain: domain, Metadata: e.Meta}}
	if e.Field != "" && e.Code == codes.InvalidArgument {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: e.Field, Description: e.Detail, Reason: e.Reason},
		}})
	}
	if e.Retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.Retry)})
	}
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st
}

// Denied reports whether the caller lacks a permission or a valid credential.
func (e *Error) Denied() bool {
	return e.Code == codes.PermissionDenied || e.Code == codes.Unauthenticated || e.HTTP == http.StatusForbidden || e.HTTP == http.StatusUnauthorized
}

// Invalid returns the error of one field. The detail gives its value and what would be right.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: codes.InvalidArgument, HTTP: http.StatusBadRequest, Reason: "INVALID_FIELD", Field: field, Detail: fmt.Sprintf(format, args...)}
}

// InvalidName converts an error of quota.CheckName into an error of the field.
func InvalidName(field string, err error) *Error {
	return Invalid(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
}

// TooLarge returns the error of a body of more than limit bytes.
func TooLarge(limit int64) *Error {
	return &Error{
		Code: codes.ResourceExhausted, HTTP: http.StatusRequestEntityTooLarge, Reason: "BODY_TOO_LARGE",
		Detail: fmt.Sprintf("the body is larger than %d bytes; send less, or in several calls", limit),
	}
}

// NotNow returns the error of a call that makes no sense in the present state.
func NotNow(format string, args ...any) *Error {
	return &Error{Code: codes.FailedPrecondition, HTTP: http.StatusConflict, Reason: "NOT_NOW", Detail: fmt.Sprintf(format, args...)}
}

// Internal returns the error of a call that failed through no fault of its caller.
func Internal(detail string) *Error {
	return &Error{Code: codes.Internal, HTTP: http.StatusInternalServerError, Reason: "INTERNAL", Detail: detail}
}

// In returns a copy of err, which must not be nil, with its field below a path.
func In(path string, err error) *Error {
	e := *From(err)
	e.Field = Join(path, e.Field)
	return &e
}

// More returns a copy of err, which must not be nil, with text appended to its detail.
func More(err error, text string) *Error {
	e := *From(err)
	e.Detail += text
	return &e
}

// From converts an error of a node to an API error.
func From(err error) *Error {
	var conflict *quota.ConflictError
	var unknown *quota.UnknownVersionError
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	switch {
	case errors.As(err, &conflict):
		return &Error{
			Code: codes.Aborted, HTTP: http.StatusConflict, Reason: "VERSION_CONFLICT", Field: "expected_version", Detail: err.Error(),
			Meta: map[string]string{"expected": strconv.FormatInt(conflict.Expected, 10), "current": strconv.FormatUint(conflict.Current, 10), "by": conflict.By},
		}
	case errors.As(err, &unknown):
		return &Error{Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_VERSION", Field: "version", Detail: err.Error()}
	case errors.Is(err, quota.ErrNoReservation):
		return &Error{Code: codes.NotFound, HTTP: http.StatusNotFound, Reason: "NO_SUCH_RESERVATION", Field: "handle", Detail: err.Error()}
	case errors.Is(err, quota.ErrTooManyReservations):
		return &Error{
			Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MANY_RESERVATIONS", Retry: time.Second,
			Detail: err.Error() + "; settle some, or give them a shorter ttl",
		}
	case outcomeUnknown(err):
		return &Error{Code: codes.Unknown, HTTP: http.StatusGatewayTimeout, Reason: "OUTCOME_UNKNOWN", Detail: err.Error()}
	case IsNoLeader(err):
		return &Error{
			Code: codes.Unavailable, HTTP: http.StatusServiceUnavailable, Reason: "NO_LEADER", Retry: time.Second,
			Detail: err.Error() + "; decisions continue, repeat this call in a second",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: codes.DeadlineExceeded, HTTP: http.StatusGatewayTimeout, Reason: "TOO_SLOW", Detail: "the cluster did not answer in time; try again"}
	case errors.Is(err, context.Canceled):
		return &Error{Code: codes.Canceled, HTTP: 499, Reason: "CANCELED", Detail: "the caller went away"}
	case status.Code(err) == codes.FailedPrecondition:
		return &Error{Code: codes.FailedPrecondition, HTTP: http.StatusConflict, Reason: "NOT_NOW", Detail: err.Error()}
	case status.Code(err) == codes.InvalidArgument:
		return &Error{Code: codes.InvalidArgument, HTTP: http.StatusBadRequest, Reason: "INVALID", Detail: err.Error()}
	}
	return Internal(err.Error())
}

// outcomeUnknown reports whether the call of an error may have been carried out, so that repeating
// it could carry it out twice. Calls on accounts have a request id; their error is NO_LEADER
// instead.
func outcomeUnknown(err error) bool {
	var e interface{ MayBeDone() bool }
	return errors.As(err, &e) && e.MayBeDone() && !IsNoLeader(err)
}

// Clip shortens foreign text for a message, and replaces invalid UTF-8.
func Clip(s string) string {
	const most = 40
	s = string(bytes.ToValidUTF8([]byte(s), []byte("?")))
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// Quoted returns a text in quotes, shortened as by Clip.
func Quoted(s string) string { return `"` + Clip(s) + `"` }

// Join returns the path of a field below a path; either may be empty.
func Join(path, field string) string {
	switch {
	case path == "":
		return field
	case field == "":
		return path
	}
	return path + "." + field
}

// IsNoLeader reports whether err means that a leader is missing at the moment, so that the call is
// worth repeating: err has a method NoLeader() bool that returns true, or carries the gRPC code
// UNAVAILABLE.
func IsNoLeader(err error) bool {
	var e interface{ NoLeader() bool }
	if errors.As(err, &e) {
		return e.NoLeader()
	}
	return err != nil && status.Code(err) == codes.Unavailable
}
