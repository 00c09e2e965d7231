package limits

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
)

func (e *explanation) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\n%s\n", render.Show(e.Limit), wrap("  ", e.Rule))
	fmt.Fprintf(w, "cluster: %s, one-way delay %v (%s), sync interval %v, lease %v\n\n", render.Plural(e.c.Nodes, "node"), e.c.Delay.Round(time.Microsecond), e.Delay, e.c.Sync, e.c.Lease)
	if len(e.Situations) == 0 {
		_, err := fmt.Fprintln(w, "Nothing is counted, so nothing can be wrong.")
		return err
	}
	fmt.Fprintln(w, "How many tokens one key may be given beyond burst + rate x time, or beyond the count of a window:")
	if err := e.printSituations(w); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWhy:")
	e.printReasons(w)
	e.list(w, "Where 0 does not hold:", e.Exceptions)
	if !e.offline {
		e.printMeasured(w)
	}
	e.list(w, "Tighter:", e.Tighter)
	return nil
}

func (e *explanation) printSituations(w io.Writer) error {
	tbl := render.NewTable("SITUATION", "AT MOST", "BURSTS", "TYPICAL", "WHEN")
	believes := false
	for _, s := range e.Situations {
		worst, bursts := "no bound", "-"
		if s.Worst != nil {
			worst, bursts = amount(*s.Worst), amount(*s.Worst/max(1, e.burst))
			believes = believes || *s.Worst > 0
		}
		tbl.Row(s.Name, worst, bursts, amount(s.Typical), s.When)
	}
	if err := tbl.Write(w); err != nil {
		return err
	}
	if believes {
		fmt.Fprint(w, wrap("  ", "At most: derived, for as long as messages arrive. Typical: the worst of the simulator's seeds, no promise."))
	}
	return nil
}

// printReasons prints each formula once, with the situations that it is for.
func (e *explanation) printReasons(w io.Writer) {
	var others, ages bool
	for i := 0; i < len(e.Situations); {
		s, names := &e.Situations[i], e.Situations[i].Name
		for i++; i < len(e.Situations) && e.Situations[i].Formula == s.Formula && e.Situations[i].Numbers == s.Numbers; i++ {
			s = &e.Situations[i]
			names += ", " + s.Name
		}
		ages = ages || strings.Contains(s.Formula, "age")
		others = others || strings.Contains(s.Formula, "N-1")
		fmt.Fprintf(w, "  %s\n      %s\n", names, s.Formula)
		if s.Numbers != s.Formula {
			fmt.Fprintf(w, "      %s\n", s.Numbers)
		}
		fmt.Fprint(w, wrap("      ", s.Basis))
	}
	words := ""
	if others {
		words = "N: nodes. "
	}
	if ages {
		words += fmt.Sprintf("age: how long a node may go without news of the level, which is 2 sync intervals and 2 round trips, %v here. ", e.c.Age().Round(time.Millisecond))
	}
	if words != "" {
		fmt.Fprint(w, wrap("  ", words+"docs/accuracy.md derives it."))
	}
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
Measured by the leaders since their nodes started, tokens of all keys:
  asked for      %d, of which %d were admitted
  too many       %s beyond the limit, %s of them while cut off; most at one time: %s of one key (%.2f bursts)
  too few        %s for certain, and %s at most, refused though the limit would have covered them
  report gap     at most %v: what the rate refills in that time is how far these figures may be off
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
