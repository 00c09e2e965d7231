package api

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/api/auth"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/audit"
)

// Bounds of the summary of a request in the audit log.
const (
	maxWhat     = 1 << 10 // bytes in all
	maxWhatText = 100     // bytes of one value
	maxWhatList = 3       // items of a list
)

// Audit writes a call to the audit log, and counts it if it was denied. The log is for calls that
// change something and for denied calls.
func (s *Gate) Audit(v *Call) {
	e := audit.Entry{
		Node: s.self, RequestID: v.RequestID, Identity: v.Caller.Identity, Credential: v.Caller.Credential.String(), Serial: v.Caller.Serial,
		Address: v.Address, Method: v.Method, Result: audit.OK, What: summary(v.request()), Answer: summary(v.Res),
	}
	if e.RequestID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:])
		e.RequestID = hex.EncodeToString(b[:])
	}
	if ops, ok := v.Res.(*quoratev1.ApplyOpsResponse); ok && ops != nil && !ops.Applied {
		v.Failed = &apierr.Error{Code: codes.Aborted, HTTP: http.StatusConflict, Reason: "NOT_APPLIED", Detail: "an operation failed, and none was applied"}
	}
	if v.Failed != nil {
		f := FromStatus(v.Failed)
		e.Result, e.Code, e.Detail, e.MayBeDone = audit.Failed, f.Reason, tokenText.ReplaceAllString(f.Error(), "[secret]"), v.mayBeDone()
		if f.Denied() {
			e.Result = audit.Denied
			s.denied.WithLabelValues(labelOf(v.Method), f.Reason).Inc()
		}
	}
	s.audit.Write(e)
}

// mayBeDone reports whether the call failed without proof that it changed nothing. It reports false
// for calls that need no permission (joining), so that unauthenticated callers cannot fill the log of changes.
func (v *Call) mayBeDone() bool {
	switch FromStatus(v.Failed).Code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Unavailable, codes.Internal:
		return v.Rule.Audited && v.Rule.Need != auth.Open
	}
	return false
}

// OtherMethod is the label in metrics of methods that do not exist.
const OtherMethod = "other"

// labelOf returns a method's label in metrics. Unknown methods share one label.
func labelOf(method string) string {
	if _, ok := auth.RuleOf(method); ok {
		return method
	}
	return OtherMethod
}

// summary returns a message in short form: its fields in order, without secrets and bytes, and only
// the first items of lists.
func summary(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return ""
	}
	var b strings.Builder
	summarize(&b, m.ProtoReflect(), 0)
	if b.Len() > maxWhat {
		return strings.ToValidUTF8(b.String()[:maxWhat], "") + "..."
	}
	return b.String()
}

func summarize(b *strings.Builder, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	first := true
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) || b.Len() > maxWhat {
			continue
		}
		if !first {
			b.WriteByte(' ')
		}
		first = false
		b.WriteString(string(fd.Name()))
		b.WriteByte('=')
		switch v := m.Get(fd); {
		case secret(fd):
			b.WriteString("[secret]")
		case fd.IsMap():
			fmt.Fprintf(b, "(%d)", v.Map().Len())
		case fd.IsList():
			summarizeList(b, fd, v.List(), depth)
		default:
			summarizeOne(b, fd, v, depth)
		}
	}
}

func summarizeList(b *strings.Builder, fd protoreflect.FieldDescriptor, list protoreflect.List, depth int) {
	fmt.Fprintf(b, "(%d)[", list.Len())
	for i := range min(list.Len(), maxWhatList) {
		if i > 0 {
			b.WriteString(", ")
		}
		summarizeOne(b, fd, list.Get(i), depth)
	}
	if list.Len() > maxWhatList {
		b.WriteString(", ...")
	}
	b.WriteByte(']')
}

func summarizeOne(b *strings.Builder, fd protoreflect.FieldDescriptor, v protoreflect.Value, depth int) {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if word, ok := wellKnown(v.Message()); ok {
			b.WriteString(word)
			return
		}
		if depth > 3 {
			b.WriteString("{...}")
			return
		}
		b.WriteByte('{')
		summarize(b, v.Message(), depth+1)
		b.WriteByte('}')
	case protoreflect.BytesKind:
		fmt.Fprintf(b, "(%d bytes)", len(v.Bytes()))
	case protoreflect.StringKind:
		text := v.String()
		if fd.Name() == "yaml" {
			fmt.Fprintf(b, "(%d bytes)", len(text))
			return
		}
		if holdsToken(text) { // in a field that is not for tokens
			b.WriteString("[secret]")
			return
		}
		b.WriteString(strconv.Quote(cut(text)))
	case protoreflect.EnumKind:
		if one := fd.Enum().Values().ByNumber(v.Enum()); one != nil {
			b.WriteString(string(one.Name()))
			return
		}
		fmt.Fprint(b, v.Enum())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

// wellKnown formats m as people write it if m is a time or a duration.
func wellKnown(m protoreflect.Message) (string, bool) {
	switch v := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return v.AsTime().Format(time.RFC3339Nano), true
	case *durationpb.Duration:
		return v.AsDuration().String(), true
	}
	return "", false
}

// tokenText matches a join token or a bearer token, from its first word to its end or the end of what is left of it. It
// does not match the descriptions of tokens in errors.
var tokenText = regexp.MustCompile(`quorate1t?\.[0-9a-f]{1,12}\.[A-Za-z0-9_.-]+`)

// holdsToken reports whether a text holds a join token or a bearer token, or the beginning of one.
func holdsToken(text string) bool {
	return strings.Contains(text, "quorate1.") || strings.Contains(text, "quorate1t.")
}

// cut shortens a text to maxWhatText bytes, and never splits a character.
func cut(s string) string {
	if len(s) <= maxWhatText {
		return s
	}
	end := maxWhatText
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}

// secret reports whether a field must not be shown, by its name. The option debug_redact would say
// so too, but the compilers from before 2023 that distributions ship reject protos that use it.
func secret(fd protoreflect.FieldDescriptor) bool {
	switch fd.Name() {
	case "token", "secret", "password", "handle":
		return true
	}
	return false
}
