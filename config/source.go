package config

import (
	"bytes"
	"errors"
	"io"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxFileBytes bounds the size of a file.
const MaxFileBytes = 4 << 20

const byteOrderMark = "\ufeff"

// readFile returns the file. Of a larger file it returns the first MaxFileBytes+1 bytes, which
// [report.documents] then refuses.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

// documents calls read with the top value of each YAML document in the report's data, which must
// have 1 to most. It reports a missing document, and reads nothing after a YAML error.
func (r *report) documents(startWith string, most int, read func(Value)) {
	if len(r.data) > MaxFileBytes {
		r.data = nil // no excerpts
		r.fault(0, 0, "", "is larger than 4 MiB; at most %d bytes are read", MaxFileBytes)
		return
	}
	if !r.checkBytes() {
		return
	}
	loader, err := yaml.NewLoader(bytes.NewReader(r.data))
	if err != nil {
		r.fault(0, 0, "", "cannot be read: %v", err)
		return
	}
	for n := 0; ; {
		var doc yaml.Node
		switch err := loader.Load(&doc); {
		case n == 0 && (errors.Is(err, io.EOF) || err == nil && empty(&doc)):
			r.fault(1, 1, "", "the file is empty; must start with %s", startWith)
			return
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			r.syntax(err)
			return
		case n == 1 && most == 1:
			r.faultAt(&doc, "", "a second document starts here; must be one document in a file")
			return
		case empty(&doc): // as after a "---" at the end
			continue
		case n == most:
			r.faultAt(doc.Content[0], "", "is over the maximum of %d documents in a file", most)
			return
		}
		root := doc.Content[0]
		r.plainOnly(root)
		read(Value{in: r, node: root})
		n++
	}
}

func empty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || isNull(doc.Content[0])
}

// checkBytes reports bytes and characters that these files never need and that YAML, editors and
// terminals treat differently. Once it passes, lines end with LF or CRLF, and columns count
// characters.
func (r *report) checkBytes() bool {
	before := len(r.faults)
	rest := bytes.TrimPrefix(r.data, []byte(byteOrderMark))
	for line := 1; len(rest) > 0; line++ {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		r.checkLine(line, bytes.TrimSuffix(text, []byte("\r")))
	}
	return len(r.faults) == before
}

// checkLine reports the first bad character of a line.
func (r *report) checkLine(line int, text []byte) {
	indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
	if tab := bytes.IndexByte(indent, '\t'); tab >= 0 && len(indent) < len(text) {
		r.fault(line, tab+1, "", "the line is indented with a tab; must be spaces")
		return
	}
	for column := 1; len(text) > 0; column++ {
		c, size := utf8.DecodeRune(text)
		if c == utf8.RuneError && size == 1 {
			r.fault(line, column, "", "byte 0x%02x is not UTF-8; the file must be UTF-8 text", text[0])
			return
		}
		if forbidden(c) {
			r.fault(line, column, "", "has the character %U; must be printable text", c)
			return
		}
		text = text[size:]
	}
}

func forbidden(c rune) bool {
	switch {
	case c == '\t':
		return false
	case c < ' ', 0x7f <= c && c <= 0x9f, c == 0x2028, c == 0x2029, c == 0xfeff, c == 0xfffe, c == 0xffff:
		return true
	}
	return false
}
