package top

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/quorate/quorate/internal/health"
	"github.com/quorate/quorate/internal/phrase"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	if m.closed {
		return tea.NewView("")
	}
	v := tea.NewView(m.text())
	v.AltScreen = true
	v.WindowTitle = "quorate top"
	return v
}

const around = 4 // lines around the rows: two above, the titles, one below

// visibleRows returns the number of rows that fit.
func (m *model) visibleRows() int { return max(1, m.height-around) }

func (m *model) text() string {
	if m.help {
		return m.lines(strings.Split(helpText, "\n"))
	}
	lines := []string{m.clusterLine(), m.whatLine()}
	t := m.table()
	widths := widthsOf(&t, m.width)
	lines = append(lines, m.titles(&t, widths))
	for i := m.from; i < len(t.rows) && i < m.from+m.visibleRows(); i++ {
		lines = append(lines, m.row(&t.rows[i], widths, i == m.cursor))
	}
	if len(t.rows) == 0 && m.rates != nil {
		lines = append(lines, "no traffic")
	}
	for len(lines) < m.height-1 && !m.still {
		lines = append(lines, "")
	}
	return m.lines(append(lines, m.footer()))
}

// lines cuts the text to the screen.
func (m *model) lines(all []string) string {
	for i := range all {
		all[i] = strings.TrimRight(ansi.Truncate(all[i], m.width, ""), " ")
	}
	return strings.Join(all[:min(len(all), max(1, m.height))], "\n")
}

func (m *model) clusterLine() string {
	st := m.status
	if st == nil {
		return "quorate top: asking ..."
	}
	up := 0
	for _, n := range st.Nodes {
		if n.Connected {
			up++
		}
	}
	line := fmt.Sprintf("%s  %s  nodes %d of %d  ranges %s  limits version %d",
		m.style(bold, st.Cluster), m.state(), up, len(st.Nodes), m.coverage(), st.LimitsVersion)
	if v := health.Of(st); v.Word != health.Healthy {
		line += "  " + phrase.Printable(v.Text)
	}
	return line
}

// state returns the word with which "quorate status" begins, by the view of the node that answered.
func (m *model) state() string {
	switch v := health.Of(m.status); {
	case v.Word == health.NotReady:
		return m.style(red, v.Word)
	case !v.OK():
		return m.style(yellow, v.Word)
	default:
		return m.style(green, v.Word)
	}
}

// coverage describes how many ranges the answer covers.
func (m *model) coverage() string {
	r := m.rates
	text := fmt.Sprintf("%d of %d", r.GetRangesCovered(), r.GetRangesTotal())
	if r.GetRangesCovered() < r.GetRangesTotal() {
		return m.style(red, text)
	}
	return text
}

func (m *model) whatLine() string {
	what := "all limits"
	if m.limit != "" {
		what = "keys of " + m.limit
	}
	if m.prefix != "" || m.typing {
		what += " that begin with " + m.prefix
	}
	if m.typing {
		what += "_"
	}
	what += m.unenforced()
	if m.paused {
		what += m.style(yellow, "  paused")
	}
	if m.err != nil {
		return m.style(red, "no answer: "+strings.Join(strings.Fields(m.err.Error()), " "))
	}
	if at := m.rates.GetAsOf(); at != nil {
		what += at.AsTime().UTC().Format("  15:04:05Z")
	}
	return what
}

// unenforced describes that the limit of the shown keys does not enforce its refusals, or not for
// all keys.
func (m *model) unenforced() string {
	for _, l := range m.rates.GetLimits() {
		if l.Namespace+"/"+l.Limit != m.limit {
			continue
		}
		switch what := mark(l.Enforcement, l.Fraction); {
		case strings.HasSuffix(what, "%"):
			return m.style(yellow, ", enforced for"+what+" of the keys; requests of the others pass")
		case what != "":
			return m.style(yellow, ","+what+": refused requests pass")
		}
	}
	return ""
}

// widthsOf returns the widths of columns. The first column gets the remaining width, up to its
// content.
func widthsOf(t *table, width int) []int {
	out := make([]int, len(t.columns))
	for i, c := range t.columns {
		out[i] = len(c.title)
	}
	for i := range t.rows {
		for j, cell := range t.rows[i].cells {
			if j == 0 {
				cell += t.rows[i].mark
			}
			out[j] = max(out[j], ansi.StringWidth(printable(cell)))
		}
	}
	rest := width
	for _, w := range out[1:] {
		rest -= w + 2
	}
	out[0] = max(12, min(out[0], rest))
	return out
}

func (m *model) titles(t *table, widths []int) string {
	cells := make([]string, len(t.columns))
	for i, c := range t.columns {
		cells[i] = align(c.title, widths[i], i == 0)
		if i == t.sorted {
			cells[i] = m.style(reverse, cells[i])
		}
	}
	return strings.Join(cells, "  ")
}

func (m *model) row(r *row, widths []int, chosen bool) string {
	cells := make([]string, len(r.cells))
	for i, c := range r.cells {
		c = printable(c)
		if i == 0 {
			c = ansi.Truncate(c, max(0, widths[i]-len(r.mark)), "…") + r.mark
		}
		cells[i] = align(c, widths[i], i == 0)
	}
	line := strings.Join(cells, "  ")
	switch {
	case chosen:
		return m.style(reverse, line)
	case r.alarm:
		return m.style(yellow, line)
	}
	return line
}

// align pads or cuts a cell. A cut cell ends with dots.
func align(s string, width int, left bool) string {
	s = ansi.Truncate(s, width, "…")
	blanks := strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
	if left {
		return s + blanks
	}
	return blanks + s
}

// printable replaces characters that would move the cursor, since keys may contain any.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '·'
		}
		return r
	}, s)
}

func (m *model) footer() string {
	if m.still {
		return ""
	}
	if m.limit == "" {
		return m.style(dim, "enter keys   < > sort   / find   p pause   ? help   q quit")
	}
	return m.style(dim, "esc limits   < > sort   / find   p pause   ? help   q quit")
}

const helpText = `quorate top: the busiest limits and keys

  up down pgup pgdn home end   move
  enter    the keys of a limit         esc   back to all limits
  < >      sort by another column      /     filter names by prefix
  p        pause, or continue          q     quit

Of limits: tokens per second requested, admitted and refused, since the screen before;
in all, since the nodes started: refused, OVER admitted, NEEDLESS refusals (at least-at most), the
WORST excess of a key, and its stated BOUND. Requests refused by a limit in shadow, or off,
pass; a limit with 25% is enforced for that share of its keys.
Of keys: LOAD is the demand in percent of the refill: above 100%, the key uses up its burst, and is
refused after that. LEFT is what can be spent now.

Any key goes back.`

// Styles of text.
const (
	bold    = "1"
	dim     = "2"
	reverse = "7"
	red     = "31"
	green   = "32"
	yellow  = "33"
)

// style marks text. Without colours it still shows the cursor; a still screen has no marks.
func (m *model) style(code, s string) string {
	if m.still || m.opt.Plain && len(code) > 1 {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

var _ tea.Model = (*model)(nil)
