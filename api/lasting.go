package api

import (
	"context"
	"time"
)

// identifyAgain is how long a token that was revoked, a certificate that is trusted no more, or a role that was
// taken away can keep open what was begun with it.
const identifyAgain = 10 * time.Second

// StillAuthorized returns nil while the caller of a call that lasts may go on with it. known is when that was looked at last;
// within service.again of it the answer is believed.
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
		err = v.Guard.Enter(caller, v.Method)
	}
	if err == nil && v.Rule.Scopes != nil && v.req != nil {
		err = v.Guard.Admit(caller, v.Method, v.req)
	}
	if err != nil {
		return FromAuth(err)
	}
	*known = time.Now()
	return nil
}
