package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/quorate/quorate/internal/cli/render"
)

// maxInFlight bounds the requests in flight. A sender that reaches it falls behind its schedule,
// and reports so.
const maxInFlight = 4096

// pacer sends on a schedule that is independent of the answers (open loop).
type pacer struct {
	start time.Time
	slots chan struct{}

	mu   sync.Mutex
	lag  *hdrhistogram.Histogram // microseconds from schedule to sending
	sent int64
	late int64 // sent more than lateAfter behind schedule
}

// lateAfter is how far behind schedule a request may be sent before the report says that the sender
// could not keep up.
const lateAfter = 20 * time.Millisecond

func newPacer() *pacer {
	return &pacer{slots: make(chan struct{}, maxInFlight), lag: hdrhistogram.New(1, 3600_000_000, 3)}
}

// run calls send(i, moment), each in its own goroutine, at start+at(i), for i from 0 up to n, in
// order, until the context ends; at must not decrease. It returns when all calls have returned.
func (p *pacer) run(ctx context.Context, n int, at func(int) time.Duration, send func(i int, scheduled time.Time)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	p.start = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range n {
		scheduled := p.start.Add(at(i))
		if wait := time.Until(scheduled); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		if ctx.Err() != nil {
			return
		}
		p.note(time.Since(scheduled))
		wg.Go(func() {
			defer func() { <-p.slots }()
			send(i, scheduled)
		})
	}
}

func (p *pacer) note(lag time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if lag > lateAfter {
		p.late++
	}
	record(p.lag, lag)
}

// record adds d in microseconds, clamped to the range of the histogram.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	us := min(max(d.Microseconds(), 1), h.HighestTrackableValue())
	if err := h.RecordValue(us); err != nil {
		panic(err) // clamped above
	}
}

// senderReport describes how well the sender kept its schedule.
type senderReport struct {
	LagP50MS float64 `json:"lag_p50_ms"`
	LagP99MS float64 `json:"lag_p99_ms"`
	LagMaxMS float64 `json:"lag_max_ms"`
	Late     int64   `json:"late"` // sent more than 20 ms behind schedule
	Kept     bool    `json:"kept_schedule"`
}

func (p *pacer) report() senderReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return senderReport{
		LagP50MS: render.Millis(p.lag.ValueAtQuantile(50)), LagP99MS: render.Millis(p.lag.ValueAtQuantile(99)), LagMaxMS: render.Millis(p.lag.Max()),
		Late: p.late, Kept: p.late*100 <= p.sent,
	}
}

func (p *pacer) sentSoFar() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

func (s senderReport) String() string {
	kept := "kept the schedule"
	if !s.Kept {
		kept = fmt.Sprintf("DID NOT KEEP THE SCHEDULE: %d requests more than %v late; lower the speed or the rate", s.Late, lateAfter)
	}
	return fmt.Sprintf("sender       lag p50 %.2f ms, p99 %.2f ms, max %.2f ms; %s\n", s.LagP50MS, s.LagP99MS, s.LagMaxMS, kept)
}
