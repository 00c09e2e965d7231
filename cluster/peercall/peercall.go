// Package peercall is the table of the calls that nodes make to each other. Each part of a node
// adds the calls that it answers.
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

// Limit bounds the work for a call that waits for no disk.
const Limit = 2 * time.Second

// ErrUnknown is the answer of every version to calls of later ones.
var ErrUnknown = errors.New("this version does not know the call")

// Table has a handler for each kind of call, by the number of its field in peerv1.Call. It is
// filled before the node listens, and not changed later.
type Table map[protoreflect.FieldNumber]handler

type handler struct {
	within time.Duration
	answer func(ctx context.Context, from quota.NodeID, c protoreflect.Value, out *peerv1.Call) error
}

var body = (*peerv1.Call)(nil).ProtoReflect().Descriptor().Oneofs().ByName("body")

// Handle has f answer the calls with a message Q by one with a message A. The context that f gets
// ends after within. Two handlers for a message, or a message that peerv1.Call does not have, are a
// mistake in the program: Handle panics.
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

// fieldOf returns the field of peerv1.Call whose message is an M.
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

// Answer does what a call of another node asks for.
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
