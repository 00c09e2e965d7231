package transport

import (
	"log/slog"
	"sync"
	"time"
)

// Strangers decide how often some things happen: of each kind so many lines are
// logged in so long, and the next says how many were left out.
const (
	logLines  = 3
	logWindow = 10 * time.Second
)

// logKind is a kind of line that is logged with a limit.
type logKind int

const (
	logAccept   logKind = iota // accepting fails
	logEvicted                 // too many unauthenticated connections
	logTLS                     // TLS fails
	logGarbage                 // no hello comes
	logMismatch                // the hello does not fit
	logKinds                   // how many there are
)

// logLimit counts lines. Its zero value is ready for use.
type logLimit struct {
	mu    sync.Mutex
	kinds [logKinds]struct {
		since          time.Time
		lines, leftOut int
	}
}

// warn logs a line, unless there were enough of its kind.
func (l *logLimit) warn(log *slog.Logger, kind logKind, text string, args ...any) {
	leftOut, ok := l.allow(kind, time.Now())
	if !ok {
		return
	}
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	log.Warn(text, args...)
}

// allow says whether a line may be logged, and how many were not before it.
func (l *logLimit) allow(kind logKind, now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &l.kinds[kind]
	if now.Sub(k.since) >= logWindow {
		leftOut = k.leftOut
		k.since, k.lines, k.leftOut = now, 0, 0
	}
	if k.lines == logLines {
		k.leftOut++
		return 0, false
	}
	k.lines++
	return leftOut, true
}
