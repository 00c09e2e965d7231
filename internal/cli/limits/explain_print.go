package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
)

func (e *explanation) print(p *render.Page) {
	fmt.Fprintf(p, "%s\n%s\n", render.Show(e.Limit), wrap("  ", e.Rule))
	fmt.Fprintf(p, "cluster: %s, one-way delay %v (%s), sync interval %v, lease %v\n\n", render.Plural(e.c.Nodes, "node"), e.c.Delay.Round(time.Microsecond), e.Delay, e.c.Sync, e.c.Lease)
	if len(e.Situations) == 0 {
		fmt.Fprintln(p, "Nothing is counted, so nothing can be wrong.")
		return
	}
	fmt.Fprintln(p, "How many tokens one key may be given beyond burst + rate x time, or beyond the count of a window:")
	e.printSituations(p)
	fmt.Fprintln(p, "\nWhy:")
	e.printReasons(p)
	e.list(p, "Where 0 does not hold:", e.Exceptions)
	if !e.offline {
		e.printMeasured(p)
	}
	e.list(p, "Tighter:", e.Tighter)
}

func (e *explanation) printSituations(p *render.Page) {
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
	p.Table(tbl)
	if believes {
		fmt.Fprint(p, wrap("  ", "At most: derived, for as long as messages arrive. Typical: the worst of the simulator's seeds, no promise."))
	}
}

// printReasons prints each formula once, with the situations that it is for.
func (e *explanation) printReasons(p *render.Page) {
	var others, ages bool
	for i := 0; i < len(e.Situations); {
		s, names := &e.Situations[i], e.Situations[i].Name
		for i++; i < len(e.Situations) && e.Situations[i].Formula == s.Formula && e.Situations[i].Numbers == s.Numbers; i++ {
			s = &e.Situations[i]
			names += ", " + s.Name
		}
		ages = ages || strings.Contains(s.Formula, "age")
		others = others || strings.Contains(s.Formula, "N-1")
		fmt.Fprintf(p, "  %s\n      %s\n", names, s.Formula)
		if s.Numbers != s.Formula {
			fmt.Fprintf(p, "      %s\n", s.Numbers)
		}
		fmt.Fprint(p, wrap("      ", s.Basis))
	}
	words := ""
	if others {
		words = "N: nodes. "
	}
	if ages {
		words += fmt.Sprintf("age: how long a node may go without news of the level, which is 2 sync intervals and 2 round trips, %v here. ", e.c.Age().Round(time.Millisecond))
	}
	if words != "" {
		fmt.Fprint(p, wrap("  ", words+"docs/accuracy.md derives it."))
	}
}

func (e *explanation) list(p *render.Page, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(p, "\n%s\n", title)
	for _, l := range lines {
		fmt.Fprint(p, wrap("  - ", l))
	}
}

func (e *explanation) printMeasured(p *render.Page) {
	m := e.Measured
	if m == nil {
		fmt.Fprintln(p, "\nMeasured: nothing yet")
		return
	}
	fmt.Fprintf(p, `
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
