package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/internal/events"
	"github.com/quorate/quorate/internal/fairshare"
)

// maxEventRoom bounds the buffered events of all watchers of a node: 8 buffers of the largest size,
// or 512 of the usual size.
const maxEventRoom = 8 * events.MaxBuffer

// newWatchers returns a pool of size total. With authentication, one caller may take at most a
// quarter of it.
func newWatchers(total int64, guard *auth.Guard) *fairshare.Pool {
	if guard == nil {
		return fairshare.New(total, total)
	}
	return fairshare.New(total, total/4)
}

// takeShare charges n of a pool to the caller of ctx until stop is called. Errors call the resource
// what.
func takeShare(ctx context.Context, pool *fairshare.Pool, n int64, what string) (stop func(), err error) {
	owner := Owner(ctx)
	full := pool.TryAcquire(owner, n)
	if full == fairshare.NotFull {
		return func() { pool.Release(owner, n) }, nil
	}
	e := &apierr.Error{
		Code: codes.ResourceExhausted, HTTP: http.StatusServiceUnavailable, Reason: "TOO_MANY_WATCHERS", Retry: time.Second,
		Detail: fmt.Sprintf("this node has reached its bound on %s; watch another node, or poll", what),
	}
	if full == fairshare.Each && owner != "" {
		e.Detail = fmt.Sprintf("this node has reached its bound on %s of %s; end some, or watch another node", what, owner)
	}
	return nil, e
}
