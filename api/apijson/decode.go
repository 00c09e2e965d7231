package apijson

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/suggest"
)

// Decode decodes a message in the form that Format writes, and refuses trailing data. It is as
// strict as the hand-written decoder of checks.
func Decode(b []byte, m proto.Message, example string) error {
	r := NewReader(b)
	if err := r.Start(example); err != nil {
		return err
	}
	if err := r.message("", m.ProtoReflect()); err != nil {
		return err
	}
	return r.End()
}

// maxListItems bounds every list of a message but one.
const maxListItems = 1000

// longDurations are the durations of requests that may be longer than quota.MaxPause. The lifetime of unused accounts
// has this bound in JSON only.
var longDurations = map[protoreflect.FullName]time.Duration{
	"quorate.v1.Policy.lifetime":        36500 * 24 * time.Hour,
	"quorate.v1.CreateTokenRequest.ttl": 3650 * 24 * time.Hour,
}

func mostItems(fd protoreflect.FieldDescriptor) int {
	if fd.FullName() == "quorate.v1.PolicyConfig.policies" {
		return account.MaxPolicies
	}
	return maxListItems
}

var fieldNames sync.Map // protoreflect.FullName -> []string

// FieldsOf returns the names of a message's fields, in their order.
func FieldsOf(d protoreflect.MessageDescriptor) []string {
	if v, ok := fieldNames.Load(d.FullName()); ok {
		return v.([]string)
	}
	names := make([]string, d.Fields().Len())
	for i := range names {
		names[i] = string(d.Fields().Get(i).Name())
	}
	fieldNames.Store(d.FullName(), names)
	return names
}

func (r *Reader) message(path string, m protoreflect.Message) error {
	return r.Object(path, FieldsOf(m.Descriptor()), func(i int) error {
		fd := m.Descriptor().Fields().Get(i)
		name := apierr.Join(path, string(fd.Name()))
		switch {
		case fd.IsList():
			return r.list(name, m.Mutable(fd).List(), fd)
		case fd.HasPresence() && r.Null():
			return nil
		}
		v, err := r.value(name, fd, m.NewField(fd))
		if err == nil {
			m.Set(fd, v)
		}
		return err
	})
}

func (r *Reader) list(path string, list protoreflect.List, fd protoreflect.FieldDescriptor) error {
	return r.Array(path, mostItems(fd), func(path string) error {
		v, err := r.value(path, fd, list.NewElement())
		if err == nil {
			list.Append(v)
		}
		return err
	})
}

// value reads one value; empty is a new value of its type.
func (r *Reader) value(path string, fd protoreflect.FieldDescriptor, empty protoreflect.Value) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return r.inner(path, fd, empty)
	case protoreflect.EnumKind:
		word, err := r.Str(path)
		if err != nil {
			return empty, err
		}
		n, err := enumNumber(path, fd.Enum(), word)
		return protoreflect.ValueOfEnum(n), err
	case protoreflect.BoolKind:
		r.peek()
		raw := string(r.token())
		if raw != "true" && raw != "false" {
			return empty, apierr.Invalid(path, "is %s; must be true or false", r.describe())
		}
		r.i += len(raw)
		return protoreflect.ValueOfBool(raw == "true"), nil
	case protoreflect.DoubleKind:
		n, err := r.number(path, "a number")
		return protoreflect.ValueOfFloat64(n), err
	case protoreflect.StringKind:
		s, err := r.Str(path)
		return protoreflect.ValueOfString(s), err
	case protoreflect.BytesKind:
		s, err := r.Str(path)
		if err != nil {
			return empty, err
		}
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return empty, apierr.Invalid(path, "is not base64: %v", err)
		}
		return protoreflect.ValueOfBytes(raw), nil
	}
	return r.integer(path, fd)
}

// integer reads a number, or a string of digits, as protobuf libraries write 64-bit numbers.
func (r *Reader) integer(path string, fd protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	if long := fd.Kind() == protoreflect.Int64Kind || fd.Kind() == protoreflect.Uint64Kind; long && r.peek() == '"' {
		return r.quoted(path, fd)
	}
	switch fd.Kind() {
	case protoreflect.Uint32Kind:
		n, err := r.Whole(path, 64, "from 0 to 4294967295")
		if err == nil && (n < 0 || n > math.MaxUint32) {
			err = apierr.Invalid(path, "is %d; must be a whole number from 0 to 4294967295", n)
		}
		return protoreflect.ValueOfUint32(uint32(n)), err
	case protoreflect.Int32Kind:
		n, err := r.Whole(path, 32, "of 32 bits")
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind:
		n, err := r.Whole(path, 64, "of 64 bits")
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.Uint64Kind:
		n, err := r.Whole(path, 64, "from 0 on")
		if err == nil && n < 0 {
			err = apierr.Invalid(path, "is %d; must be a whole number from 0 on", n)
		}
		return protoreflect.ValueOfUint64(uint64(max(n, 0))), err
	}
	// invariant: requests use no other kinds; the contract test reads every one
	panic("api: " + fd.FullName() + " has a kind that cannot be read")
}

