package grpcapi

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
)

// codec is gRPC's own codec, except for checks: it decodes them into the values that decide them,
// and encodes answers from those values, without the messages in between (single, checkBatch). The
// generated code decodes whatever the fast path does not handle, so the bytes have one meaning.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch m := v.(type) {
	case *single:
		return m.read(data, c.CodecV2)
	case *checkBatch:
		return m.read(data, c)
	}
	if m, ok := v.(proto.Message); ok {
		if err := checkParts(data, m.ProtoReflect().Descriptor()); err != nil {
			return err
		}
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

// single is one check that arrived over gRPC.
type single struct {
	check api.Check
	fault error // invalid check, found while decoding
}

// singleAnswer is the answer to one check. Each call allocates a new one, because gRPC sends it
// after the handler has returned.
type singleAnswer struct {
	out   []byte // uses room while it is large enough
	parts [1]mem.Buffer
	room  [answerRoom]byte
}

func newAnswer() *singleAnswer {
	a := new(singleAnswer)
	a.out = a.room[:0]
	return a
}

// textOf copies a message into one string. All strings decoded from it are substrings.
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

// checkBatch holds the checks of one call, in the short form or in the long form.
type checkBatch struct {
	plain  plainBatch
	checks []api.Check // the long form; nil: the short form
	faults []error     // invalid checks of the long form, found while decoding
	count  int         // of the checks received; checks beyond the bound of a call are dropped
	held   heldChecks
}

// namespaces calls yield with the namespaces of the checks until yield returns false.
func (m *checkBatch) namespaces(yield func(string) bool) {
	for i := range m.plain.runs {
		if !yield(m.plain.runs[i].name.Namespace) {
			return
		}
	}
	for i := range m.checks {
		if !yield(m.checks[i].Namespace()) {
			return
		}
	}
}

func (m *checkBatch) read(data mem.BufferSlice, long codec) error {
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

// batchAnswer holds the encoded answers to a batch.
type batchAnswer struct{ out *[]byte }

// answerBuffers is a pool of buffers for the answers to batches. Unlike gRPC's pool it does not
// zero a buffer that will be overwritten.
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

// Put implements mem.BufferPool. It drops buffers larger than the largest usual batch.
func (p *answerBuffers) Put(b *[]byte) {
	if cap(*b) <= 4*apiproto.MaxBatch*answerRoom {
		p.pool.Put(b)
	}
}
