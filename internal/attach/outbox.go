package attach

import (
	"context"
	"errors"
	"sync"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of an outbox.
const (
	// MaxQueued bounds the queued messages.
	MaxQueued = 256
	// MaxQueuedBytes bounds the bytes of queued grants and overrides, enough for about 60,000 keys.
	MaxQueuedBytes = 24 << 20
)

// ErrSlow reports that a process has read too little of what was sent to it.
var ErrSlow = errors.New("the process reads too slowly: its queue is full")

// Outbox is the queue of messages to one process. Any goroutine may put messages in; one takes them
// out.
type Outbox struct {
	wake chan struct{}

	mu     sync.Mutex
	list   []*quoratev1.AttachResponse
	bytes  int
	ended  bool
	failed error
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox { return &Outbox{wake: make(chan struct{}, 1)} }

// Put adds a message and never blocks. New limits replace queued limits. If there is no room, the
// outbox ends with ErrSlow; after its end messages are dropped. The caller must not modify a
// message afterwards.
func (o *Outbox) Put(m *quoratev1.AttachResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if _, ok := m.Body.(*quoratev1.AttachResponse_Limits); ok && o.replace(m) {
		return
	}
	if n := sizeOf(m); len(o.list) >= MaxQueued || o.bytes > 0 && o.bytes+n > MaxQueuedBytes {
		o.end(ErrSlow)
		return
	}
	o.list = append(o.list, m)
	o.bytes += sizeOf(m)
	o.ring()
}

// End adds a goodbye with the reason, unless that is empty, and ends the outbox.
func (o *Outbox) End(reason string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if reason != "" {
		o.list = append(o.list, &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Goodbye{Goodbye: &quoratev1.Goodbye{Reason: reason}}})
	}
	o.end(nil)
}

// end ends the outbox. The caller holds o.mu.
func (o *Outbox) end(err error) {
	o.ended, o.failed = true, err
	if err != nil {
		o.list, o.bytes = nil, 0
	}
	o.ring()
}

func (o *Outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// replace replaces queued limits by newer ones.
func (o *Outbox) replace(m *quoratev1.AttachResponse) bool {
	for i, have := range o.list {
		if _, ok := have.Body.(*quoratev1.AttachResponse_Limits); ok {
			o.list[i] = m
			return true
		}
	}
	return false
}

// sizeOf estimates the bytes of the keys in a message.
func sizeOf(m *quoratev1.AttachResponse) (bytes int) {
	for _, e := range m.GetGrant().GetEntries() {
		bytes += quota.EntrySize(quota.LimitName{Namespace: e.GetNamespace(), Limit: e.GetLimit()}, e.GetKey())
	}
	for _, o := range m.GetOverrides().GetOverrides() {
		k := o.GetKey()
		bytes += quota.EntrySize(quota.LimitName{Namespace: k.GetNamespace(), Limit: k.GetLimit()}, "") + len(k.GetKey())
	}
	return bytes
}

// Next waits for the next message. It returns nil and no error after the last one, else ErrSlow or
// the context's error.
func (o *Outbox) Next(ctx context.Context) (*quoratev1.AttachResponse, error) {
	for {
		if m, done, err := o.next(); m != nil || done {
			return m, err
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (o *Outbox) next() (m *quoratev1.AttachResponse, done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.list) == 0 {
		return nil, o.ended, o.failed
	}
	m = o.list[0]
	o.list[0] = nil
	if o.list = o.list[1:]; len(o.list) == 0 {
		o.list = nil
	}
	o.bytes -= sizeOf(m)
	return m, false, nil
}
