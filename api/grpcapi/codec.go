package grpcapi

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
)

// codec is gRPC's own, but for checks: those are read into what decides them, and
// answers are written from it, without the messages between (single, checkBatch). What the
// short way does not know, the long way reads: there is one meaning of the bytes.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *single:
		return m.read(data, c.CodecV2)
	case *checkBatch:
		return m.read(data, c.CodecV2)
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *singleAnswer:
		m.parts[0] = mem.SliceBuffer(m.out)
		return m.parts[:], nil
	case batchAnswer:
		return mem.BufferSlice{mem.NewBuffer(m.out, answers)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// single is one check that came over gRPC.
type single struct {
	check api.Check
	fault error // of the check, seen when it was read
}

// singleAnswer is that to one check. It is new each time: it is sent when whoever wrote it has
// gone on.
type singleAnswer struct {
	out   []byte // room, as far as that is enough
	parts [1]mem.Buffer
	room  [answerRoom]byte
}

func newAnswer() *singleAnswer {
	a := new(singleAnswer)
	a.out = a.room[:0]
	return a
}

// textOf copies a message into one string, of which all that is read from it is a part.
func textOf(data mem.BufferSlice) string {
	var b strings.Builder
	b.Grow(data.Len())
	for _, part := range data {
		b.Write(part.ReadOnlyData())
	}
	return b.String()
}

func (m *single) read(data mem.BufferSlice, long encoding.CodecV2) error {
	m.check, m.fault = api.Check{}, nil
	if readWire(&m.check, textOf(data)) {
		return nil
	}
	var req quoratev1.AllowRequest
	if err := long.Unmarshal(data, &req); err != nil {
		return err
	}
	m.fault = m.check.From(&req)
	return nil
}

// checkBatch is the checks of one call, in the short form or in the long one.
type checkBatch struct {
	plain  plainBatch
	checks []api.Check // the long form; nil: it is in the short one
	faults []error     // of the checks of the long form, seen when they were read
	count  int         // of the checks that came; more than a call may have are not kept
	held   heldChecks
}

// namespaces calls yield with those that the checks are in, until it returns false.
func (m *checkBatch) namespaces(yield func(string) bool) {
	for i := range m.plain.runs {
		if !yield(m.plain.runs[i].name.Namespace) {
			return
		}
	}
	for i := range m.checks {
		if !yield(m.checks[i].Key.Namespace) {
			return
		}
	}
}

func (m *checkBatch) read(data mem.BufferSlice, long encoding.CodecV2) error {
	m.checks, m.faults = nil, nil
	if m.plain.read(textOf(data)) {
		m.count = len(m.plain.spends)
		return nil
	}
	m.plain.forget()
	var req quoratev1.AllowBatchRequest
	if err := long.Unmarshal(data, &req); err != nil {
		return err
	}
	m.count = len(req.Checks)
	req.Checks = req.Checks[:min(m.count, apiproto.MaxBatch)]
	m.checks, m.faults = make([]api.Check, len(req.Checks)), make([]error, len(req.Checks))
	for i, r := range req.Checks {
		m.faults[i] = m.checks[i].From(r)
	}
	return nil
}

// batchAnswer is the answers to a batch as they are sent.
type batchAnswer struct{ out *[]byte }

// answerBuffers holds the room of the answers to batches. Unlike gRPC's own it does not
// write zeros over what will be written over.
type answerBuffers struct{ pool sync.Pool }

var (
	_       mem.BufferPool = (*answerBuffers)(nil)
	answers                = &answerBuffers{sync.Pool{New: func() any { return new([]byte) }}}
)

// Get implements mem.BufferPool.
func (p *answerBuffers) Get(length int) *[]byte {
	b := p.pool.Get().(*[]byte)
	*b = slices.Grow((*b)[:0], length)[:length]
	return b
}

// Put implements mem.BufferPool. Room beyond that of the largest usual batch is let go.
func (p *answerBuffers) Put(b *[]byte) {
	if cap(*b) <= 4*apiproto.MaxBatch*answerRoom {
		p.pool.Put(b)
	}
}
