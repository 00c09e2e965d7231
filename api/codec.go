package api

import (
	"strings"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
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
	case *single:
		return mem.BufferSlice{mem.SliceBuffer(m.out)}, nil
	case *checkBatch:
		return mem.BufferSlice{mem.NewBuffer(m.out, mem.DefaultBufferPool())}, nil
	}
	return c.CodecV2.Marshal(v)
}

// single is one check that came over gRPC, and then its answer. The answer is new each
// time: it is sent when whoever wrote it has gone on.
type single struct {
	check check
	fault *fault // of the check, seen when it was read
	out   []byte
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
	m.check, m.fault = check{}, nil
	if m.check.readWire(textOf(data)) {
		return nil
	}
	var req quoratev1.AllowRequest
	if err := long.Unmarshal(data, &req); err != nil {
		return err
	}
	m.fault = m.check.from(&req)
	return nil
}

// checkBatch is the checks of one call, and then their answers.
type checkBatch struct {
	checks []check
	count  int      // of the checks that came; more than a call may have are not kept
	faults []*fault // of the checks, seen when they were read; nil: there are none
	out    *[]byte  // out of the pool that Marshal gives it back to
}

func (m *checkBatch) read(data mem.BufferSlice, long encoding.CodecV2) error {
	var ok bool
	m.checks, ok = readChecks(textOf(data), m.checks[:0])
	if m.count, m.faults = len(m.checks), nil; ok {
		return nil
	}
	var req quoratev1.AllowBatchRequest
	if err := long.Unmarshal(data, &req); err != nil {
		return err
	}
	m.count = len(req.Checks)
	req.Checks = req.Checks[:min(m.count, MaxBatch)]
	m.checks, m.faults = m.checks[:0], make([]*fault, len(req.Checks))
	for i, r := range req.Checks {
		m.checks = append(m.checks, check{})
		m.faults[i] = m.checks[i].from(r)
	}
	return nil
}
