package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/internal/quota"
)

// errorDomain is the domain of ErrorInfo details.
const errorDomain = "quorate"

// fault is a call that could not be served, on either wire.
type fault struct {
	code   codes.Code
	http   int
	reason string // UPPER_SNAKE, for machines
	field  string // the field at fault, if one is
	detail string // what, why, what to do
	meta   map[string]string
	retry  time.Duration // when to try again; 0 for never or unknown
}

func (f *fault) Error() string {
	if f.field != "" {
		return f.field + ": " + f.detail
	}
	return f.detail
}

// badField is the fault of one field; detail says its value and what is right.
func badField(field, format string, args ...any) *fault {
	return &fault{code: codes.InvalidArgument, http: http.StatusBadRequest, reason: "INVALID_FIELD", field: field, detail: fmt.Sprintf(format, args...)}
}

// badName turns an error of quota.CheckName into a fault of that field.
func badName(field string, err error) *fault {
	return badField(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
}

func tooLarge(limit int64) *fault {
	return &fault{
		code: codes.ResourceExhausted, http: http.StatusRequestEntityTooLarge, reason: "BODY_TOO_LARGE",
		detail: fmt.Sprintf("the body is larger than %d bytes; send less, or in several calls", limit),
	}
}

// fromError maps an error of a Node to a fault.
func fromError(err error) *fault {
	var f *fault
	var conflict *quota.ConflictError
	var unknown *quota.UnknownVersionError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &conflict):
		return &fault{
			code: codes.Aborted, http: http.StatusConflict, reason: "VERSION_CONFLICT", field: "expected_version", detail: err.Error(),
			meta: map[string]string{"expected": strconv.FormatInt(conflict.Expected, 10), "current": strconv.FormatUint(conflict.Current, 10), "by": conflict.By},
		}
	case errors.As(err, &unknown):
		return &fault{code: codes.NotFound, http: http.StatusNotFound, reason: "NO_SUCH_VERSION", field: "version", detail: err.Error()}
	case errors.Is(err, quota.ErrNoReservation):
		return &fault{code: codes.NotFound, http: http.StatusNotFound, reason: "NO_SUCH_RESERVATION", field: "handle", detail: err.Error()}
	case errors.Is(err, quota.ErrTooManyReservations):
		return &fault{
			code: codes.ResourceExhausted, http: http.StatusServiceUnavailable, reason: "TOO_MANY_RESERVATIONS", retry: time.Second,
			detail: err.Error() + "; settle some, or give them a shorter ttl",
		}
	case outcomeUnknown(err):
		return &fault{code: codes.Unknown, http: http.StatusGatewayTimeout, reason: "OUTCOME_UNKNOWN", detail: err.Error()}
	case IsNoLeader(err):
		return &fault{
			code: codes.Unavailable, http: http.StatusServiceUnavailable, reason: "NO_LEADER", retry: time.Second,
			detail: err.Error() + "; decisions go on, repeat this call in a second",
		}
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{code: codes.DeadlineExceeded, http: http.StatusGatewayTimeout, reason: "TOO_SLOW", detail: "the cluster did not answer in time; try again"}
	case errors.Is(err, context.Canceled):
		return &fault{code: codes.Canceled, http: 499, reason: "CANCELED", detail: "the caller went away"}
	case status.Code(err) == codes.FailedPrecondition:
		return &fault{code: codes.FailedPrecondition, http: http.StatusConflict, reason: "NOT_NOW", detail: err.Error()}
	case status.Code(err) == codes.InvalidArgument:
		return &fault{code: codes.InvalidArgument, http: http.StatusBadRequest, reason: "INVALID", detail: err.Error()}
	}
	return &fault{code: codes.Internal, http: http.StatusInternalServerError, reason: "INTERNAL", detail: err.Error()}
}

// outcomeUnknown says of an error that the call may have been carried out, and that a repetition could
// do it twice. Those of accounts have a request id, and are NO_LEADER.
func outcomeUnknown(err error) bool {
	e, ok := asType[interface{ MayBeDone() bool }](err)
	return ok && e.MayBeDone() && !IsNoLeader(err)
}

// status returns the fault as gRPC sends it.
func (f *fault) status() error {
	st := status.New(f.code, f.Error())
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: f.reason, Domain: errorDomain, Metadata: f.meta}}
	if f.field != "" && f.code == codes.InvalidArgument {
		details = append(details, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: f.field, Description: f.detail, Reason: f.reason},
		}})
	}
	if f.retry > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(f.retry)})
	}
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st.Err()
}

// notNow is the fault of a call that makes no sense in the present state.
func notNow(format string, args ...any) *fault {
	return &fault{code: codes.FailedPrecondition, http: http.StatusConflict, reason: "NOT_NOW", detail: fmt.Sprintf(format, args...)}
}
