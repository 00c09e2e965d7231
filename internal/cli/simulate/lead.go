package simulate

import (
	"fmt"
	"strings"

	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
)

// lead is what one reads first: the scenario, what came out, and what was played.
func (s *simulator) lead(sc *scenario.Scenario, rs []*simResult) string {
	name := sc.Name
	if sc.Description != "" {
		name += ": " + render.Printable(sc.Description)
	}
	r, faults := rs[0], "no faults"
	if n := len(sc.Faults); n > 0 {
		faults = render.Plural(n, "fault")
	}
	return fmt.Sprintf("%s\n%s %s admitted %d of %d, %s\nplayed %s of virtual time on %s with %s, %s; %s; sync %v, delay %v%s\n", name,
		r.outcome(render.Colours(s.cmd)), r.algorithm, r.worst.Admitted, r.worst.Attempted, netWords(r.worst.NetPct),
		simPause(sc.Duration), render.Plural(sc.Nodes, "node"), faults, seedWords(r), simLimit(&sc.Limit), sc.Sync, sc.Network.Delay, networkWords(sc.Network))
}

// outcome says in a few words whether all was as expected. It is empty for an algorithm of which nothing is expected.
func (r *simResult) outcome(p render.Palette) string {
	switch n := len(r.scenario.Expect); {
	case r.algorithm != sim.Quorate:
		return ""
	case len(r.broken) > 0:
		return p.Paint(render.Red, "NOT AS EXPECTED") + fmt.Sprintf(", %s not kept:", render.Plural(len(r.broken), "bound"))
	case n > 0:
		return p.Paint(render.Green, "as expected") + fmt.Sprintf(", %s kept:", render.Plural(n, "bound"))
	}
	return "nothing was expected:"
}

func netWords(pct float64) string {
	switch text := fmt.Sprintf("%.2f%%", max(pct, -pct)); {
	case text == "0.00%":
		return "as many as the ideal limiter"
	case pct < 0:
		return text + " fewer than the ideal limiter"
	default:
		return text + " more than the ideal limiter"
	}
}

// again is the command that plays a seed again.
func (r *simResult) again(seed uint64) string { return fmt.Sprintf("%s --seed %d", r.command, seed) }

// writeVerdict says what was not kept, each with the command of its seed, and otherwise how to see the
// worst seed again.
func (r *simResult) writeVerdict(b *strings.Builder, p render.Palette) {
	for _, v := range r.worst.Violations[:min(len(r.worst.Violations), 3)] {
		b.WriteString(p.Paint(render.Red, "violation") + fmt.Sprintf(": %s\n", render.Printable(v)))
	}
	for _, broken := range r.broken {
		b.WriteString(p.Paint(render.Red, "not as expected") + fmt.Sprintf(": %v\nreplay: %s\n", broken, r.again(broken.Seed)))
	}
	if len(r.broken) == 0 {
		fmt.Fprintf(b, "replay: %s\n", r.again(r.worst.Seed))
	}
}

// tally is how many of several scenarios came out as expected.
func (s *simulator) tally() string {
	kept, broken, none := 0, 0, 0
	for _, r := range s.results {
		switch r.kept() {
		case "yes":
			kept++
		case "NO":
			broken++
		default:
			none++
		}
	}
	text := fmt.Sprintf("%d played: %d as expected", len(s.results), kept)
	if broken > 0 {
		text += fmt.Sprintf(", %d NOT", broken)
	}
	if none > 0 {
		text += fmt.Sprintf(", %d of which nothing is expected", none)
	}
	return text
}
