package render

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/quorate/quorate/internal/history/export"
	"github.com/quorate/quorate/internal/phrase"
)

// Cell is a cell of a table: the text for people, and the value for programs.
type Cell struct {
	Human, Machine string
	Text           bool // not a number, even if it looks like one
}

// Nothing is the text of an empty cell. For programs the cell is empty.
const Nothing = "-"

// Name returns a cell with a text that a user chose, such as a key. People see it shortened and
// safe for a terminal.
func Name(s string) Cell { return Cell{phrase.Show(s), s, true} }

// NameOrNothing returns Name(s), or a cell with Nothing if s is empty.
func NameOrNothing(s string) Cell {
	if s == "" {
		return Cell{Human: Nothing}
	}
	return Name(s)
}

// Exact returns a cell with a number that people see rounded.
func Exact(human string, v float64) Cell {
	return Cell{Human: human, Machine: strconv.FormatFloat(v, 'f', -1, 64)}
}

// Part returns a cell with a fraction, which people see as a percentage.
func Part(part float64) Cell { return Exact(fmt.Sprintf("%.0f%%", 100*part), part) }

// Table has columns two blanks apart. A column of numbers is aligned to the right.
type Table struct {
	titles, csvTitles []string
	onlyCSV           []bool // columns hidden from people
	rows              [][]Cell
	width             []int // of the columns, once a part has been written
	begun             bool  // an earlier part has been written, with the titles
}

// NewTable returns a table with the given titles. In CSV they are in lower case, with underscores.
func NewTable(titles ...string) *Table {
	t := &Table{titles: titles, width: make([]int, len(titles)), onlyCSV: make([]bool, len(titles))}
	for _, s := range titles {
		t.csvTitles = append(t.csvTitles, strings.ReplaceAll(strings.ToLower(s), " ", "_"))
	}
	return t
}

// CSVTitle gives a column another title in CSV.
func (t *Table) CSVTitle(title, inCSV string) { t.csvTitles[slices.Index(t.titles, title)] = inCSV }

// OnlyCSV hides a column from people.
func (t *Table) OnlyCSV(title string) { t.onlyCSV[slices.Index(t.titles, title)] = true }

// Row adds a row. A cell is a Cell, or a value that is the same for people and programs; the text
// [Nothing] is empty for programs.
func (t *Table) Row(cells ...any) {
	row := make([]Cell, len(cells))
	for i, v := range cells {
		switch v := v.(type) {
		case Cell:
			row[i] = v
		default:
			s := fmt.Sprint(v)
			if row[i] = (Cell{Human: s, Machine: s}); s == Nothing {
				row[i].Machine = ""
			}
		}
	}
	t.rows = append(t.rows, row)
}

// Len returns the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// next drops the rows, which have been written. Later rows keep the widths and have no titles.
func (t *Table) next() { t.rows, t.begun = nil, true }

// Write writes the table for people.
func (t *Table) Write(w io.Writer) error {
	lines := make([][]string, 0, len(t.rows)+1)
	if !t.begun && strings.Join(t.titles, "") != "" {
		lines = append(lines, t.titles)
	}
	right := make([]bool, len(t.titles)) // some cell is a number, and no cell is anything else
	text := make([]bool, len(t.titles))
	for _, row := range t.rows {
		line := make([]string, len(row))
		for i, c := range row {
			line[i] = c.Human
			switch _, err := strconv.ParseFloat(strings.TrimSuffix(c.Human, "%"), 64); {
			case c.Human == "" || c.Human == Nothing:
			case err == nil && !c.Text:
				right[i] = true
			default:
				text[i] = true
			}
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		for i, s := range line {
			t.width[i] = max(t.width[i], utf8.RuneCountInString(s))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var out strings.Builder
		for i, s := range line {
			pad := strings.Repeat(" ", t.width[i]-utf8.RuneCountInString(s))
			switch {
			case t.onlyCSV[i]:
			case right[i] && !text[i]:
				out.WriteString(pad + s + "  ")
			default:
				out.WriteString(s + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describe writes each row as its first cell and, below it, the other fields. A row
// without a first cell continues the one before.
func (t *Table) describe(w io.Writer) error {
	var b strings.Builder
	wide := 0
	for i, title := range t.titles[1:] {
		if !t.onlyCSV[i+1] {
			wide = max(wide, utf8.RuneCountInString(title))
		}
	}
	for _, row := range t.rows {
		if name := row[0].Human; name != "" {
			fmt.Fprintf(&b, "%s %s\n", strings.ToLower(t.titles[0]), name)
		}
		for i, c := range row {
			if i > 0 && !t.onlyCSV[i] && c.Human != "" {
				fmt.Fprintf(&b, "  %-*s  %s\n", wide, strings.ToLower(t.titles[i]), c.Human)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCSV writes the table for other programs (RFC 4180). Unless raw, it escapes what a
// spreadsheet would run as a formula, such as a key that begins with =.
func (t *Table) writeCSV(w io.Writer, raw bool) error {
	out := csv.NewWriter(w)
	if !t.begun {
		_ = out.Write(t.csvTitles) // Error returns its error
	}
	for _, row := range t.rows {
		line := make([]string, len(row))
		for i, c := range row {
			if line[i] = c.Machine; !raw {
				line[i] = export.Cell(c.Machine)
			}
		}
		_ = out.Write(line)
	}
	out.Flush()
	return out.Error()
}
