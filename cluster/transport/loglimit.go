package transport

import (
	"log/slog"
	"time"

	"github.com/quorate/quorate/internal/logs"
)

// Unauthenticated parties control how often some events occur. Therefore at most logLines lines
// of each kind are logged at once, and then as many per logWindow; the next line reports how many were left out.
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
)

// logLimit limits log lines per kind. Its zero value is ready for use.
type logLimit struct{ logs.RateLimit[logKind] }

// warn logs a line unless the limit of its kind is reached.
func (l *logLimit) warn(log *slog.Logger, kind logKind, text string, args ...any) {
	leftOut, ok := l.Allow(kind, time.Now(), logLines, logWindow/logLines)
	if !ok {
		return
	}
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	log.Warn(text, args...)
}
