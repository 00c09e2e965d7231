// Package peercall dispatches the calls that nodes make to each other. Each part of a node
// registers the calls that it answers.
package peercall

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Limit is the timeout for calls that do not wait for a disk.
const Limit = 2 * time.Second

// ErrUnknown is the answer to a call that only later versions know.
var ErrUnknown = errors.New("this version does not know the call")

// Table maps each kind of call, by its field number in peerv1.Call, to its handler. It is filled
// before the node listens and is read-only afterwards.
type Table map[protoreflect.FieldNumber]handler

type handler struct {
	within time.Duration
	answer func(ctx context.Context, from quota.NodeID, c protoreflect.Value, out *peerv1.Call) error
}

var body = (*peerv1.Call)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body")

// Handle registers f for calls with a message Q, answered by a message A. The context of f ends
// after within. A second handler for Q, or a message that is not in peerv1.Call, is a programming
// error: Handle panics.
func Handle[Q, A proto.Message](t Table, within time.Duration, f func(ctx context.Context, from quota.NodeID, c Q) (A, error)) {
	asks, answers := fieldOf[Q](), fieldOf[A]()
	if _, twice := t[asks.Number()]; twice {
		panic(fmt.Sprintf("peercall: two handlers for %s", asks.Name()))
	}
	t[asks.Number()] = handler{within, func(ctx context.Context, from quota.NodeID, c protoreflect.Value, out *peerv1.Call) error {
		a, err := f(ctx, from, c.Message().Interface().(Q))
		if err == nil {
			out.ProtoReflect().Set(answers, protoreflect.ValueOfMessage(a.ProtoReflect()))
		}
		return err
	}}
}

// fieldOf returns the field of peerv1.Call with message type M. It panics if there is no such
// field.
func fieldOf[M proto.Message]() protoreflect.FieldDescriptor {
	var m M
	name := m.ProtoReflect().Descriptor().FullName()
	for i := range body.Fields().Len() {
		if f := body.Fields().Get(i); f.Message().FullName() == name {
			return f
		}
	}
	panic(fmt.Sprintf("peercall: no field of a call has a %s", name))
}

// Answer runs the handler for a call of another node.
func (t Table) Answer(ctx context.Context, from quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	m := c.ProtoReflect()
	field := m.WhichOneof(body)
	if field == nil {
		return nil, ErrUnknown
	}
	h, ok := t[field.Number()]
	if !ok {
		return nil, ErrUnknown
	}
	ctx, cancel := context.WithTimeout(ctx, h.within)
	defer cancel()
	out := &peerv1.Call{}
	if err := h.answer(ctx, from, m.Get(field), out); err != nil {
		return nil, err
	}
	return out, nil
}
