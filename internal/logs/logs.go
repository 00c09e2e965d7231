// Package logs keeps a node's log within a budget. A thousand repetitions of a line per second say
// no more than ten, and fill a disk.
package logs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// The budget of one message at one level.
const (
	burst = 20          // lines at once
	every = time.Second // then one line per this time
)

// Limiter is a slog.Handler that passes on the lines within the budget. The next line that passes
// after dropped ones reports their number: dropped=7. It is safe for concurrent use.
type Limiter struct {
	next slog.Handler
	*shared
}

type shared struct {
	dropped atomic.Uint64
	lines   RateLimit[message]
}

type message struct {
	level slog.Level
	text  string
}

// maxKinds bounds the kinds that a RateLimit remembers. At the bound it forgets all.
const maxKinds = 1000

// RateLimit limits the lines of each kind. Its zero value is ready for use, also concurrently.
type RateLimit[K comparable] struct {
	mu    sync.Mutex
	kinds map[K]*kind
}

type kind struct {
	lines   *rate.Limiter
	dropped int // since the last line that passed
}

// Allow reports whether a line of a kind may be logged now, and how many of its kind were dropped before it. Each
// kind has burst lines at once, then one per interval.
func (l *RateLimit[K]) Allow(k K, now time.Time, burst int, interval time.Duration) (dropped int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.kinds[k]
	if one == nil {
		if l.kinds == nil || len(l.kinds) >= maxKinds {
			l.kinds = map[K]*kind{}
		}
		one = &kind{lines: rate.NewLimiter(rate.Every(interval), burst)}
		l.kinds[k] = one
	}
	if !one.lines.AllowN(now, 1) {
		one.dropped++
		return 0, false
	}
	dropped, one.dropped = one.dropped, 0
	return dropped, true
}

// New returns a limiter in front of a handler.
func New(next slog.Handler) *Limiter {
	return &Limiter{next, &shared{}}
}

// Dropped returns how many lines were dropped since the start.
func (l *Limiter) Dropped() uint64 { return l.dropped.Load() }

// Enabled implements slog.Handler.
func (l *Limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *Limiter) Handle(ctx context.Context, r slog.Record) error {
	dropped, ok := l.lines.Allow(message{r.Level, r.Message}, r.Time, burst, every)
	if !ok {
		l.dropped.Add(1)
		return nil
	}
	if dropped > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("dropped", dropped))
	}
	return l.next.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *Limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Limiter{l.next.WithAttrs(attrs), l.shared}
}

// WithGroup implements slog.Handler.
func (l *Limiter) WithGroup(name string) slog.Handler {
	return &Limiter{l.next.WithGroup(name), l.shared}
}
