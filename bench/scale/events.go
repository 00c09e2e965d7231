package scale

import (
	"math"
	"math/rand/v2"

	"github.com/quorate/quorate/internal/quota"
)

// event happens at a moment; n orders the events of the same moment.
type event struct {
	at quota.Time
	n  uint64
	f  func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.n < o.n }

// events is a heap with the earliest event first.
type events struct {
	heap []event
	n    uint64
}

func (e *events) push(at quota.Time, f func()) {
	e.n++
	e.heap = append(e.heap, event{at, e.n, f})
	h := e.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (e *events) pop() event {
	h := e.heap
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < last && h[down].before(&h[least]) {
				least = down
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	e.heap = h
	return top
}

// zipf draws numbers from 1 to n, k with a frequency of k^-e, from a table of the sums.
type zipf struct{ sums []float64 }

func newZipf(n int, e float64) *zipf {
	z := &zipf{make([]float64, n)}
	sum := 0.0
	for k := range z.sums {
		sum += math.Pow(float64(k+1), -e)
		z.sums[k] = sum
	}
	return z
}

func (z *zipf) draw(rng *rand.Rand) int {
	x := rng.Float64() * z.sums[len(z.sums)-1]
	low, high := 0, len(z.sums)-1
	for low < high {
		if mid := (low + high) / 2; z.sums[mid] < x {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low + 1
}

// open is how long an unused key stays open, in seconds.
const open = 1.0

// Entries returns how many entries a second the cost model predicts for a node: one for each
// interval in which a key was used, and two for each time that a key opens, of which the second is
// sent when it closes.
func (s *Shape) Entries() float64 {
	used, opened := s.parts()
	return used + 2*opened
}

// Frames returns how many frames of reports a second the cost model predicts for a node: a key that
// opens is sent at once, and all other entries for the same leader in one interval share a frame.
func (s *Shape) Frames() float64 {
	used, opened := s.parts()
	leaders := float64(min(s.Nodes, s.Ranges))
	return opened + leaders*(1-math.Exp(-(used+opened)*s.Sync.Seconds()/leaders))/s.Sync.Seconds()
}

func (s *Shape) parts() (used, opened float64) {
	t := s.Sync.Seconds()
	s.each(func(rate float64) {
		used += (1 - math.Exp(-rate*t)) / t
		opened += rate * math.Exp(-rate*open)
	})
	return used, opened
}

// Holders returns the number of nodes that have the key of an entry open, averaged over entries:
// the nodes that used the key within the time for which it stays open.
func (s *Shape) Holders() float64 {
	sum, entries := 0.0, 0.0
	s.each(func(rate float64) {
		e := 1 - math.Exp(-rate*s.Sync.Seconds())
		sum += e * max(1, float64(s.Nodes)*(1-math.Exp(-rate*open)))
		entries += e
	})
	return sum / entries
}

// each calls f with the rate of each key at one node.
func (s *Shape) each(f func(rate float64)) {
	z := newZipf(s.Keys, s.Zipf)
	all, before := z.sums[len(z.sums)-1], 0.0
	for _, sum := range z.sums {
		f(s.Rate * (sum - before) / all)
		before = sum
	}
}
