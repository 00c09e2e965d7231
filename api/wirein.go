package api

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags of the fields of AllowRequest, and of AllowBatchRequest.
const (
	tagNamespace = 1<<3 | byte(protowire.BytesType)
	tagLimit     = 2<<3 | byte(protowire.BytesType)
	tagKey       = 3<<3 | byte(protowire.BytesType)
	tagCost      = 4<<3 | byte(protowire.VarintType)
	tagChecks    = 1<<3 | byte(protowire.BytesType)
)

// readWire reads an AllowRequest. It returns false for what it leaves to the generated
// code: bytes that are wrong, and fields that few checks have.
func (c *check) readWire(s string) bool {
	for len(s) > 0 {
		tag := s[0]
		if s = s[1:]; tag == tagCost {
			n, size := varint(s)
			if size == 0 {
				return false
			}
			c.cost, c.costs, s = int64(n), true, s[size:]
			continue
		}
		n, size := varint(s)
		if size == 0 || n > uint64(len(s)-size) {
			return false
		}
		text := s[size : size+int(n)]
		s = s[size+int(n):]
		if !utf8.ValidString(text) {
			return false
		}
		switch tag {
		case tagNamespace:
			c.key.Namespace = text
		case tagLimit:
			c.key.LimitName.Limit = text
		case tagKey:
			c.key.Key = text
		default:
			return false
		}
	}
	return true
}

// varint reads a number. size is 0 if there is none.
func varint(s string) (n uint64, size int) {
	if len(s) > 0 && s[0] < 0x80 {
		return uint64(s[0]), 1
	}
	for shift := 0; size < len(s) && size < 10; shift += 7 {
		b := s[size]
		if size++; size == 10 && b > 1 {
			return 0, 0
		}
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n, size
		}
	}
	return 0, 0
}

// readChecks reads an AllowBatchRequest as readWire does, and false is also for more
// checks than a call may have. Checks that name the same limit share its name, so that
// it is looked at once.
func readChecks(s string, checks []check) ([]check, bool) {
	for len(s) > 0 {
		if s[0] != tagChecks || len(checks) == MaxBatch {
			return checks, false
		}
		n, size := varint(s[1:])
		if size == 0 || n > uint64(len(s)-1-size) {
			return checks, false
		}
		end := 1 + size + int(n)
		checks = append(checks, check{})
		c := &checks[len(checks)-1]
		if !c.readWire(s[1+size : end]) {
			return checks, false
		}
		s = s[end:]
		if len(checks) == 1 {
			c.named = c.validateNames() == nil
		} else if last := &checks[len(checks)-2]; c.key.LimitName == last.key.LimitName {
			c.key.LimitName, c.named = last.key.LimitName, last.named
		}
	}
	return checks, true
}
