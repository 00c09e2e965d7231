package console

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/internal/phrase"
)

// Problem is an error for the reader of a page.
type Problem struct {
	Status int    // HTTP status
	Title  string // a few words
	Detail string // what is wrong, and what would be right
	Field  string // field of the form, if any
	Advice string // what to do
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

var problems = map[codes.Code]Problem{
	codes.InvalidArgument:    {Status: http.StatusBadRequest, Title: "Invalid value"},
	codes.NotFound:           {Status: http.StatusNotFound, Title: "Not found"},
	codes.AlreadyExists:      {Status: http.StatusConflict, Title: "Already exists"},
	codes.Aborted:            {Status: http.StatusConflict, Title: "Changed by someone else", Advice: "Reload the page, review the change, and try again."},
	codes.FailedPrecondition: {Status: http.StatusConflict, Title: "Not possible now"},
	codes.PermissionDenied:   {Status: http.StatusForbidden, Title: "Permission denied", Advice: "Callers with the role admin can grant it: quorate roles bind."},
	codes.Unauthenticated:    {Status: http.StatusUnauthorized, Title: "Not signed in"},
	codes.ResourceExhausted:  {Status: http.StatusServiceUnavailable, Title: "Overloaded"},
	codes.Unavailable:        {Status: http.StatusServiceUnavailable, Title: "No leader answers", Advice: "Elections take about a second; then reload the page."},
	codes.DeadlineExceeded:   {Status: http.StatusGatewayTimeout, Title: "Timed out"},
	codes.Canceled:           {Status: http.StatusGatewayTimeout, Title: "Cancelled"},
	codes.Unimplemented:      {Status: http.StatusNotImplemented, Title: "Not supported by this node"},
}

// problemOf converts an error, nil to nil.
func problemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = status.FromContextError(context.DeadlineExceeded).Err()
	}
	st := status.Convert(err)
	p, ok := problems[st.Code()]
	if !ok {
		p = Problem{Status: http.StatusInternalServerError, Title: "Something went wrong"}
	}
	p.Detail = st.Message()
	for _, d := range st.Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) > 0 {
			p.Field = bad.GetFieldViolations()[0].GetField()
		}
	}
	return &p
}

// unread returns the problem of a form that could not be read: large, unless the node has no room for it.
func unread(err error, large string) *Problem {
	if _, ok := status.FromError(err); ok {
		return problemOf(err)
	}
	return &Problem{Status: http.StatusRequestEntityTooLarge, Title: "Too large", Detail: large}
}

// failure is the data of the error page.
type failure struct {
	Kind string
	*Problem
}

// fail answers with an error, as a page or a part of one.
func (c *Console) fail(w http.ResponseWriter, r *Request, err error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError {
		c.Logger.Warn("cannot show a page of the console", "path", phrase.Clip(r.URL.Path, 200), "status", p.Status, "err", err)
	}
	data := failure{"failure", p}
	if r.fragment() {
		c.render(w, p.Status, c.plain.set, "failure", data)
		return
	}
	bare := r.page == nil
	shown := &Request{Request: r.Request, Caller: r.Caller, c: c, signed: r.signed, page: c.plain}
	v := c.viewOf(shown)
	v.Bare, v.Data = bare, data
	c.render(w, p.Status, c.plain.set, "layout", v)
}
