package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/history/export"
)

// table prints columns, two blanks apart; a column whose cells all look like
// numbers is aligned to the right.
type table struct {
	rows  [][]string
	width []int // of what was written before
}

func newTable(header ...string) *table { return &table{rows: [][]string{header}} }

// next begins another part of a table that has been written, without the header
// and as wide.
func (t *table) next() { t.rows = [][]string{make([]string, len(t.width))} }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	if c, ok := w.(*csvOut); ok {
		return c.table(t)
	}
	if t.width == nil {
		t.width = make([]int, len(t.rows[0]))
	}
	width := t.width
	right := make([]bool, len(width)) // some cell is a number, and none is anything else
	text := make([]bool, len(width))
	for n, r := range t.rows {
		for i, c := range r {
			c = shownCell(c)
			r[i] = c
			width[i] = max(width[i], utf8.RuneCountInString(c))
			switch {
			case n == 0 || c == "" || c == "-":
			case numeric(c):
				right[i] = true
			default:
				text[i] = true
			}
		}
	}
	var b strings.Builder
	for n, r := range t.rows {
		if n == 0 && strings.Join(r, "") == "" {
			continue // a later part has no header
		}
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[i] && !text[i] {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeOr writes a table, or to people, when it has no rows, a sentence.
func (t *table) writeOr(w io.Writer, none string) error {
	if _, csv := w.(*csvOut); len(t.rows) == 1 && !csv {
		_, err := io.WriteString(w, none+"\n")
		return err
	}
	return t.write(w)
}

// writeCSV writes the rows for other programs, with the headers in lower case (RFC 4180). A
// later part of a table has none.
func (t *table) writeCSV(w io.Writer) error {
	header := make([]string, len(t.rows[0]))
	for i, h := range t.rows[0] {
		header[i] = strings.ReplaceAll(strings.ToLower(programCell(h)), " ", "_")
	}
	out := csv.NewWriter(w)
	text := export.Cell // a spreadsheet could run a key as a formula
	if _, raw := w.(rawOut); raw {
		text = func(s string) string { return s }
	}
	if strings.Join(header, "") != "" {
		_ = out.Write(header) // its error stays for Error
	}
	for _, r := range t.rows[1:] {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = text(programCell(c))
		}
		_ = out.Write(cells)
	}
	out.Flush()
	t.width = make([]int, len(header))
	return out.Error()
}

// twoForms begins a cell that is one text for programs and another for people, and stands
// between the two: what people see has none in it.
const twoForms = "\x00"

// both is a cell in two forms.
func both(people, program string) string { return twoForms + program + twoForms + people }

// cell is what others chose, such as a key: cut short and made safe for people, as it is for
// programs.
func cell(s string) string { return both(show(s), s) }

// orNothing is a cell of what there may be none of.
func orNothing(s string) string {
	if s == "" {
		return nothing
	}
	return cell(s)
}

// exact is a number that people see rounded.
func exact(people string, v float64) string {
	return both(people, strconv.FormatFloat(v, 'f', -1, 64))
}

// nothing is a cell in which there is nothing to say; to programs it is empty.
const nothing = "-"

func shownCell(c string) string {
	if strings.HasPrefix(c, twoForms) {
		return c[strings.LastIndex(c, twoForms)+1:]
	}
	return c
}

func programCell(c string) string {
	switch {
	case strings.HasPrefix(c, twoForms):
		return c[1:strings.LastIndex(c, twoForms)]
	case c == nothing:
		return ""
	}
	return c
}

func numeric(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	return err == nil
}

// num prints a whole number.
func num[T int | int32 | int64 | uint32 | uint64](n T) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}

// show makes what others chose, such as a key, safe for a terminal and short
// enough for a table.
func show(s string) string {
	const most = 64
	s = printable(s)
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most-3]) + "..."
	}
	return s
}

// printable makes what others chose safe for a terminal.
func printable(s string) string {
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}
