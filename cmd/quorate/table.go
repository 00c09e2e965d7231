package main

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// writeCSV writes the rows for other programs, with the headers in lower case (RFC 4180). A
// later part of a table has none.
func (t *table) writeCSV(w io.Writer) error {
	header := make([]string, len(t.rows[0]))
	for i, h := range t.rows[0] {
		header[i] = strings.ReplaceAll(strings.ToLower(h), " ", "_")
	}
	out := csv.NewWriter(w)
	if strings.Join(header, "") != "" {
		_ = out.Write(header) // its error stays for Error
	}
	for _, r := range t.rows[1:] {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = strings.TrimPrefix(c, whole)
		}
		_ = out.Write(cells)
	}
	out.Flush()
	t.width = make([]int, len(header))
	return out.Error()
}

// whole begins a cell of which people see what fits, and programs all.
const whole = "\x00"

// cell is what others chose, such as a key: cut short and made safe for people, as it is for
// programs.
func cell(s string) string { return whole + s }

func shownCell(c string) string {
	if s, ok := strings.CutPrefix(c, whole); ok {
		return show(s)
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
