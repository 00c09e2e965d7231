package monitor

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A Metric is one line of the catalogue.
type Metric struct {
	Name   string
	Type   string // counter, gauge or histogram
	Unit   string // of one sample
	Labels []string
	Help   string // as the node shows it
	Action string // what to do about it
	Most   int    // series at one node, of a histogram without counting buckets
	Bounds map[string]string
}

// A Catalogue is docs/reference/metrics.md. It has two kinds of table: what each metric is, and for those with
// labels how many series there are at most and what bounds each label's values.
type Catalogue struct {
	Metrics []*Metric
	lines   []string
	rows    map[*Metric]int // the line of each
}

// Read reads the catalogue at path.
func Read(path string) (*Catalogue, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &Catalogue{lines: strings.Split(string(text), "\n"), rows: map[*Metric]int{}}
	var last *Metric // that the rows of labels belong to
	for i, line := range c.lines {
		switch cells := cellsOf(line); {
		case len(cells) == 5 && strings.HasPrefix(cells[0], "`"):
			m := &Metric{Name: code(cells[0]), Help: cells[3], Action: cells[4], Most: 1, Bounds: map[string]string{}}
			m.Type, m.Unit, _ = strings.Cut(cells[1], ", ")
			for l := range strings.FieldsSeq(cells[2]) {
				m.Labels = append(m.Labels, code(l))
			}
			c.Metrics, c.rows[m] = append(c.Metrics, m), i
		case len(cells) == 4 && strings.HasPrefix(cells[2], "`"):
			if cells[0] != "" || last == nil {
				if last = c.Metric(code(cells[0])); last == nil {
					return nil, fmt.Errorf("%s:%d: %s is in no table of metrics", path, i+1, cells[0])
				}
				if last.Most, err = strconv.Atoi(cells[1]); err != nil {
					return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
				}
			}
			last.Bounds[code(cells[2])] = cells[3]
		}
	}
	return c, nil
}

// Metric returns the metric of that name, or nil.
func (c *Catalogue) Metric(name string) *Metric {
	for _, m := range c.Metrics {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// WithHelp returns the text of the catalogue with what a node says of each metric.
func (c *Catalogue) WithHelp(help map[string]string) string {
	lines := append([]string(nil), c.lines...)
	for m, i := range c.rows {
		cells := strings.Split(lines[i], " | ")
		cells[3] = escape(help[m.Name])
		lines[i] = strings.Join(cells, " | ")
	}
	return strings.Join(lines, "\n")
}

// cellsOf returns the cells of a row of a table.
func cellsOf(line string) []string {
	if !strings.HasPrefix(line, "| ") {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "| "), " |"), " | ")
	for i := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(cells[i], `\|`, "|"))
	}
	return cells
}

func escape(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func code(s string) string { return strings.Trim(s, "`") }
