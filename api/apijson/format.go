// Package apijson reads and writes the messages of the API in the form that HTTP uses: fields under
// their proto names, numbers as JSON numbers, enums as lower-case words, durations in seconds. It
// reads strictly: an error names the field, its value, and what would be right.
package apijson

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/internal/jsontext"
)

// Format returns m as the HTTP API shows it: every field under its proto name, in the proto's
// order; numbers as numbers, enums as lower-case words without prefix, durations in seconds, times
// as RFC 3339, bytes as base64. An unset field is null, 0, "" or [], and an unset enum is
// "unknown". A limit always shows only its first fields: most limits do not set the others.
func Format(m proto.Message) []byte {
	return AppendMessage(nil, m.ProtoReflect())
}

// AppendMessage appends a message in the form of Format.
func AppendMessage(b []byte, m protoreflect.Message) []byte {
	if d, ok := m.Interface().(*durationpb.Duration); ok {
		return strconv.AppendFloat(b, d.AsDuration().Seconds(), 'f', -1, 64)
	}
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		return append(t.AsTime().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	}
	b = append(b, '{')
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if sparse(fd) && !m.Has(fd) {
			continue
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, string(fd.Name())), ':')
		b = AppendField(b, m, fd)
	}
	return append(b, '}')
}

// sparse reports whether a field is omitted when unset.
func sparse(fd protoreflect.FieldDescriptor) bool {
	return fd.Number() > lastPlainLimitField && fd.ContainingMessage().Name() == "Limit"
}

const lastPlainLimitField = 6 // kind

// AppendField appends the value of one field of a message.
func AppendField(b []byte, m protoreflect.Message, fd protoreflect.FieldDescriptor) []byte {
	switch {
	case fd.IsMap():
		return appendMap(b, fd, m.Get(fd).Map())
	case fd.IsList():
		b = append(b, '[')
		list := m.Get(fd).List()
		for i := range list.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendValue(b, fd, list.Get(i))
		}
		return append(b, ']')
	case fd.HasPresence() && !m.Has(fd):
		return append(b, "null"...)
	}
	return appendValue(b, fd, m.Get(fd))
}

// appendMap appends a map with string keys, sorted by key.
func appendMap(b []byte, fd protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	keys := make([]string, 0, m.Len())
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, k), ':')
		b = appendValue(b, fd.MapValue(), m.Get(protoreflect.ValueOfString(k).MapKey()))
	}
	return append(b, '}')
}

func appendValue(b []byte, fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return AppendMessage(b, v.Message())
	case protoreflect.EnumKind:
		return strconv.AppendQuote(b, Word(fd.Enum(), v.Enum()))
	case protoreflect.StringKind:
		return AppendString(b, v.String())
	case protoreflect.BytesKind:
		return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"')
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool())
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return appendFloat(b, v.Float())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(b, v.Uint(), 10)
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return strconv.AppendInt(b, v.Int(), 10)
	}
	// invariant: the protos use no other kinds; the contract test walks every answer
	panic("api: " + fd.FullName() + " has a kind without a JSON form")
}

// EnumWord returns the word that Format writes for an enum value.
func EnumWord(e protoreflect.Enum) string { return Word(e.Descriptor(), e.Number()) }

// EnumOf returns the enum value whose word is text, or 0, and all words of the enum in order.
func EnumOf(d protoreflect.EnumDescriptor, text string) (n protoreflect.EnumNumber, words []string) {
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		if v.Number() == 0 {
			continue
		}
		w := Word(d, v.Number())
		if w == text {
			n = v.Number()
		}
		words = append(words, w)
	}
	return n, words
}

// Word returns the word of an enum value: over_limit for WHY_OVER_LIMIT of enum Why.
func Word(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	v := d.Values().ByNumber(n)
	if v == nil || n == 0 && !zeroIsWord(d) {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), enumPrefix(d)))
}

// zeroIsWord reports whether the value 0 of an enum has a meaning, as SUCCESS of OpStatus does.
func zeroIsWord(d protoreflect.EnumDescriptor) bool {
	return !strings.HasSuffix(string(d.Values().ByNumber(0).Name()), unspecified)
}

const unspecified = "_UNSPECIFIED"

// enumPrefix returns the common prefix of an enum's names: WHY_ for enum Why.
func enumPrefix(d protoreflect.EnumDescriptor) string {
	if !zeroIsWord(d) {
		return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), unspecified[1:])
	}
	var b strings.Builder
	for i, c := range string(d.Name()) {
		if i > 0 && unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
	}
	return b.String() + "_"
}

// AppendString appends a quoted string.
func AppendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic(err) // invariant: every string has a JSON form
	}
	return append(b, jsontext.Escape(quoted)...)
}

func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
