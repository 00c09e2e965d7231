// Package asi joins several texts into one application-specific identifier (ASI) and splits it
// again. The namespaces, names and resource types of accounts and policies are ASIs.
//
// An identifier contains its sections, separated by "|". A section that cannot appear literally is
// written as "{" and its ascii85 encoding, which contains none of "{", "|" and "~". That applies to
// sections that contain "|", "~", a control character or invalid UTF-8, and to those that begin
// with "{". All other sections stay readable.
//
//	asi.Join("infra", "linux|x64", "ci")  // infra|{Ch[d0G^O`o1]|ci
//
// An identifier from another source is valid too if it has no "~" and no control character; [Split]
// accepts any text.
//
// The package keeps no state: all functions are safe for concurrent use.
package asi

import (
	"encoding/ascii85"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	separator = "|"
	encoded   = "{"
)

// Join returns the identifier with these sections. A section may contain any bytes and may be
// empty; encoding makes it a quarter longer. The same sections always give the same identifier, and
// different sections a different one, with one exception: no section and one empty section both
// give "".
//
// An identifier is valid UTF-8 without "~" and control characters. It can be too long for the
// cluster, which accepts 256 bytes.
//
// A first section of a namespace that begins with "@" places all accounts of one application, realm
// and first section in one range, but only if it needs no encoding.
func Join(sections ...string) string {
	var b strings.Builder
	for i, s := range sections {
		if i > 0 {
			b.WriteString(separator)
		}
		if plain(s) {
			b.WriteString(s)
		} else {
			b.WriteString(encoded)
			b.WriteString(encode(s))
		}
	}
	return b.String()
}

// Split returns the sections of an identifier, at least one. For every result of [Join] they are
// the sections that Join was given, except that Split("") returns one empty section.
//
// Split returns a section that begins with "{" unchanged, with the "{", if the rest is not a valid
// ascii85 encoding or not the one that Join writes, for example because it contains white space.
func Split(id string) []string {
	sections := strings.Split(id, separator)
	for i, s := range sections {
		if text, ok := strings.CutPrefix(s, encoded); ok {
			if plain, ok := decode(text); ok {
				sections[i] = plain
			}
		}
	}
	return sections
}

// plain reports whether a section can appear in an identifier literally.
func plain(s string) bool {
	return !strings.HasPrefix(s, encoded) && !strings.ContainsAny(s, "|~") &&
		utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func encode(s string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(s)))
	return string(out[:ascii85.Encode(out, []byte(s))])
}

// decode accepts only what encode produces: the ascii85 decoder also skips white space and lets
// groups overflow.
func decode(text string) (string, bool) {
	out := make([]byte, 4*len(text)) // a "z" stands for four bytes
	n, _, err := ascii85.Decode(out, []byte(text), true)
	if err != nil {
		return "", false
	}
	s := string(out[:n])
	return s, encode(s) == text
}
