package transport

import (
	"log/slog"
	"sync"
	"time"
)

// Unauthenticated parties control how often some events occur. Therefore at most logLines lines
// of each kind are logged per logWindow; the next line reports how many were left out.
const (
	logLines  = 3
	logWindow = 10 * time.Second
)

// logKind is a kind of rate-limited log line.
type logKind int

const (
	logAccept   logKind = iota // accept failed
	logEvicted                 // a connection was evicted: too many unauthenticated
	logTLS                     // TLS failed
	logGarbage                 // no Hello arrived
	logFrame                   // a peer sent what is no frame
	logMismatch                // the Hello does not fit
	logKinds                   // the number of kinds
)

// logLimit limits log lines per kind. Its zero value is ready for use.
type logLimit struct {
	mu    sync.Mutex
	kinds [logKinds]struct {
		since          time.Time
		lines, leftOut int
	}
}

// warn logs a line unless the limit of its kind is reached.
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

// allow reports whether a line may be logged, and how many were left out before it.
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
