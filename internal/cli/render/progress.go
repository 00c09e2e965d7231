package render

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Progress is a line on a terminal that each update overwrites. Elsewhere it prints nothing.
type Progress struct {
	w     io.Writer // nil: not shown
	last  time.Time
	shown bool
}

// NewProgress returns the progress of a command, shown on w if that is a terminal that can
// overwrite a line.
func NewProgress(w io.Writer) *Progress {
	if !OnTerminal(w) || os.Getenv("TERM") == "dumb" {
		return &Progress{}
	}
	return &Progress{w: w, last: time.Now()} // short operations show nothing
}

// Bar updates the line, at most five times a second: a bar of the completed part, unless the total
// is unknown, 0, and the formatted text.
func (p *Progress) Bar(done, total int64, format string, args ...any) {
	if p.w == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K%s%s", BarText(done, total), fmt.Sprintf(format, args...))
}

// End clears the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// barWidth is the width of a full bar, in characters.
const barWidth = 24

// BarText draws the completed part of a total: [######......]  50 %.
func BarText(done, total int64) string {
	if total <= 0 {
		return ""
	}
	part := float64(min(max(done, 0), total)) / float64(total)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part)
}

// Every calls f at each interval, with the time since the start, until stop is called; stop waits
// for f.
func Every(interval time.Duration, f func(since time.Duration)) (stop func()) {
	start, ticker := time.Now(), time.NewTicker(interval)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ticker.C:
				f(time.Since(start))
			case <-quit:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(quit); <-done }
}
