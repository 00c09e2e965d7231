package render

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Progress is a line on a terminal that is written over, and nothing anywhere else.
type Progress struct {
	w     io.Writer // nil: nobody looks
	last  time.Time
	shown bool
}

// NewProgress returns the progress of a command, shown on w if that is a terminal which can
// write a line over.
func NewProgress(w io.Writer) *Progress {
	if !OnTerminal(w) || os.Getenv("TERM") == "dumb" {
		return &Progress{}
	}
	return &Progress{w: w, last: time.Now()} // nothing for what is done at once
}

// show writes the line, at most five times a second.
func (p *Progress) show(format string, args ...any) {
	if p.w == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
}

// Bar is show with how much of the whole is done before it; a total that is not known, 0, has
// no bar.
func (p *Progress) Bar(done, total int64, format string, args ...any) {
	p.show("%s%s", BarText(done, total), fmt.Sprintf(format, args...))
}

// End clears the line.
func (p *Progress) End() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// barWidth is how many characters are the whole.
const barWidth = 24

// BarText draws how much of the whole is done: [######......]  50 %.
func BarText(done, total int64) string {
	if total <= 0 {
		return ""
	}
	part := float64(min(max(done, 0), total)) / float64(total)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part)
}

// Every calls f at each interval, with the time since the beginning, until stop is called, which waits for it.
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