// quoted reads a number in a string.
func (r *Reader) quoted(path string, fd protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	text, err := r.Str(path)
	if err != nil {
		return protoreflect.Value{}, err
	}
	in := Reader{b: []byte(text)}
	if bytes.ContainsAny(in.b, " \t\r\n\"") || text == "" {
		return protoreflect.Value{}, apierr.Invalid(path, "is the string %q; must be a whole number", apierr.Clip(text))
	}
	v, err := in.integer(path, fd)
	if err == nil && in.End() != nil {
		err = apierr.Invalid(path, "is the string %q; must be a whole number", apierr.Clip(text))
	}
	return v, err
}

func (r *Reader) inner(path string, fd protoreflect.FieldDescriptor, empty protoreflect.Value) (protoreflect.Value, error) {
	switch empty.Message().Interface().(type) {
	case *durationpb.Duration:
		most := cmp.Or(longDurations[fd.FullName()], quota.MaxPause)
		d, given, err := r.Seconds(path, most)
		if err == nil && !given {
			err = apierr.Invalid(path, "is null; must be a number of seconds")
		}
		return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), err
	case *timestamppb.Timestamp:
		s, err := r.Str(path)
		if err != nil {
			return empty, err
		}
		return timestamp(path, s)
	}
	return empty, r.message(path, empty.Message())
}

// timestamp parses a time of RFC 3339. Nanoseconds since 1970 hold the years up to 2261.
func timestamp(field, text string) (protoreflect.Value, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Year() < 1970 || t.Year() > 2261 {
		return protoreflect.Value{}, apierr.Invalid(field, "is %q; must be a time such as 2027-01-31T18:00:00Z, from 1970 to 2261", apierr.Clip(text))
	}
	return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), nil
}

// enumNumber parses an enum value as Format writes it, or its name in the proto.
func enumNumber(field string, d protoreflect.EnumDescriptor, word string) (protoreflect.EnumNumber, error) {
	var words []string
	for i := range d.Values().Len() {
		n := d.Values().Get(i).Number()
		if n == 0 && !zeroIsWord(d) {
			continue
		}
		w := Word(d, n)
		if w == word || string(d.Values().Get(i).Name()) == word {
			return n, nil
		}
		words = append(words, w)
	}
	return 0, apierr.Invalid(field, "is %q;%s must be one of %s", apierr.Clip(word), suggest.DidYouMean(word, words, ""), strings.Join(words, ", "))
}

// DecodeQuery decodes a message of plain fields from a query; commas separate list items. It
// ignores names that are not fields of the message.
func DecodeQuery(q url.Values, m proto.Message) error {
	pm := m.ProtoReflect()
	for i := range pm.Descriptor().Fields().Len() {
		fd := pm.Descriptor().Fields().Get(i)
		name := string(fd.Name())
		if !q.Has(name) {
			continue
		}
		text := q.Get(name)
		if !fd.IsList() {
			v, err := queryValue(name, fd, text)
			if err != nil {
				return err
			}
			pm.Set(fd, v)
			continue
		}
		for item := range strings.SplitSeq(text, ",") {
			v, err := queryValue(name, fd, item)
			if err != nil {
				return err
			}
			pm.Mutable(fd).List().Append(v)
		}
	}
	return nil
}

func queryValue(name string, fd protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return queryMessage(name, fd, text)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(strings.ToValidUTF8(text, "\uFFFD")), nil
	case protoreflect.EnumKind:
		n, err := enumNumber(name, fd.Enum(), text)
		return protoreflect.ValueOfEnum(n), err
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return protoreflect.Value{}, apierr.Invalid(name, "is %q; must be true or false", apierr.Clip(text))
		}
		return protoreflect.ValueOfBool(text == "true"), nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind:
		bits := 64
		if fd.Kind() == protoreflect.Int32Kind {
			bits = 32
		}
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil || n < 0 {
			return protoreflect.Value{}, apierr.Invalid(name, "is %q; must be a whole number from 0 on", apierr.Clip(text))
		}
		switch fd.Kind() {
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(n)), nil
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(n), nil
		}
		return protoreflect.ValueOfUint64(uint64(n)), nil
	}
	// invariant: queries have plain fields; the contract test reads every one
	panic(fmt.Sprintf("api: %s cannot be in a query", fd.FullName()))
}

// queryMessage parses a time, or a duration in seconds or in the form 1m30s.
func queryMessage(name string, fd protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	switch fd.Message().FullName() {
	case "google.protobuf.Timestamp":
		return timestamp(name, text)
	case "google.protobuf.Duration":
		d, err := time.ParseDuration(text)
		if n, numeric := strconv.ParseFloat(text, 64); numeric == nil && math.Abs(n) <= quota.MaxPause.Seconds() {
			d, err = time.Duration(n*float64(time.Second)), nil
		}
		if err != nil || d < 0 || d > quota.MaxPause {
			return protoreflect.Value{}, apierr.Invalid(name, "is %q; must be seconds, or a time such as 1m30s", apierr.Clip(text))
		}
		return protoreflect.ValueOfMessage(durationpb.New(d).ProtoReflect()), nil
	}
	// invariant: queries have no other messages; the contract test reads every one
	panic(fmt.Sprintf("api: %s cannot be in a query", fd.FullName()))
}
