package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// MaxFileBytes is the largest file that is read.
const MaxFileBytes = 4 << 20

const byteOrderMark = "\ufeff"

// readFile returns the file, or its first MaxFileBytes+1 bytes, which
// [report.root] then refuses.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// root returns the top value of the one YAML document in the report's data, or
// nil after reporting why there is none.
func (r *report) root(startWith string) *yaml.Node {
	loader, first := r.first(startWith)
	if first == nil {
		return nil
	}
	r.oneDocument(loader)
	r.plainOnly(first)
	return first
}

// roots returns the top values of all documents, of which there may be most.
// What follows a mistake in the YAML is not among them.
func (r *report) roots(startWith string, most int) []*yaml.Node {
	loader, root := r.first(startWith)
	var all []*yaml.Node
	for root != nil {
		if len(all) == most {
			r.node(root, "", "is one document too many; at most %d in a file", most)
			return all
		}
		r.plainOnly(root)
		all = append(all, root)
		root = r.next(loader)
	}
	return all
}

// first returns the top value of the first document.
func (r *report) first(startWith string) (*yaml.Loader, *yaml.Node) {
	if len(r.data) > MaxFileBytes {
		r.data = nil // no excerpts
		r.at(0, 0, "", "is larger than 4 MiB; at most %d bytes are read", MaxFileBytes)
		return nil, nil
	}
	if !r.checkBytes() {
		return nil, nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(r.data))
	if err != nil {
		r.at(0, 0, "", "cannot be read: %v", err)
		return nil, nil
	}
	var doc yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF), err == nil && empty(&doc):
		r.at(1, 1, "", "the file is empty; must start with %s", startWith)
		return nil, nil
	case err != nil:
		r.syntax(err)
		return nil, nil
	}
	return loader, doc.Content[0]
}

// next returns the top value of the next document, or nil after the last. Empty
// ones, as after a "---" at the end, are passed over.
func (r *report) next(loader *yaml.Loader) *yaml.Node {
	for {
		var doc yaml.Node
		switch err := loader.Load(&doc); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			r.syntax(err)
			return nil
		case !empty(&doc):
			return doc.Content[0]
		}
	}
}

func empty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || isNull(doc.Content[0])
}

// checkBytes reports every byte and character that these files never need and
// that YAML, editors and terminals disagree about. After it, a line ends with
// LF or CRLF, and columns count characters.
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
		r.at(line, tab+1, "", "the line is indented with a tab; must be spaces")
		return
	}
	for column := 1; len(text) > 0; column++ {
		c, size := utf8.DecodeRune(text)
		if c == utf8.RuneError && size == 1 {
			r.at(line, column, "", "byte 0x%02x is not UTF-8; the file must be UTF-8 text", text[0])
			return
		}
		if forbidden(c) {
			r.at(line, column, "", "has the character %U; must be printable text", c)
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
