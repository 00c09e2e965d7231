package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a line on a terminal that is written over, and nothing anywhere else.
type progress struct {
	w     io.Writer // nil: nobody looks
	last  time.Time
	shown bool
}

// newProgress returns the progress of a command, shown on w if that is a terminal which can
// write a line over.
func newProgress(w io.Writer) *progress {
	if !onTerminal(w) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	return &progress{w: w, last: time.Now()} // nothing for what is done at once
}

// show writes the line, at most five times a second.
func (p *progress) show(format string, args ...any) {
	if p.w == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
}

// bar is show with how much of the whole is done before it; a total that is not known, 0, has
// no bar.
func (p *progress) bar(done, total int64, format string, args ...any) {
	p.show("%s%s", barText(done, total), fmt.Sprintf(format, args...))
}

func (p *progress) end() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// barWidth is how many characters are the whole.
const barWidth = 24

// barText draws how much of the whole is done: [######......]  50 %.
func barText(done, total int64) string {
	if total <= 0 {
		return ""
	}
	part := float64(min(max(done, 0), total)) / float64(total)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%  ", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part)
}
