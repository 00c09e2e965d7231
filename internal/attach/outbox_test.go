package attach

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

func grant(keys int) *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Grant{Grant: &peerv1.Grant{Entries: make([]*peerv1.GrantEntry, keys)}}}
}

func limits(version uint64) *quoratev1.AttachResponse {
	return &quoratev1.AttachResponse{Body: &quoratev1.AttachResponse_Limits{Limits: &quoratev1.ClientLimits{Version: version}}}
}

func next(t *testing.T, o *Outbox) *quoratev1.AttachResponse {
	t.Helper()
	m, err := o.Next(t.Context())
	if err != nil || m == nil {
		t.Fatalf("got %v, %v; want a message", m, err)
	}
	return m
}

// TestOutboxOrder: first in, first out; newer limits take the place of older ones,
// and what is behind the end is dropped.
func TestOutboxOrder(t *testing.T) {
	o := NewOutbox()
	o.Put(limits(1))
	o.Put(grant(1))
	o.Put(limits(2))
	o.End("stops")
	o.End("again")
	o.Put(grant(2))
	if got := next(t, o).GetLimits().GetVersion(); got != 2 {
		t.Errorf("limits of version %d; want 2", got)
	}
	if next(t, o).GetGrant() == nil || next(t, o).GetGoodbye().GetReason() != "stops" {
		t.Error("the grant, or the goodbye, is not there")
	}
	if m, err := o.Next(t.Context()); m != nil || err != nil {
		t.Errorf("after the end: %v, %v", m, err)
	}
}

// TestOutboxBounds checks that an outbox whose reader takes nothing fails at either bound, and that
// one whose reader keeps up does not.
func TestOutboxBounds(t *testing.T) {
	for name, c := range map[string]struct{ keys, fits int }{"messages": {1, MaxQueued}, "bytes": {4096, MaxQueuedBytes / sizeOf(grant(4096))}} {
		o := NewOutbox()
		for range 3 * c.fits {
			o.Put(grant(c.keys))
			next(t, o)
		}
		for range c.fits {
			o.Put(grant(c.keys))
		}
		if got := next(t, o); got == nil {
			t.Errorf("%s: given up at the bound", name)
		}
		o.Put(grant(c.keys))
		o.Put(grant(c.keys))
		if m, err := o.Next(t.Context()); m != nil || !errors.Is(err, ErrSlow) {
			t.Errorf("%s: beyond the bound: %v, %v", name, m, err)
		}
	}
	o := NewOutbox()
	o.Put(grant(MaxQueuedBytes)) // an empty outbox accepts one message of any size
	next(t, o)
}

func TestOutboxWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := NewOutbox()
		time.AfterFunc(time.Second, func() { o.Put(grant(1)) })
		next(t, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if m, err := o.Next(ctx); m != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", m, err)
		}
	})
}
