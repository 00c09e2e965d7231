package load

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
)

// draw is one call to make.
type draw struct {
	node int
	keys []int32
}

// loadStats counts the calls of a load and their results.
type loadStats struct {
	drawn chan draw

	mu      sync.Mutex
	latency *hdrhistogram.Histogram // microseconds from schedule to answer
	second  *hdrhistogram.Histogram // the same, since the last line of progress
	totals  loadTotals
	shown   loadTotals // at the last line of progress
	keys    []keyLoad
	why     map[quota.Why]int64
	lastErr error
}

type loadTotals struct{ sent, answered, allowed, refused, errors int64 }

// keyLoad holds the counts of one key; times are Unix nanoseconds.
type keyLoad struct {
	attempted, allowed int64
	first, last        int64
}

func newLoadStats(keys int) *loadStats {
	const longest = 3600_000_000 // microseconds
	return &loadStats{
		drawn: make(chan draw, maxInFlight+1), latency: hdrhistogram.New(1, longest, 3), second: hdrhistogram.New(1, longest, 3),
		keys: make([]keyLoad, keys), why: make(map[quota.Why]int64),
	}
}

func (s *loadStats) sending(d draw, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.sent += int64(len(d.keys))
	for _, k := range d.keys {
		key := &s.keys[k]
		if at := now.UnixNano(); key.first == 0 || at < key.first {
			key.first = at
		}
		key.attempted++
	}
}

func (s *loadStats) failed(checks int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.errors += int64(checks)
	s.lastErr = err
}

func (s *loadStats) answered(d draw, results []*quoratev1.AllowResult, scheduled, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	record(s.latency, now.Sub(scheduled))
	record(s.second, now.Sub(scheduled))
	for i, r := range results {
		if r.Response == nil {
			s.totals.errors++
			s.lastErr = fmt.Errorf("%s", r.Error)
			continue
		}
		key := &s.keys[d.keys[i]]
		key.last = max(key.last, now.UnixNano())
		s.totals.answered++
		s.why[quota.Why(r.Response.Why)]++
		if r.Response.Allowed {
			s.totals.allowed++
			key.allowed++
		} else {
			s.totals.refused++
		}
	}
}

// progress prints the counts since the last call.
func (s *loadStats) progress(w io.Writer, at time.Duration, inFlight int) {
	s.mu.Lock()
	t, was := s.totals, s.shown
	s.shown = t
	p50, p99 := s.second.ValueAtQuantile(50), s.second.ValueAtQuantile(99)
	s.second.Reset()
	s.mu.Unlock()
	fmt.Fprintf(w, "%4.0fs  sent %d/s  answered %d/s  allowed %d/s  refused %d/s  errors %d/s  p50 %.2f ms  p99 %.2f ms  in flight %d\n",
		at.Seconds(), t.sent-was.sent, t.answered-was.answered, t.allowed-was.allowed, t.refused-was.refused, t.errors-was.errors, render.Millis(p50), render.Millis(p99), inFlight)
}
