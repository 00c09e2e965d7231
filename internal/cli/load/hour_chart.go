package load

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// maxChartDays bounds the lines of a chart.
const maxChartDays = 31

// hourBars are an hour's refusals: none, then up to the most of any hour.
var hourBars = []rune("·▁▂▃▄▅▆▇█")

// writeHours draws refusals: a line for each day of the log that has requests, a
// column for each hour. Hours are in order of time.
func writeHours(w io.Writer, hours []hourReport) {
	most, at := int64(0), time.Time{}
	for _, h := range hours {
		if h.Refused > most {
			most, at = h.Refused, h.From
		}
	}
	if most == 0 {
		return
	}
	fmt.Fprintf(w, "\nrefused in each hour (UTC), at most %d, from %s on; · is requests and no refusal:\n", most, at.Format("2006-01-02 15:04"))
	fmt.Fprintf(w, "%-12s00    06    12    18\n", "")
	for days := 0; len(hours) > 0; days++ {
		n := 0
		for n < len(hours) && sameDay(hours[n].From, hours[0].From) {
			n++
		}
		if days == maxChartDays {
			fmt.Fprintf(w, "(and more, until %s)\n", hours[len(hours)-1].From.Format(time.DateOnly))
			return
		}
		writeDay(w, hours[:n], most)
		hours = hours[n:]
	}
}

func sameDay(a, b time.Time) bool { return a.Format(time.DateOnly) == b.Format(time.DateOnly) }

func writeDay(w io.Writer, hours []hourReport, most int64) {
	var attempted, refused int64
	bars := []rune(strings.Repeat(" ", 24))
	for _, h := range hours {
		attempted += h.Attempted
		refused += h.Refused
		i := int64(0)
		if top := int64(len(hourBars) - 1); h.Refused > 0 {
			i = 1 + (h.Refused-1)*(top-1)/max(most-1, 1)
			if most == 1 {
				i = top
			}
		}
		bars[h.From.Hour()] = hourBars[i]
	}
	fmt.Fprintf(w, "%s  %s  %d of %d\n", hours[0].From.Format(time.DateOnly), string(bars), refused, attempted)
}
