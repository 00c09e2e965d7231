package api

import (
	"context"
	"sync/atomic"
	"time"
)

// reauthorizeEvery is the longest time that a call continues after its token was revoked, its
// certificate lost trust or its role was removed.
const reauthorizeEvery = 10 * time.Second

// StillAuthorized returns an error if the caller of a long call may no longer continue it. known is
// the time of the last check; StillAuthorized repeats the check after s.ReauthorizeEvery, and then updates
// known.
func (s *Gate) StillAuthorized(ctx context.Context, known *time.Time) error {
	v := CallOf(ctx)
	if v == nil || v.Guard == nil || time.Since(*known) < s.ReauthorizeEvery {
		return nil
	}
	caller, err := v.Caller, error(nil)
	if v.Identify != nil {
		caller, err = v.Identify(ctx)
	}
	if err == nil {
		err = v.Guard.AuthorizeCall(caller, v.Method)
	}
	if req := v.request(); err == nil && v.Rule.Scopes != nil && req != nil {
		err = v.Guard.AuthorizeRequest(caller, v.Method, req)
	}
	if err != nil {
		return FromAuth(err)
	}
	*known = time.Now()
	return nil
}

// WhileAuthorized returns a context that ends when the caller of a long call may no longer continue it, at most s.ReauthorizeEvery
// later, even if nothing is sent or received. The caller calls stop at the end of the call; it returns the error for
// which the context ended, or nil.
func (s *Gate) WhileAuthorized(ctx context.Context) (_ context.Context, stop func() error) {
	if v := CallOf(ctx); v == nil || v.Guard == nil {
		return ctx, func() error { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var why atomic.Pointer[error]
	every := max(s.ReauthorizeEvery, minReauthorizeEvery)
	var check *time.Timer
	check = time.AfterFunc(time.Hour, func() { // no goroutine waits: a node has thousands of such calls
		err := s.StillAuthorized(ctx, &time.Time{})
		switch {
		case ctx.Err() != nil:
		case err != nil:
			why.Store(&err)
			cancel()
		default:
			check.Reset(every)
		}
	})
	check.Reset(every)
	return ctx, func() error {
		check.Stop()
		cancel()
		if err := why.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// minReauthorizeEvery bounds how often WhileAuthorized checks a caller.
const minReauthorizeEvery = 10 * time.Millisecond
