// Package jsontext makes JSON safe to display: texts chosen by callers, such as keys, may contain
// characters that control a terminal or an editor.
package jsontext

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// TooManyObjects reports whether text may have more than most objects: an empty one is three bytes of text,
// but a hundred in memory once it is decoded.
func TooManyObjects(text []byte, most int) bool { return bytes.Count(text, []byte("{")) > most }

// Escape replaces the characters for which IsDisplayControl is true by their JSON escapes. In valid JSON these occur only in
// strings, where the escapes mean the same. It returns text itself if nothing needs an escape.
func Escape(text []byte) []byte {
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		if IsDisplayControl(r) {
			return escape(text, i)
		}
		i += n
	}
	return text
}

func escape(text []byte, from int) []byte {
	out := append(make([]byte, 0, len(text)+32), text[:from]...)
	for i := from; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if IsDisplayControl(r) {
			out = fmt.Appendf(out, "\\u%04x", r)
		} else {
			out = append(out, text[i:i+n]...)
		}
		i += n
	}
	return out
}

// IsDisplayControl reports whether a character controls the display: DEL and the C1 controls, bidirectional
// controls, and the byte order mark. JSON itself escapes controls below U+0020.
func IsDisplayControl(r rune) bool {
	switch {
	case r < 0x7f:
		return false
	case r <= 0x9f, r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}
