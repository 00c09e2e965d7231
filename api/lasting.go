package api

import (
	"context"
	"time"
)

// identifyAgain is how long a token that was revoked, a certificate that is trusted no more, or a role that was
// taken away can keep open what was begun with it.
const identifyAgain = 10 * time.Second

// still returns nil while the caller of a call that lasts may go on with it. known is when that was looked at last;
// within service.again of it the answer is believed.
func (s *Gate) still(ctx context.Context, known *time.Time) error {
	v := visitOf(ctx)
	if v == nil || v.guard == nil || time.Since(*known) < s.again {
		return nil
	}
	caller, err := v.caller, error(nil)
	if v.identify != nil {
		caller, err = v.identify(ctx)
	}
	if err == nil {
		err = v.guard.Enter(caller, v.method)
	}
	if err == nil && v.rule.Scopes != nil && v.req != nil {
		err = v.guard.Admit(caller, v.method, v.req)
	}
	if err != nil {
		return fromAuth(err)
	}
	*known = time.Now()
	return nil
}
