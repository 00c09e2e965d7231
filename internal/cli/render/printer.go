package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api/apijson"
	"github.com/quorate/quorate/internal/jsontext"
)

// Printer writes the answers of a command in one format.
type Printer interface {
	// Print writes one answer: data, or what page writes for people.
	Print(data any, page func(*Page)) error

	add(l *List, items []proto.Message) error
	end(l *List, fields string) error
}

// NewPrinter returns the printer of a format. Formats that only one command has are printed like
// pages.
func NewPrinter(format string, raw bool, w io.Writer) Printer {
	switch format {
	case FormatJSON:
		return jsonPrinter{w}
	case FormatYAML:
		return &yamlPrinter{w: w}
	case FormatCSV:
		return &csvPrinter{w: w, raw: raw}
	}
	return pagePrinter{w: w}
}

// Page is an answer for people: text and tables, in order.
type Page struct{ parts []part }

// part is a text or a table.
type part struct {
	text  []byte // with a table: what people read instead of it
	table *Table
	or    bool   // if the table has no rows, print none instead
	none  string // may be empty
}

// Write adds text; it implements io.Writer and never fails.
func (p *Page) Write(text []byte) (int, error) {
	p.parts = append(p.parts, part{text: append([]byte{}, text...)})
	return len(text), nil
}

// Table adds a table.
func (p *Page) Table(t *Table) { p.parts = append(p.parts, part{table: t}) }

// TableOr adds a table. If the table has no rows, a page shows the sentence none instead, which may
// be empty; CSV still has the table.
func (p *Page) TableOr(t *Table, none string) {
	if none != "" {
		none += "\n"
	}
	p.parts = append(p.parts, part{table: t, or: true, none: none})
}

// Record adds one entry of a stream: a line of text for people, and in CSV a row of the table t, with the titles
// before the first one.
func (p *Page) Record(t *Table, line string, cells ...any) {
	t.Row(cells...)
	p.parts = append(p.parts, part{text: []byte(line + "\n"), table: t})
}

// WritePage writes a page for people.
func WritePage(w io.Writer, page func(*Page)) error { return pagePrinter{w: w}.Print(nil, page) }

// pagePrinter prints whole pages. With describe, it prints the fields of each row one below the other.
type pagePrinter struct {
	w        io.Writer
	describe bool
}

func (p pagePrinter) table(t *Table) error {
	if p.describe {
		return t.describe(p.w)
	}
	return t.Write(p.w)
}

