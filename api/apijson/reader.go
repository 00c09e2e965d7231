package apijson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/suggest"
)

// Reader reads the API's JSON strictly: it knows the fields of each object, refuses repeated
// fields, and stops at the first error.
type Reader struct {
	b []byte
	i int
}

// NewReader returns a reader of a body.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Array reads an array of at most most items; item reads the item at a path.
func (r *Reader) Array(path string, most int, item func(path string) error) error {
	if r.peek() != '[' {
		return apierr.Invalid(path, "is %s; must be an array", r.describe())
	}
	r.i++
	if r.peek() == ']' {
		r.i++
		return nil
	}
	for n := 0; ; n++ {
		if n == most {
			return apierr.Invalid(path, "more than %d; send at most %d in one call", most, most)
		}
		if err := item(path + "[" + strconv.Itoa(n) + "]"); err != nil {
			return err
		}
		switch r.peek() {
		case ',':
			r.i++
		case ']':
			r.i++
			return nil
		default:
			return r.expected("a comma or ] after an item of " + path)
		}
	}
}

// Object reads an object with the given fields; read reads the value of one field.
func (r *Reader) Object(path string, fields []string, read func(field int) error) error {
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
		n := r.known(fields)
		if n < 0 {
			name, err := r.Str(orBody(path))
			if err != nil {
				return err
			}
			if n = FieldIndex(fields, name); n < 0 {
				return apierr.Invalid(orBody(apierr.Join(path, apierr.Clip(name))), "unknown field %q;%s known: %s", apierr.Clip(name), suggest.DidYouMean(name, fields, ""), suggest.List(fields, false))
			}
		}
		if seen&(1<<n) != 0 {
			return apierr.Invalid(apierr.Join(path, fields[n]), "is a duplicate; give it once")
		}
		seen |= 1 << n
		if r.peek() != ':' {
			return r.expected("a colon after the field name")
		}
		r.i++
		if err := read(n); err != nil {
			return err
		}
	}
}

// FieldIndex returns the index of a field by its name or its protobuf JSON form, or -1.
func FieldIndex(fields []string, name string) int {
	if n := slices.Index(fields, name); n >= 0 {
		return n
	}
	return slices.IndexFunc(fields, func(f string) bool { return isCamel(f, name) })
}

// isCamel reports whether name is the protobuf JSON form of a field, such as maxWait for max_wait.
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

// known consumes a name that is one of fields, unescaped. For anything else it consumes nothing and
// returns -1.
func (r *Reader) known(fields []string) int {
	rest := r.b[r.i+1:]
	for n, f := range fields {
		if len(rest) > len(f) && rest[len(f)] == '"' && string(rest[:len(f)]) == f {
			r.i += len(f) + len(`""`)
			return n
		}
	}
	return -1
}

// Str reads a string, and copies it out of the body.
func (r *Reader) Str(field string) (string, error) {
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

// Start refuses an empty body and a body that is not an object; the error shows an example.
func (r *Reader) Start(example string) error {
	switch r.peek() {
	case '{':
		return nil
	case 0:
		return apierr.Invalid("body", "is empty; send JSON such as %s", example)
	}
	return apierr.Invalid("body", "is %s; must be an object, such as %s", r.describe(), example)
}

// End refuses data after the object.
func (r *Reader) End() error {
	if r.peek(); r.i < len(r.b) {
		return apierr.Invalid("body", "has more after the object, at %s: %s; send one object", r.place(r.i), r.describe())
	}
	return nil
}

// peek skips white space and returns the next byte, or 0 at the end.
func (r *Reader) peek() byte {
	for ; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// place returns the position of byte i of the body, with its line if the body has several lines
// before it.
func (r *Reader) place(i int) string {
	before := r.b[:i]
	line := bytes.Count(before, []byte("\n"))
	if line == 0 {
		return fmt.Sprintf("byte %d", i)
	}
	return fmt.Sprintf("byte %d (line %d, column %d)", i, line+1, i-bytes.LastIndexByte(before, '\n'))
}

// token returns the number or word at the reader, without consuming it.
func (r *Reader) token() []byte {
	rest := r.b[r.i:]
	if n := bytes.IndexAny(rest, ",]}: \t\r\n\"[{"); n >= 0 {
		rest = rest[:n]
	}
	return rest
}

func (r *Reader) expected(what string) *apierr.Error {
	return apierr.Invalid("body", "at %s: %s, where %s belongs", r.place(r.i), r.describe(), what)
}

// describe describes the next value in a few words.
func (r *Reader) describe() string {
	switch c := r.peek(); {
	case r.i >= len(r.b):
		return "the end of the body"
	case c == '"':
		if s, err := r.Str(""); err == nil {
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

// Null consumes a null if it comes next, and reports whether it did.
func (r *Reader) Null() bool {
	r.peek()
	if string(r.token()) != "null" {
		return false
	}
	r.i += len("null")
	return true
}

// Whole reads an integer of at most bits bits.
func (r *Reader) Whole(field string, bits int, what string) (int64, error) {
	r.peek()
	raw := r.token()
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil || raw[0] == '+' || !json.Valid(raw) {
		return 0, apierr.Invalid(field, "is %s; must be a whole number %s", r.describe(), what)
	}
	r.i += len(raw)
	return n, nil
}

// number reads a number that a float64 can hold.
func (r *Reader) number(field, what string) (float64, error) {
	r.peek()
	raw := r.token()
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !json.Valid(raw) {
		return 0, apierr.Invalid(field, "is %s; must be %s", r.describe(), what)
	}
	r.i += len(raw)
	return f, nil
}

// Seconds reads a duration of at most most, or null for absent.
func (r *Reader) Seconds(field string, most time.Duration) (d time.Duration, given bool, err error) {
	if r.Null() {
		return 0, false, nil
	}
	start := r.i
	n, err := r.number(field, "a number of seconds, such as 0.5")
	if err != nil {
		return 0, false, err
	}
	if n < 0 || n > most.Seconds() {
		return 0, false, apierr.Invalid(field, "is %s; must be 0 to %.0f seconds", apierr.Clip(string(bytes.TrimSpace(r.b[start:r.i]))), most.Seconds())
	}
	return time.Duration(math.Round(n * float64(time.Second))), true, nil
}
