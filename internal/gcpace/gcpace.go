// Package gcpace makes a busy process collect garbage less often.
//
// Go's runtime collects when the heap has doubled. A node of some 20 MB that serves 20,000 calls a
// second allocates that several times a second, and spends a tenth of its processor time marking
// the same tables again. A process that allocates a lot gets room for up to Spare more; an idle one
// gets none, so that it stays small.
package gcpace

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Spare bounds the additional garbage of a busy process in bytes.
	Spare = 128 << 20

	busy  = 32 << 20 // bytes allocated in a second by a busy process
	calm  = 10       // seconds below that until the process is idle
	usual = 100      // percent, Go's default
	most  = 1000
)

// Run paces the collector until the context ends, and then restores the default. It does nothing if
// GOGC is set; GOMEMLIMIT applies in any case. A process must not call it twice at a time.
func Run(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	p, set := pacer{}, usual
	defer debug.SetGCPercent(usual)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		metrics.Read(samples)
		next := p.next(value(&samples[0]), value(&samples[1]))
		if next != set {
			debug.SetGCPercent(next)
			set = next
		}
	}
}

// value returns 0 if the runtime does not have the metric.
func value(s *metrics.Sample) uint64 {
	if s.Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s.Value.Uint64()
}

// pacer decides once per second.
type pacer struct {
	allocated uint64 // total
	started   bool
	quiet     int // seconds since it was busy
	percent   int
}

// next returns the percentage for a process that has allocated a total of allocated bytes, of which
// live are in use. It changes in steps of an eighth, so that the collector is not adjusted every
// second.
func (p *pacer) next(allocated, live uint64) int {
	grown := allocated - p.allocated
	if p.allocated = allocated; !p.started {
		p.started, p.percent = true, usual
		return usual
	}
	if p.quiet++; grown >= busy {
		p.quiet = 0
	}
	want := usual
	if p.quiet < calm && (p.percent > usual || grown >= busy) {
		want = int(min(most, max(usual, usual*Spare/max(live, 1))))
	}
	if want == usual || math.Abs(float64(want-p.percent)) > float64(p.percent)/8 {
		p.percent = want
	}
	return p.percent
}
