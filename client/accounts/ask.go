package accounts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/backoff"
)

// Bounds of the pause between rounds; half of it is random.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// leastShare is the shortest time for one node's answer.
const leastShare = 100 * time.Millisecond

type call func(context.Context, quoratev1.AccountServiceClient) error

// ask calls one node after the other, round after round, until one answers or the context ends. A
// call that is not safe to repeat is made once, at a connected node; it is made again only if it
// was certainly not executed.
func (a *Application) ask(ctx context.Context, safe bool, f call) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	var last *Error
	for round := 0; ; round++ {
		first, conns := a.current.Load(), a.conns()
		for i := range conns {
			at := (first + uint32(i)) % uint32(len(conns))
			err := a.attempt(ctx, len(conns)-i, conns[at], safe, f)
			if err == nil {
				a.current.CompareAndSwap(first, at)
				return nil
			}
			last = fromError(ctx, err, conns[at])
			if a.closed() {
				last.Kind = client.ErrClosed
				return last
			}
			if ctx.Err() != nil {
				a.current.CompareAndSwap(first, (at+1)%uint32(len(conns))) // this one may hang
			}
			forgotten := safe && conns[at].GetState() == connectivity.Shutdown // the node left the cluster
			if ctx.Err() != nil || !forgotten && !again(err, safe) {
				return last
			}
		}
		if a.pause(ctx, round) != nil {
			last.Cause = fmt.Errorf("%w: %w", ctx.Err(), last.Cause)
			return last
		}
	}
}

// closed reports whether the client is closed. While it is not, it closes only the connections to nodes that have left
// the cluster, never that to a node that it was given.
func (a *Application) closed() bool {
	return !slices.ContainsFunc(a.conns(), func(c *grpc.ClientConn) bool { return c.GetState() != connectivity.Shutdown })
}

const (
	// afterCall is longer than an attempt whose answer was lost may take to be carried out.
	afterCall = 10 * time.Second
	// mostTTL is the longest time for which a request ID is remembered.
	mostTTL = 31 * 24 * time.Hour
)

// outlasting returns ttl, or more if the call may take longer: an attempt is not carried out after an
// earlier one whose answer was lost only while the request ID is remembered.
func (a *Application) outlasting(ctx context.Context, ttl time.Duration) time.Duration {
	left := a.timeout
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	return max(ttl, min(left, mostTTL-afterCall)+afterCall)
}

// notConnected reports that a call was not sent.
type notConnected struct{ addr string }

func (e *notConnected) Error() string { return fmt.Sprintf("%s is unreachable", e.addr) }

// GRPCStatus returns Unavailable.
func (e *notConnected) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// again reports whether a failed call should be repeated.
func again(err error, safe bool) bool {
	if unsent := (*notConnected)(nil); errors.As(err, &unsent) {
		return true
	}
	switch status.Code(err) {
	case codes.Aborted: // others held the accounts; nothing was applied
		return true
	case codes.Unavailable, codes.DeadlineExceeded:
		return safe
	}
	return false
}

// attempt asks one node, and leaves time for the remaining ones of the round. A call that is not
// safe to repeat gets all remaining time once it is sent.
func (a *Application) attempt(ctx context.Context, left int, conn *grpc.ClientConn, safe bool, f call) error {
	share := ctx
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		share, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(left), leastShare))
		defer cancel()
	}
	if !safe {
		if !connected(share, conn) {
			return &notConnected{conn.Target()}
		}
		share = ctx
	}
	return inTime(share, f(share, quoratev1.NewAccountServiceClient(conn)))
}

// deadlineSlack is how much earlier than the local deadline a node may end a call.
const deadlineSlack = 50 * time.Millisecond

// inTime converts the error of a call that the node ended at its deadline. Because each side has
// its own timer, it may look like a cancelled call and arrive before the local context has ended.
func inTime(ctx context.Context, err error) error {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded:
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < deadlineSlack {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		}
	}
	return err
}

// connected waits for a connection. It returns false if connecting has failed.
func connected(ctx context.Context, conn *grpc.ClientConn) bool {
	for {
		switch s := conn.GetState(); s {
		case connectivity.Ready:
			return true
		case connectivity.Shutdown, connectivity.TransientFailure:
			return false
		case connectivity.Idle:
			conn.Connect()
			fallthrough
		default:
			if !conn.WaitForStateChange(ctx, s) {
				return false
			}
		}
	}
}

// pause waits before the next round.
func pause(ctx context.Context, round int) error {
	most := backoff.Bound(firstPause, lastPause, round)
	return backoff.Sleep(ctx, most/2+rand.N(most/2))
}
