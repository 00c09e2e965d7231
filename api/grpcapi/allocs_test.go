package grpcapi

import (
	"context"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// TestChecksAllocate checks what a check over gRPC allocates in addition to gRPC itself, from the
// received bytes to the sent bytes, without the decision. A call allocates its text, its answer,
// and gRPC's view of the answer. A batch allocates as little, however many checks it has.
func TestChecksAllocate(t *testing.T) {
	s := benchServer(t)
	ctx, c := context.Background(), newCodec()
	for name, test := range map[string]struct {
		req   proto.Message
		serve func(ctx context.Context, dec func(any) error) (any, error)
		most  float64
	}{
		"single": {benchCheck(), s.serveAllow, 3},
		"batch":  {benchBatch(), s.serveBatch, 3},
	} {
		data, err := proto.Marshal(test.req)
		if err != nil {
			t.Fatal(err)
		}
		in := mem.BufferSlice{mem.SliceBuffer(data)}
		dec := func(m any) error { return c.Unmarshal(in, m) }
		n := testing.AllocsPerRun(200, func() {
			res, err := test.serve(ctx, dec)
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			out.Free()
		})
		t.Logf("%s: %v allocations", name, n)
		if !raced && n > test.most {
			t.Errorf("%s: %v allocations; want at most %v", name, n, test.most)
		}
	}
}
