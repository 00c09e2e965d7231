package grpcapi

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestParts checks that a message of many empty messages, which is small on the wire only, is refused
// before it is decoded, whatever the method, and that the largest valid messages are not.
func TestParts(t *testing.T) {
	empty := func(field protowire.Number) []byte { return []byte{byte(field)<<3 | byte(protowire.BytesType), 0} }
	within := func(field protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), inner)
	}
	const many = MaxGRPCMessage/2 - 8
	for name, test := range map[string]struct {
		data []byte
		to   any
	}{
		"checks of a batch":          {bytes.Repeat(empty(1), many), new(checkBatch)},
		"checks of one call":         {bytes.Repeat(empty(1), many), &quoratev1.AllowAllRequest{}},
		"descriptors":                {bytes.Repeat(empty(2), many), &ratelimitv3.RateLimitRequest{}},
		"entries of one descriptor":  {within(2, bytes.Repeat(empty(1), many)), &ratelimitv3.RateLimitRequest{}},
		"entries of a report":        {within(2, bytes.Repeat(empty(5), many)), &quoratev1.AttachRequest{}},
		"policies of a config, deep": {within(4, bytes.Repeat(empty(1), many)), &quoratev1.LoadPoliciesRequest{}},
	} {
		if m, ok := test.to.(proto.Message); ok && partsLeft(test.data, m.ProtoReflect().Descriptor(), many, 9) > many/2 {
			t.Errorf("%s: the test has other fields than the message", name)
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(test.data)}, test.to)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errParts) || used > 8*MaxGRPCMessage {
			t.Errorf("%s: %v, %d bytes of memory for %d", name, err, used, len(test.data))
		}
	}
	large := &quoratev1.SetOverridesRequest{}
	for range 1000 {
		large.Overrides = append(large.Overrides, &quoratev1.Override{Namespace: "web", Limit: "l", Key: string(bytes.Repeat([]byte("k"), 1000))})
	}
	data, err := proto.Marshal(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &quoratev1.SetOverridesRequest{}); err != nil {
		t.Errorf("a large valid message: %v", err)
	}
}
