package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/missing"
)

// reader reads the API's JSON strictly: it knows each object's fields, takes no
// field twice, and stops at the first fault.
type reader struct {
	b []byte
	i int
}

// object reads an object of the given fields; read takes one field's value.
func (r *reader) object(path string, fields []string, read func(field int) error) error {
	if r.peek() != '{' {
		return apierr.Invalid(orBody(path), "is %s; must be an object", r.describe())
	}
	r.i++
	seen := 0
	for first := true; ; first = false {
		switch c := r.peek(); {
		case c == '}':
			r.i++
			return nil
		case !first && c != ',':
			return r.expected("a comma or } after a field")
		case !first:
			r.i++
		}
		if r.peek() != '"' {
			return r.expected("a field name in double quotes")
		}
		n, name := r.known(fields), ""
		if n >= 0 {
			name = fields[n]
		} else {
			var f error
			if name, f = r.str(orBody(path)); f != nil {
				return f
			}
			n = fieldIndex(fields, name)
		}
		if n < 0 {
			return apierr.Invalid(orBody(apierr.Join(path, apierr.Clip(name))), "unknown field %q;%s there are: %s", apierr.Clip(name), missing.DidYouMean(name, fields, ""), missing.List(fields, false))
		}
		if seen&(1<<n) != 0 {
			return apierr.Invalid(apierr.Join(path, name), "is there twice; give it once")
		}
		seen |= 1 << n
		if r.peek() != ':' {
			return r.expected("a colon after the field name")
		}
		r.i++
		if f := read(n); f != nil {
			return f
		}
	}
}

// fieldIndex is index, and finds a field by its protobuf JSON form too.
func fieldIndex(fields []string, name string) int {
	if n := index(fields, name); n >= 0 {
		return n
	}
	return slices.IndexFunc(fields, func(f string) bool { return isCamel(f, name) })
}

// isCamel reports whether name is the protobuf JSON form of a field, such as maxWait for
// max_wait.
func isCamel(field, name string) bool {
	i, upper := 0, false
	for _, c := range []byte(field) {
		if c == '_' {
			upper = true
			continue
		}
		if upper && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if upper = false; i == len(name) || name[i] != c {
			return false
		}
		i++
	}
	return i == len(name)
}

// known takes a name that is one of fields, as it stands there. It returns -1, and
// takes nothing, if it is anything else.
func (r *reader) known(fields []string) int {
	rest := r.b[r.i+1:]
	for n, f := range fields {
		if len(rest) > len(f) && rest[len(f)] == '"' && string(rest[:len(f)]) == f {
			r.i += len(f) + len(`""`)
			return n
		}
	}
	return -1
}

// str reads a string, copying it out of the body.
func (r *reader) str(field string) (string, error) {
	if r.peek() != '"' {
		return "", apierr.Invalid(field, "is %s; must be a string", r.describe())
	}
	rest := r.b[r.i+1:]
	end, escaped := 0, false
	for ; end < len(rest) && rest[end] != '"'; end++ {
		if rest[end] < ' ' {
			return "", apierr.Invalid(field, "has a control character at %s of the body; write it as \\u%04x", r.place(r.i+1+end), rest[end])
		}
		if rest[end] == '\\' {
			escaped = true
			end++
		}
	}
	if end >= len(rest) {
		return "", apierr.Invalid(field, "the string at %s of the body has no closing quote", r.place(r.i))
	}
	raw := rest[:end]
	if !utf8.Valid(raw) {
		return "", apierr.Invalid(field, "is not UTF-8; encode it, as base64 or hex")
	}
	start := r.i
	r.i += end + 2
	if !escaped {
		return string(raw), nil
	}
	var s string
	if err := json.Unmarshal(r.b[start:r.i], &s); err != nil {
		return "", apierr.Invalid(field, "%s, at %s of the body, has a bad escape: %v", apierr.Clip(string(raw)), r.place(start), err)
	}
	return s, nil
}

// start refuses a body that is empty or no object with an example of what belongs there.
func (r *reader) start(example string) error {
	switch r.peek() {
	case '{':
		return nil
	case 0:
		return apierr.Invalid("body", "is empty; send JSON such as %s", example)
	}
	return apierr.Invalid("body", "is %s; must be an object, such as %s", r.describe(), example)
}

func (r *reader) end() error {
	if r.peek(); r.i < len(r.b) {
		return apierr.Invalid("body", "has more after the object, at %s: %s; send one object", r.place(r.i), r.describe())
	}
	return nil
}

// peek skips blanks and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// place says where byte i of the body is: of a body of several lines also in which.
func (r *reader) place(i int) string {
	before := r.b[:i]
	line := bytes.Count(before, []byte("\n"))
	if line == 0 {
		return fmt.Sprintf("byte %d", i)
	}
	return fmt.Sprintf("byte %d (line %d, column %d)", i, line+1, i-bytes.LastIndexByte(before, '\n'))
}

// token returns the number or word at the reader, without taking it.
func (r *reader) token() []byte {
	rest := r.b[r.i:]
	if n := bytes.IndexAny(rest, ",]}: \t\r\n\"[{"); n >= 0 {
		rest = rest[:n]
	}
	return rest
}

func (r *reader) expected(what string) *apierr.Error {
	return apierr.Invalid("body", "at %s: %s, where %s belongs", r.place(r.i), r.describe(), what)
}

// describe says in a few words what comes next.
func (r *reader) describe() string {
	switch c := r.peek(); {
	case r.i >= len(r.b):
		return "the end of the body"
	case c == '"':
		if s, f := r.str(""); f == nil {
			return fmt.Sprintf("the string %q", apierr.Clip(s))
		}
		return "a broken string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	}
	raw := r.token()
	if len(raw) == 0 {
		return fmt.Sprintf("%q", r.b[r.i])
	}
	return apierr.Clip(string(raw))
}

func orBody(path string) string {
	if path == "" {
		return "body"
	}
	return path
}

func index(fields []string, name string) int {
	for i, f := range fields {
		if f == name {
			return i
		}
	}
	return -1
}
