package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

func (e *explanation) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", show(e.Limit), wrap("  ", e.Rule))
	fmt.Fprintf(w, "cluster: %s, one-way delay %v (%s), sync interval %v, lease %v\n\n", plural(e.c.Nodes, "node"), e.c.Delay.Round(time.Microsecond), e.Delay, e.c.Sync, e.c.Lease)
	if len(e.Situations) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is counted, so nothing can be wrong.")
		return err
	}
	fmt.Fprintln(w, "Beyond the limit, in tokens of one key:")
	tbl := newTable("SITUATION", "AT MOST", "TYPICAL", "WHEN")
	for _, s := range e.Situations {
		worst := "no bound"
		if s.Worst != nil {
			worst = amount(*s.Worst)
		}
		tbl.row(s.Name, worst, amount(s.Typical), s.When)
	}
	if err := tbl.write(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWhy:")
	for _, s := range e.Situations {
		fmt.Fprintf(w, "  %-9s %s\n", s.Name, s.Formula)
		if s.Numbers != s.Formula {
			fmt.Fprintf(w, "            %s\n", s.Numbers)
		}
		fmt.Fprintf(w, "            %s\n", s.Basis)
	}
	e.list(w, "Where 0 does not hold:", e.Exceptions)
	if !e.offline {
		e.printMeasured(w)
	}
	e.list(w, "Tighter:", e.Tighter)
	return nil
}

func (e *explanation) list(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprint(w, wrap("  - ", l))
	}
}

func (e *explanation) printMeasured(w io.Writer) {
	m := e.Measured
	if m == nil {
		fmt.Fprintln(w, "\nMeasured: nothing yet")
		return
	}
	fmt.Fprintf(w, `
Measured by the leaders, all keys:
  attempted      %d, of which admitted %d
  over-admitted  %s, and %s while cut off; worst of a key %s (%.2f bursts)
  needless       %s to %s refused that the limit would have covered
  report gap     at most %v
`, m.Attempted, m.Admitted, amount(m.OverAdmitted), amount(m.CutOff), amount(m.WorstExcess), m.WorstExcessBurst,
		amount(m.Needless), amount(m.NeedlessAtMost), time.Duration(m.LongestGap*float64(time.Second)).Round(time.Millisecond))
}

// amount prints tokens: whole ones from ten on.
func amount(v float64) string {
	if v >= 10 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
