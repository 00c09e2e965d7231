package grpcapi

import (
	"bytes"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Field numbers of AllowResponse and AllowResult.
const (
	fieldAllowed    = 1
	fieldRemaining  = 3
	fieldRetryAfter = 4
	fieldWhy        = 5
	fieldWait       = 6
	fieldShadow     = 7
	fieldNear       = 8
	fieldResetAfter = 9
	fieldTier       = 10

	fieldResponse = 1
	fieldError    = 2

	fieldResults = 1 // of AllowBatchResponse
)

// appendWire encodes r.Response(d) exactly as the generated code does, byte for byte.
func appendWire(b []byte, r *api.Prepared, d *quota.Decision) []byte {
	if d.Allowed {
		b = wireNumber(b, fieldAllowed, 1)
	}
	b = append(b, r.Wire...)
	b = wireNumber(b, fieldRemaining, uint64(d.Remaining))
	if !d.Allowed && d.RetryAfter != apiproto.Never && d.Limit != nil {
		b = wireDuration(b, fieldRetryAfter, d.RetryAfter)
	}
	b = wireNumber(b, fieldWhy, uint64(d.Why))
	b = wirePause(b, fieldWait, d.Wait)
	if d.Shadow {
		b = wireNumber(b, fieldShadow, 1)
	}
	if d.Near {
		b = wireNumber(b, fieldNear, 1)
	}
	b = wirePause(b, fieldResetAfter, d.ResetAfter)
	return wireNumber(b, fieldTier, uint64(int32(d.Tier)))
}

func wireNumber(b []byte, field protowire.Number, n uint64) []byte {
	switch {
	case n == 0:
		return b
	case n < 0x80: // a byte each, as all fields are below 16
		return append(b, byte(field)<<3|byte(protowire.VarintType), byte(n))
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// wirePause encodes a duration as apiproto.Pause does: only if it is positive and not
// apiproto.Never.
func wirePause(b []byte, field protowire.Number, d time.Duration) []byte {
	if d <= 0 || d == apiproto.Never {
		return b
	}
	return wireDuration(b, field, d)
}

func wireDuration(b []byte, field protowire.Number, d time.Duration) []byte {
	seconds, nanos := uint64(d/time.Second), uint64(d%time.Second)
	size := 0
	for _, n := range [...]uint64{seconds, nanos} {
		if n != 0 {
			size += 1 + protowire.SizeVarint(n)
		}
	}
	b = append(protowire.AppendTag(b, field, protowire.BytesType), byte(size)) // two numbers are less than 128 bytes
	return wireNumber(wireNumber(b, 1, seconds), 2, nanos)
}

// appendDecision encodes an answer as an AllowResult of AllowBatchResponse.
func appendDecision(b []byte, r *api.Prepared, d *quota.Decision) []byte {
	at := len(b)
	b = append(b, fieldResults<<3|byte(protowire.BytesType), 0, fieldResponse<<3|byte(protowire.BytesType), 0)
	b = appendWire(b, r, d)
	n := len(b) - at - 4
	if n+2 >= 0x80 { // the lengths take several bytes
		return appendResult(b[:at], bytes.Clone(b[at+4:]), nil)
	}
	b[at+1], b[at+3] = byte(n+2), byte(n)
	return b
}

// appendResponse encodes an answer as a field of AllowResult.
func appendResponse(b, answer []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, fieldResponse, protowire.BytesType), answer)
}

// appendFault encodes the error of a check as a field of AllowResult.
func appendFault(b []byte, err error) []byte {
	return protowire.AppendString(protowire.AppendTag(b, fieldError, protowire.BytesType), err.Error())
}

// appendResult encodes an AllowResult as a field of AllowBatchResponse.
func appendResult(b, answer []byte, err error) []byte {
	if err != nil {
		text := err.Error()
		b = protowire.AppendTag(b, fieldResults, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(protowire.SizeTag(fieldError)+protowire.SizeBytes(len(text))))
		return appendFault(b, err)
	}
	b = protowire.AppendTag(b, fieldResults, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(fieldResponse)+protowire.SizeBytes(len(answer))))
	return appendResponse(b, answer)
}
