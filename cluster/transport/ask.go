package transport

import (
	"context"
	"errors"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Asked is a call in flight. Its owner must call Wait exactly once.
type Asked struct {
	to  quota.NodeID
	c   *conn
	id  uint64
	ch  chan *peerv1.Frame
	err error // why it was not sent; nil if it was
}

// Ask sends frames and returns at once, with one call per frame, in order. The frames leave
// together, so the peer reads them together, and its answers return together. Each call may fail
// on its own; its Wait returns the error.
func (n *Net) Ask(to quota.NodeID, lane peerv1.Lane, frames ...*peerv1.Frame) []Asked {
	asked := make([]Asked, len(frames))
	c, err := n.connTo(to, lane)
	if err != nil {
		for i := range asked {
			asked[i].err = err
		}
		return asked
	}
	for i := range asked {
		asked[i] = Asked{to: to, c: c, id: c.lastID.Add(1), ch: make(chan *peerv1.Frame, 1)}
	}
	if !c.expect(asked) {
		for i := range asked {
			asked[i].err = ErrUnreachable
		}
		return asked
	}
	c.ask(asked, frames)
	return asked
}

// Wait returns the answer. Besides the errors of Send it returns ErrLost as soon as the
// connection ends, the context's error, and a *RemoteError if the peer answered with an error.
func (a *Asked) Wait(ctx context.Context) (*peerv1.Frame, error) {
	if a.c != nil {
		defer a.c.forget(a.id)
	}
	if a.err != nil {
		return nil, a.err
	}
	select {
	case f := <-a.ch:
		if f.Error != "" {
			return nil, &RemoteError{Peer: a.to, Text: f.Error}
		}
		return f, nil
	case <-a.c.done:
		return nil, ErrLost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Call sends a frame and waits for its answer. It combines Ask and Wait.
func (n *Net) Call(ctx context.Context, to quota.NodeID, lane peerv1.Lane, f *peerv1.Frame) (*peerv1.Frame, error) {
	return n.Ask(to, lane, f)[0].Wait(ctx)
}

// expect registers the calls so that their answers reach them. It returns false after close.
func (c *conn) expect(asked []Asked) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		return false
	}
	for i := range asked {
		c.pending[asked[i].id] = asked[i].ch
	}
	return true
}

// ask queues all frames in one step. It sends nothing after close.
func (c *conn) ask(asked []Asked, frames []*peerv1.Frame) {
	batch, sent := make([][]byte, 0, len(frames)), make([]*Asked, 0, len(frames))
	for i, f := range frames {
		b, err := encodeFrame(f, asked[i].id, false)
		if err != nil {
			asked[i].err = err
			continue
		}
		batch, sent = append(batch, b), append(sent, &asked[i])
	}
	taken, why := 0, ErrUnreachable
	select {
	case <-c.done:
	default:
		taken, why = c.q.push(batch...), ErrBusy
	}
	for _, a := range sent[taken:] {
		a.err = why
	}
}

func (c *conn) forget(id uint64) {
	c.mu.Lock()
	delete(c.pending, id)
	c.mu.Unlock()
}

// Unsent reports whether the error of a call to another node proves that the call was not sent.
// Other errors prove nothing: even an error answered by the other node may mean only that it
// could not send its answer.
func Unsent(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrBusy) || errors.Is(err, ErrTooLarge)
}
