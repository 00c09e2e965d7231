package simulate

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/cli/render"
)

// progress shows the progress of runs longer than a second, on a terminal. watch is for the
// simulator, and nil without a terminal; stop ends the display and clears it.
func (s *simulator) progress(what string, total time.Duration) (watch func(time.Duration), stop func()) {
	if w := s.cmd.ErrOrStderr(); render.OnTerminal(w) {
		return showProgress(w, what, total)
	}
	return nil, func() {}
}

func showProgress(w io.Writer, what string, total time.Duration) (watch func(time.Duration), stop func()) {
	var at atomic.Int64
	shown := false
	end := render.Every(time.Second, func(time.Duration) {
		shown = true
		done := time.Duration(at.Load())
		fmt.Fprintf(w, "\r\x1b[K%s%s: %.1f s of %.0f s", render.BarText(int64(done), int64(total)), what, done.Seconds(), total.Seconds())
	})
	return func(t time.Duration) { at.Store(int64(t)) }, func() {
		if end(); shown {
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
}
