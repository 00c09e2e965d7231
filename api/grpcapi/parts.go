package grpcapi

import (
	"errors"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds of the messages within a message. gRPC bounds only the bytes of a message, and an empty
// message within it is two bytes on the wire and a hundred in memory.
const (
	maxParts     = 200_000 // more than the largest valid request has: reports of 4096 buckets with 32 pairs each
	maxPartDepth = 32
	fewParts     = 64 << 10 // bytes of a message that is too short to have many
)

var errParts = errors.New("has too many messages in it; send less, or in several calls")

// checkParts returns an error if a message has more messages in it than maxParts. It leaves other
// faults to the decoder.
func checkParts(data mem.BufferSlice, d protoreflect.MessageDescriptor) error {
	if data.Len() <= fewParts {
		return nil
	}
	if left := partsLeft(data.Materialize(), d, maxParts, maxPartDepth); left < 0 {
		return errParts
	}
	return nil
}

// partsLeft returns left less the messages in b, a message of a type; below 0 if they are more, or
// nested more deeply than depth.
func partsLeft(b []byte, d protoreflect.MessageDescriptor, left, depth int) int {
	if depth == 0 {
		return -1
	}
	fields := d.Fields()
	for len(b) > 0 && left >= 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return left
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return left
		}
		if f := fields.ByNumber(number); kind == protowire.BytesType && f != nil && f.Message() != nil {
			inner, _ := protowire.ConsumeBytes(b)
			left = partsLeft(inner, f.Message(), left-1, depth-1)
		}
		b = b[n:]
	}
	return left
}
