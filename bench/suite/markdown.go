package suite

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// WriteMarkdown writes a table and its chart: median and spread of each measure, the ratio to the
// reference, and the targets.
func (t *Table) WriteMarkdown(w io.Writer) {
	fmt.Fprintf(w, "### %s\n\n%s Measured %s%s%s, load of the machine at the end %s.\n\n", t.Title, t.Note, t.Time.Format(time.RFC3339),
		prefixed(", commit ", t.Commit), prefixed(", on ", t.Machine), cmp.Or(t.Load, "not noted"))
	head, line := "|", "|---|"
	for _, m := range t.Measures {
		head += " | " + m.label()
		line += "---|"
	}
	ratios := t.Reference != ""
	if ratios {
		head += " | x " + t.Reference
		line += "---|"
	}
	fmt.Fprintf(w, "%s | target | met |\n%s---|---|\n", head, line)
	for _, r := range t.Rows {
		fmt.Fprintln(w, t.line(r, ratios))
	}
	fmt.Fprintf(w, "\n![%s](%s.svg)\n\n", t.Title, t.Name)
}

// prefixed returns a text behind its prefix, or nothing if the text is empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (m Measure) label() string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + ", " + m.Unit
}

func (t *Table) line(r Row, ratios bool) string {
	name := r.Name
	if r.Ours {
		name = "**" + name + "**"
	}
	cells := []string{name}
	if r.Absent != "" {
		return "| " + name + " | not run: " + r.Absent + " |"
	}
	for _, m := range t.Measures {
		f, ok := r.Figures[m.Name]
		cells = append(cells, cell(f, ok))
	}
	if ratios {
		var f Figure
		if r.Ratio != nil {
			f = *r.Ratio
		}
		cells = append(cells, cell(f, r.Ratio != nil))
	}
	cells = append(cells, r.targets(), r.met())
	return "| " + strings.Join(cells, " | ") + " |"
}

// cell formats the median, and the spread if it is visible.
func cell(f Figure, ok bool) string {
	if !ok {
		return ""
	}
	low, mid, high := Number(f.Low), Number(f.Median), Number(f.High)
	if low == mid && mid == high {
		return mid
	}
	return mid + " (" + low + "-" + high + ")"
}

func (r *Row) targets() string {
	var out []string
	for i := range r.Verdict {
		v := &r.Verdict[i]
		out = append(out, v.target())
	}
	return strings.Join(out, "; ")
}

func (r *Row) met() string {
	var out []string
	for i := range r.Verdict {
		v := &r.Verdict[i]
		out = append(out, v.word()+", "+Number(v.Got.Median))
	}
	return strings.Join(out, "; ")
}

func (v *Verdict) target() string {
	sign, bound := "<=", v.AtMost
	if v.AtLeast > 0 {
		sign, bound = ">=", v.AtLeast
	}
	text := v.Measure + " " + sign + " " + Number(bound)
	if v.Times != "" {
		text += " x " + v.Times
	}
	return text
}

func (v *Verdict) word() string {
	if v.Met {
		return "yes"
	}
	return "**no**"
}

// writeTargets writes the targets of all tables with their results.
func (r *Results) writeTargets(w io.Writer) {
	fmt.Fprint(w, "### Targets\n\n| path | who | target | measured | met |\n|---|---|---|---|---|\n")
	for i := range r.Tables {
		t := &r.Tables[i]
		for j := range t.Rows {
			for k := range t.Rows[j].Verdict {
				v := &t.Rows[j].Verdict[k]
				fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", t.Title, t.Rows[j].Name, v.target(), cell(v.Got, true), v.word())
			}
		}
	}
	fmt.Fprintln(w)
}

// Number formats a figure with three significant digits.
func Number(x float64) string {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	digits := min(max(2-int(math.Floor(math.Log10(math.Abs(x)))), 0), 3)
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return thousands(s)
}

// thousands puts commas in a whole number.
func thousands(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
