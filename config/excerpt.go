package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// excerptWidth is how many characters of a long source line an excerpt shows.
const excerptWidth = 100

// addExcerpts sets the Excerpt of every fault that has a place, in one pass over the data. The
// faults must be sorted by line.
func addExcerpts(data []byte, faults []Fault) {
	var text []rune // the line before data
	line := 0
	for i := range faults {
		f := &faults[i]
		for line < f.Line {
			if line > 0 && len(data) == 0 {
				return // places past the end have no excerpt
			}
			var this []byte
			this, data, _ = bytes.Cut(data, []byte("\n"))
			if line++; line == f.Line {
				text = []rune(strings.TrimPrefix(string(bytes.TrimSuffix(this, []byte("\r"))), byteOrderMark))
			}
		}
		if f.Line > 0 && len(text) > 0 {
			f.Excerpt = excerpt(text, f.Line, f.Column)
		}
	}
}

// excerpt draws one source line and a caret under the column. It cuts a long line around the
// column, and replaces unprintable characters with dots.
func excerpt(text []rune, line, column int) string {
	at := min(max(column-1, 0), len(text))
	from := 0
	if len(text) > excerptWidth {
		from = min(max(at-excerptWidth/2, 0), len(text)-excerptWidth)
	}
	to := min(from+excerptWidth, len(text))
	before, after := "", ""
	if from > 0 {
		before = "…"
	}
	if to < len(text) {
		after = "…"
	}
	number := fmt.Sprintf("%5d", line)
	caret := strings.Repeat(" ", len([]rune(before))+at-from) + "^"
	return number + " | " + before + printable(text[from:to]) + after + "\n" +
		strings.Repeat(" ", len(number)) + " | " + caret
}

// printable replaces characters that would move the caret or control the terminal.
func printable(text []rune) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, string(text))
}
