// Package logs keeps a node's log within a budget. A thousand repetitions of a line per second say
// no more than ten, and fill a disk.
package logs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// The budget of one message at one level.
const (
	burst      = 20               // lines at once
	every      = time.Second      // then one line per this time
	maxStrains = 1000             // remembered messages; at the bound all are forgotten
	forgetful  = 10 * time.Minute // a message without a line for this long is new again
)

// Limiter is a slog.Handler that passes on the lines within the budget. The next line that passes
// after dropped ones reports their number: dropped=7. It is safe for concurrent use.
type Limiter struct {
	next slog.Handler
	*shared
}

type shared struct {
	dropped atomic.Uint64

	mu    sync.Mutex
	lines map[strain]*budget
}

type strain struct {
	level   slog.Level
	message string
}

type budget struct {
	tokens float64
	at     time.Time
	held   uint64 // lines dropped since the last that passed
}

// New returns a limiter in front of a handler.
func New(next slog.Handler) *Limiter {
	return &Limiter{next, &shared{lines: map[strain]*budget{}}}
}

// Dropped returns how many lines were dropped since the start.
func (l *Limiter) Dropped() uint64 { return l.dropped.Load() }

// Enabled implements slog.Handler.
func (l *Limiter) Enabled(ctx context.Context, level slog.Level) bool {
	return l.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l *Limiter) Handle(ctx context.Context, r slog.Record) error {
	held, pass := l.allow(strain{r.Level, r.Message}, r.Time)
	if !pass {
		l.dropped.Add(1)
		return nil
	}
	if held > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Uint64("dropped", held))
	}
	return l.next.Handle(ctx, r)
}

// allow reports whether a line is within its budget, and how many were dropped before it.
func (s *shared) allow(k strain, now time.Time) (held uint64, pass bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.lines[k]
	if b == nil || now.Sub(b.at) > forgetful && b.held == 0 {
		if len(s.lines) >= maxStrains {
			clear(s.lines)
		}
		b = &budget{tokens: burst, at: now}
		s.lines[k] = b
	}
	b.tokens = min(burst, b.tokens+float64(max(now.Sub(b.at), 0))/float64(every))
	b.at = now
	if b.tokens < 1 {
		b.held++
		return 0, false
	}
	b.tokens--
	held, b.held = b.held, 0
	return held, true
}

// WithAttrs implements slog.Handler.
func (l *Limiter) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Limiter{l.next.WithAttrs(attrs), l.shared}
}

// WithGroup implements slog.Handler.
func (l *Limiter) WithGroup(name string) slog.Handler {
	return &Limiter{l.next.WithGroup(name), l.shared}
}
