package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client/internal/deadline"
	"github.com/quorate/quorate/internal/quota"
)

// Wait is WaitN(1).
func (b *Bucket) Wait(ctx context.Context) error { return b.WaitN(ctx, 1) }

// WaitN waits until n tokens may be taken, and takes them. Callers of the same key are served in
// order of arrival. At most [WithMaxWaiting] callers wait at one time, and for one key at most as
// many as there are free places, so half of them.
//
// It returns an error, having taken nothing, if the context ends or would end before there are
// enough tokens, if the cost can never pass, if too many callers wait, if the client is closed, and
// if the limit is unknown. If the limit allows reservations of future tokens (max_wait), WaitN
// takes them at once and sleeps until they are available; if the context ends during that time,
// they are given back.
func (b *Bucket) WaitN(ctx context.Context, n int64) error {
	if b.fault != nil {
		return b.fault
	}
	if !b.c.queues.any(b.key) && b.near.Take(n) {
		b.c.stats.granted.add()
		return nil
	}
	turn, err := b.c.awaitTurn(ctx, b.key)
	if err != nil {
		return err
	}
	defer b.c.endTurn(b.key, turn)
	for {
		if deadline.Err(ctx) != nil {
			return waitEnded(ctx)
		}
		res, taken, err := b.spend(ctx, n)
		switch {
		case err != nil && deadline.Err(ctx) != nil: // no node failed
			return waitEnded(ctx)
		case err != nil:
			return err
		case res.Allowed && res.Wait == 0:
			return nil
		case res.Allowed:
			if err = b.c.sleep(ctx, res.Wait); err != nil {
				_ = b.c.refund(context.WithoutCancel(ctx), b.key, n, taken) // tokens to come that nobody waits for
			}
			return err
		case res.RetryAfter == Never:
			return &Error{Kind: ErrNever, Detail: fmt.Sprintf("%d tokens of %v are never available: %s", n, b.key.LimitName, res.Why)}
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < res.RetryAfter {
			return &Error{
				Kind: ErrTooLong, Detail: fmt.Sprintf("%d tokens of %v are available in %v, but the context ends before", n, b.key.LimitName, res.RetryAfter),
				Cause: context.DeadlineExceeded,
			}
		}
		if err := b.c.sleep(ctx, max(res.RetryAfter, leastPause)); err != nil {
			return err
		}
	}
}

// leastPause is the shortest pause before a waiting caller asks again.
const leastPause = time.Millisecond

// sleep waits unless the context or the client ends.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return waitEnded(ctx)
	case <-c.ended:
		return errClosed()
	}
}

func waitEnded(ctx context.Context) error {
	return &Error{Kind: ErrTooLong, Detail: "the context ended while waiting for tokens", Cause: deadline.Err(ctx)}
}

// queues are the waiting callers by key: one caller of each key asks, the others wait for their
// turn.
type queues struct {
	most    int64
	waiting atomic.Int64
	mu      sync.Mutex
	keys    map[quota.Key]*queue
}

type queue struct {
	turn chan struct{} // capacity 1: held by the caller whose turn it is
	n    int64         // waiting callers, including that one
}

// any reports whether a caller waits for the key.
func (q *queues) any(k quota.Key) bool {
	if q.waiting.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.keys[k] != nil
}

// awaitTurn waits for the caller's turn.
func (c *Client) awaitTurn(ctx context.Context, k quota.Key) (*queue, error) {
	q := &c.queues
	if c.closed.Load() {
		return nil, errClosed()
	}
	at, err := q.join(k)
	if err != nil {
		c.stats.waitsRefused.Add(1)
		return nil, err
	}
	select {
	case at.turn <- struct{}{}:
		return at, nil
	default:
	}
	select {
	case at.turn <- struct{}{}:
		return at, nil
	case <-ctx.Done():
		err = &Error{Kind: ErrTooLong, Detail: "the context ended while earlier callers were waiting", Cause: ctx.Err()}
	case <-c.ended:
		err = errClosed()
	}
	c.leaveQueue(k, at)
	return nil, err
}

// join reserves a place for a caller. A key may have as many as are free, so that callers of one
// key leave some for other keys.
func (q *queues) join(k quota.Key) (*queue, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.keys[k]
	if at == nil {
		at = &queue{turn: make(chan struct{}, 1)}
	}
	if all := q.waiting.Load(); at.n >= q.most-all {
		return nil, &Error{Kind: ErrTooManyWaiting, Detail: fmt.Sprintf("wait queue full: %d callers wait, %d of them for this key; a key can have at most as many as remain free of %d places", all, at.n, q.most)}
	}
	if q.keys == nil {
		q.keys = map[quota.Key]*queue{}
	}
	q.keys[k] = at
	at.n++
	q.waiting.Add(1)
	return at, nil
}

// endTurn ends the caller's turn.
func (c *Client) endTurn(k quota.Key, at *queue) {
	<-at.turn
	c.leaveQueue(k, at)
}

// leaveQueue ends the caller's place among those that wait for the key.
func (c *Client) leaveQueue(k quota.Key, at *queue) {
	q := &c.queues
	q.mu.Lock()
	defer q.mu.Unlock()
	if at.n--; at.n == 0 {
		delete(q.keys, k)
	}
	q.waiting.Add(-1)
}