// Print implements Printer.
func (p pagePrinter) Print(_ any, page func(*Page)) error {
	var content Page
	page(&content)
	for _, part := range content.parts {
		var err error
		switch {
		case part.text != nil:
			_, err = p.w.Write(part.text)
			if part.table != nil {
				part.table.next()
			}
		case part.or && len(part.table.rows) == 0:
			_, err = io.WriteString(p.w, part.none)
		default:
			err = p.table(part.table)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// csvPrinter prints the tables of pages, separated by empty lines. Of a page without tables it prints the
// data as one row.
type csvPrinter struct {
	w       io.Writer
	raw     bool
	any     bool   // a table has been printed
	records *Table // of data, with the columns of the last answer
}

// Print implements Printer.
func (c *csvPrinter) Print(data any, page func(*Page)) error {
	var content Page
	if page != nil {
		page(&content)
	}
	tables := c.any && c.records == nil // printed before, as of a stream: what is no row of them is for people
	if data != nil && !tables && !slices.ContainsFunc(content.parts, func(p part) bool { return p.table != nil }) {
		if err := c.record(&content, data); err != nil {
			return err
		}
	}
	for _, part := range content.parts {
		if part.table == nil {
			continue
		}
		if c.any && !part.table.begun {
			if _, err := io.WriteString(c.w, "\n"); err != nil {
				return err
			}
		}
		c.any = true
		if err := part.table.writeCSV(c.w, c.raw); err != nil {
			return err
		}
		if part.text != nil || part.table == c.records {
			part.table.next()
		}
	}
	return nil
}

// record adds data to a page as a row of a table, and a list as a row for each item. Rows with the same fields
// share the titles.
func (c *csvPrinter) record(p *Page, data any) error {
	value, err := jsonText(data)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		list = []json.RawMessage{value}
	}
	for _, one := range list {
		titles, cells, err := columns("", one)
		if err != nil {
			return err
		}
		if c.records == nil || !slices.Equal(c.records.csvTitles, titles) {
			c.records = NewTable(titles...)
			copy(c.records.csvTitles, titles)
		}
		c.records.Row(cells...)
		if !slices.ContainsFunc(p.parts, func(of part) bool { return of.table == c.records }) {
			p.Table(c.records)
		}
	}
	return nil
}

// columns returns the fields of a JSON value in their order: those of an object in an object as object.field,
// and a list as its JSON text.
func columns(name string, value []byte) (titles []string, cells []any, err error) {
	in := json.NewDecoder(bytes.NewReader(value))
	if first, err := in.Token(); err != nil || first != json.Delim('{') {
		text := bytes.Buffer{}
		if err := json.Compact(&text, value); err != nil {
			return nil, nil, err
		}
		cell := text.String()
		var word string
		if json.Unmarshal(value, &word) == nil { // null is empty
			cell = word
		}
		return []string{cmp.Or(name, "value")}, []any{Cell{Human: cell, Machine: cell}}, nil
	}
	for in.More() {
		field, err := in.Token()
		if err != nil {
			return nil, nil, err
		}
		var inner json.RawMessage
		if err := in.Decode(&inner); err != nil {
			return nil, nil, err
		}
		path := fmt.Sprint(field)
		if name != "" {
			path = name + "." + path
		}
		t, c, err := columns(path, inner)
		if err != nil {
			return nil, nil, err
		}
		titles, cells = append(titles, t...), append(cells, c...)
	}
	return titles, cells, nil
}

// jsonPrinter prints data, one value after another.
type jsonPrinter struct{ w io.Writer }

// Print implements Printer.
func (j jsonPrinter) Print(data any, _ func(*Page)) error {
	text, err := jsonText(data)
	if err == nil {
		_, err = fmt.Fprintf(j.w, "%s\n", text)
	}
	return err
}

// jsonText returns data as JSON: messages in the API's form on one line, and JSON unchanged.
func jsonText(data any) ([]byte, error) {
	switch d := data.(type) {
	case json.RawMessage:
		return d, nil
	case proto.Message:
		return apijson.Format(d), nil
	}
	text, err := json.MarshalIndent(data, "", "  ")
	return jsontext.Escape(text), err
}

// yamlPrinter prints data as YAML documents.
type yamlPrinter struct {
	w   io.Writer
	any bool // a document has been printed
}

// Print implements Printer.
func (y *yamlPrinter) Print(data any, _ func(*Page)) error {
	value, err := jsonText(data)
	if err != nil {
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(value, &n); err != nil {
		return err
	}
	inLines(&n)
	text, err := yaml.Marshal(&n)
	if err != nil {
		return err
	}
	text = jsontext.Escape(text) // inLines double-quotes such strings, and YAML has the same escapes in double quotes
	if y.any {
		text = append([]byte("---\n"), text...)
	}
	y.any = true
	_, err = y.w.Write(text)
	return err
}

// notText11 matches texts that YAML 1.1 readers, which most languages use, take for a boolean, a
// number or a time. YAML 1.2 would not quote them.
var notText11 = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|~|=|<<|[-+.0-9][-+.:_0-9a-fxotz ]*)$`)

// breaks11 are the characters that break lines in YAML 1.1 alone. The library folds a line there, with blanks that
// readers of YAML 1.2 take for text.
const breaks11 = "\u2028\u2029"

// inLines makes a value print in block style, with quotes where needed.
func inLines(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && (notText11.MatchString(n.Value) || strings.ContainsFunc(n.Value, jsontext.IsDisplayControl) || strings.ContainsAny(n.Value, breaks11)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		inLines(c)
	}
}

// List prints a list that arrives in parts as one answer.
type List struct {
	printer Printer
	name    string // the name of the field in data
	none    string // what a page shows of an empty list
	table   *Table
	begun   bool
	items   int
	data    []byte // data to print as a whole
}

// Add prints a part: the rows added to the table since the last part, or the same items as data.
func (l *List) Add(items []proto.Message) error { return l.printer.add(l, items) }

// End ends the list. fields are further fields of data, such as `"total":3`, or empty.
func (l *List) End(fields string) error { return l.printer.end(l, fields) }

// jsonPart returns the items as a piece of JSON.
func (l *List) jsonPart(items []proto.Message) (piece []byte) {
	if !l.begun {
		piece = fmt.Appendf(piece, "{%q:[", l.name)
	}
	l.begun = true
	for _, m := range items {
		if l.items++; l.items > 1 {
			piece = append(piece, ',')
		}
		piece = append(piece, apijson.Format(m)...)
	}
	return piece
}

// jsonEnd returns the piece of JSON that ends the list.
func jsonEnd(fields string) string {
	if fields != "" {
		fields = "," + fields
	}
	return "]" + fields + "}"
}

func (p pagePrinter) add(l *List, _ []proto.Message) error {
	if l.table.Len() == 0 {
		return nil
	}
	defer l.table.next()
	return p.table(l.table)
}

func (p pagePrinter) end(l *List, _ string) error {
	if l.table.begun {
		return nil
	}
	_, err := fmt.Fprintln(p.w, l.none)
	return err
}

func (c *csvPrinter) add(l *List, _ []proto.Message) error {
	defer l.table.next()
	return c.Print(nil, func(p *Page) { p.Table(l.table) })
}

func (*csvPrinter) end(*List, string) error { return nil }

func (j jsonPrinter) add(l *List, items []proto.Message) error {
	_, err := j.w.Write(l.jsonPart(items))
	return err
}

func (j jsonPrinter) end(_ *List, fields string) error {
	_, err := fmt.Fprintln(j.w, jsonEnd(fields))
	return err
}

func (y *yamlPrinter) add(l *List, items []proto.Message) error {
	l.data = append(l.data, l.jsonPart(items)...)
	return nil
}

func (y *yamlPrinter) end(l *List, fields string) error {
	return y.Print(json.RawMessage(append(l.data, jsonEnd(fields)...)), nil)
}
