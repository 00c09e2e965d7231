package grpcapi

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Tags of the fields of AllowRequest and AllowBatchRequest.
const (
	tagNamespace = 1<<3 | byte(protowire.BytesType)
	tagLimit     = 2<<3 | byte(protowire.BytesType)
	tagKey       = 3<<3 | byte(protowire.BytesType)
	tagCost      = 4<<3 | byte(protowire.VarintType)
	tagChecks    = 1<<3 | byte(protowire.BytesType)
)

// readWire decodes an AllowRequest. It returns false if the generated code must decode the message:
// malformed bytes, and fields that few checks have.
func readWire(c *api.Check, s string) bool {
	for len(s) > 0 {
		tag := s[0]
		if s = s[1:]; tag == tagCost {
			n, size := varint(s)
			if size == 0 {
				return false
			}
			c.Cost, c.Costs, s = int64(n), true, s[size:]
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
			c.Key.Namespace = text
		case tagLimit:
			c.Key.LimitName.Limit = text
		case tagKey:
			c.Key.Key = text
		default:
			return false
		}
	}
	return true
}

// varint decodes a number. size is 0 if s does not begin with one.
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

// plainBatch is an AllowBatchRequest whose checks name only a limit, a key and a cost, as nearly
// all do. Its strings are substrings of the message.
type plainBatch struct {
	spends []quota.Spend
	runs   []run
}

// run is a group of consecutive checks that name the same limit, which is looked up once.
type run struct {
	name  quota.LimitName
	count int // of the checks
}

// read decodes a batch. It returns false in the same cases as readWire, and for more checks than a
// call may have.
func (p *plainBatch) read(s string) bool {
	p.spends, p.runs = p.spends[:0], p.runs[:0]
	ascii := isASCII(s)
	names := "" // the fields of the last check that name its limit
	for len(s) > 0 {
		if s[0] != tagChecks || len(p.spends) == apiproto.MaxBatch {
			return false
		}
		n, size := varint(s[1:])
		if size == 0 || n > uint64(len(s)-1-size) {
			return false
		}
		one := s[1+size : 1+size+int(n)]
		s = s[1+size+int(n):]
		p.spends = append(p.spends, quota.Spend{})
		at := &p.spends[len(p.spends)-1]
		if names != "" && strings.HasPrefix(one, names) && readSpend(at, one[len(names):], ascii) {
			p.runs[len(p.runs)-1].count++
			continue
		}
		var c api.Check
		if names = namesOf(one); !readWire(&c, one) || !readSpend(at, one[len(names):], ascii) {
			return false
		}
		p.runs = append(p.runs, run{c.Key.LimitName, 1})
	}
	return true
}

// namesOf returns the leading fields of a check that name its limit.
func namesOf(s string) string {
	at := 0
	for at < len(s) && (s[at] == tagNamespace || s[at] == tagLimit) {
		n, size := varint(s[at+1:])
		if size == 0 || n > uint64(len(s)-at-1-size) {
			break
		}
		at += 1 + size + int(n)
	}
	return s[:at]
}

// readSpend decodes the fields after the names of a check: its key, by default the empty key that
// everybody shares, and its cost, by default 1. It returns false for any other field.
func readSpend(to *quota.Spend, s string, ascii bool) bool {
	to.Key, to.Cost = "", 1
	for len(s) > 0 {
		n, size := varint(s[1:])
		if size == 0 {
			return false
		}
		tag := s[0]
		s = s[1+size:]
		switch tag {
		case tagKey:
			if n > uint64(len(s)) || !ascii && !utf8.ValidString(s[:n]) {
				return false
			}
			to.Key, s = s[:n], s[n:]
		case tagCost:
			to.Cost = int64(n)
		default:
			return false
		}
	}
	if to.Key == "" {
		to.Key = quota.WholeKey
	}
	return true
}

// isASCII reports whether all bytes of s, and so of all its substrings, are ASCII.
func isASCII(s string) bool {
	const high = 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		if (uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|
			uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56)&high != 0 {
			return false
		}
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
