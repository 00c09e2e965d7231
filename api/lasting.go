package api

import (
	"context"
	"time"
)

// identifyAgain is the longest time that a call continues after its token was revoked, its
// certificate lost trust or its role was removed.
const identifyAgain = 10 * time.Second

// StillAuthorized returns an error if the caller of a long call may no longer continue it. known is
// the time of the last check; StillAuthorized repeats the check after s.Again, and then updates
// known.
func (s *Gate) StillAuthorized(ctx context.Context, known *time.Time) error {
	v := CallOf(ctx)
	if v == nil || v.Guard == nil || time.Since(*known) < s.Again {
		return nil
	}
	caller, err := v.Caller, error(nil)
	if v.Identify != nil {
		caller, err = v.Identify(ctx)
	}
	if err == nil {
		err = v.Guard.AuthorizeCall(caller, v.Method)
	}
	if err == nil && v.Rule.Scopes != nil && v.req != nil {
		err = v.Guard.AuthorizeRequest(caller, v.Method, v.req)
	}
	if err != nil {
		return FromAuth(err)
	}
	*known = time.Now()
	return nil
}
