// Package logs keeps a node's log within a budget: a line that is repeated a thousand times a
// second tells no more than ten of them, and fills a disk.
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
	every      = time.Second      // after that one in this time
	maxStrains = 1000             // messages that are remembered; beyond them the oldest round is forgotten
	forgetful  = 10 * time.Minute // without a line, as if there never had been one
)

// Limiter is a slog.Handler that passes on what is within the budget. The next line of a message
// that was held back says how many of them were: dropped=7. Safe for concurrent use.
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
	held   uint64 // back, since the last that passed
}

// New returns a limiter in front of a handler.
func New(next slog.Handler) *Limiter {
	return &Limiter{next, &shared{lines: map[strain]*budget{}}}
}

// Dropped returns how many lines were held back since the start.
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

// allow says whether a line is within its budget, and how many before it were not.
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
