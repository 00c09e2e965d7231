package render

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/history/export"
)

// Table prints columns, two blanks apart; a column whose cells all look like
// numbers is aligned to the right.
type Table struct {
	Rows  [][]string
	width []int // of what was written before
}

// NewTable returns a table with these titles.
func NewTable(header ...string) *Table { return &Table{Rows: [][]string{header}} }

// Next begins another part of a table that has been written, without the header
// and as wide.
func (t *Table) Next() { t.Rows = [][]string{make([]string, len(t.width))} }

// Row adds a row.
func (t *Table) Row(cells ...string) { t.Rows = append(t.Rows, cells) }

func (t *Table) Write(w io.Writer) error {
	if c, ok := w.(*CSVOut); ok {
		return c.table(t)
	}
	if t.width == nil {
		t.width = make([]int, len(t.Rows[0]))
	}
	width := t.width
	right := make([]bool, len(width)) // some cell is a number, and none is anything else
	text := make([]bool, len(width))
	for n, r := range t.Rows {
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
	for n, r := range t.Rows {
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

// WriteOr writes a table, or to people, when it has no rows, a sentence.
func (t *Table) WriteOr(w io.Writer, none string) error {
	if _, csv := w.(*CSVOut); len(t.Rows) == 1 && !csv {
		_, err := io.WriteString(w, none+"\n")
		return err
	}
	return t.Write(w)
}

// WriteCSV writes the rows for other programs, with the headers in lower case (RFC 4180). A
// later part of a table has none.
func (t *Table) WriteCSV(w io.Writer) error {
	header := make([]string, len(t.Rows[0]))
	for i, h := range t.Rows[0] {
		header[i] = strings.ReplaceAll(strings.ToLower(programCell(h)), " ", "_")
	}
	out := csv.NewWriter(w)
	text := export.Cell // a spreadsheet could run a key as a formula
	if _, raw := w.(RawOut); raw {
		text = func(s string) string { return s }
	}
	if strings.Join(header, "") != "" {
		_ = out.Write(header) // its error stays for Error
	}
	for _, r := range t.Rows[1:] {
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

// Both is a cell in two forms.
func Both(people, program string) string { return twoForms + program + twoForms + people }

// Cell is what others chose, such as a key: cut short and made safe for people, as it is for
// programs.
func Cell(s string) string { return Both(Show(s), s) }

// OrNothing is a cell of what there may be none of.
func OrNothing(s string) string {
	if s == "" {
		return Nothing
	}
	return Cell(s)
}

// Exact is a number that people see rounded.
func Exact(people string, v float64) string {
	return Both(people, strconv.FormatFloat(v, 'f', -1, 64))
}

// Nothing is a cell in which there is nothing to say; to programs it is empty.
const Nothing = "-"

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
	case c == Nothing:
		return ""
	}
	return c
}

func numeric(s string) bool {
	_, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	return err == nil
}

// Num prints a whole number.
func Num[T int | int32 | int64 | uint32 | uint64](n T) string {
	if n < 0 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatUint(uint64(n), 10)
}
