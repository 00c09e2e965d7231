// Package asi puts several texts together into one application-specific
// identifier (ASI), and takes them apart again. Namespaces, names and types of
// resources of accounts and policies are ASIs.
//
// The sections of an identifier stand behind each other with "|" in between.
// Whatever cannot stand in an identifier as it is is written as "{" and its
// ascii85 encoding, which has none of "{", "|" and "~": sections that contain "|",
// "~", a control character or what is not UTF-8, and those that begin with "{".
// People can read all others.
//
//	asi.Join("infra", "linux|x64", "ci")  // infra|{Ch[d0G^O`o1]|ci
//
// An identifier that was made otherwise is good too, as long as it has no "~" and
// no control character; [Split] takes any text.
//
// Nothing here keeps state: all functions are safe for concurrent use.
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

// Join returns the identifier that has these sections. Any bytes are allowed in a
// section, and it may be empty; what is encoded grows by a quarter. The same
// sections always make the same identifier, and other sections another one, except
// that no section at all makes what one empty section makes: "".
//
// An identifier has no "~" and no control character, and is UTF-8. It can be too
// long for the cluster, which takes 256 bytes.
//
// A first section that begins with "@" places the accounts of a namespace
// together, but only if it need not be encoded.
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

// Split returns the sections of an identifier, at least one. For everything that
// [Join] has made, except of no section at all, they are what it was made of.
//
// A section that begins with "{" and is not the ascii85 encoding of anything is
// returned as it is, with the "{". So is one that encodes what it does otherwise
// than Join does, with white space for example.
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

// plain reports whether a section can stand in an identifier as it is.
func plain(s string) bool {
	return !strings.HasPrefix(s, encoded) && !strings.ContainsAny(s, "|~") &&
		utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

func encode(s string) string {
	out := make([]byte, ascii85.MaxEncodedLen(len(s)))
	return string(out[:ascii85.Encode(out, []byte(s))])
}

// decode takes nothing but what encode makes: the decoder also passes over white
// space, and lets groups overflow.
func decode(text string) (string, bool) {
	out := make([]byte, 4*len(text)) // a "z" is four bytes
	n, _, err := ascii85.Decode(out, []byte(text), true)
	if err != nil {
		return "", false
	}
	s := string(out[:n])
	return s, encode(s) == text
}
