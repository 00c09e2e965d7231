package share_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func perSecond(rate, burst int64, c quota.Ceiling) quota.Limit {
	return quota.Limit{Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: burst, Ceiling: c}
}

// maxMin returns the max-min fair division of a rate by demand.
func maxMin(rate float64, demand []float64) []float64 {
	out := make([]float64, len(demand))
	order := make([]int, len(demand))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(demand[a] - demand[b]) })
	for n, i := range order {
		out[i] = min(demand[i], rate/float64(len(order)-n))
		rate -= out[i]
	}
	return out
}

// TestDivision compares the requests that each proxy on several nodes admits with its max-min
// fair part, and their sum with one central bucket that sees all requests.
func TestDivision(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  int64
		nodes int
		loads []float64 // of proxies, on the nodes in turn
	}{
		{"even, 0.9 of the limit", 1000, 3, []float64{300, 300, 300}},
		{"even, 2.7 of it", 1000, 3, []float64{900, 900, 900}},
		{"one asks for most", 1000, 3, []float64{100, 100, 3000}},
		{"one asks for all", 1000, 3, []float64{2000, 0, 0}},
		{"one asks for most, enough for all", 1000, 3, []float64{50, 50, 800}},
		{"skewed 90/5/5, 3 times the limit", 1000, 3, []float64{2700, 150, 150}},
		{"ten on two nodes", 1000, 2, []float64{20, 1000, 20, 500, 20, 500, 20, 500, 20, 500}},
		{"little", 20, 3, []float64{20, 20, 20}},
	} {
		for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
			// off is the largest relative difference of the sum from the ideal. least is the
			// smallest fraction of its part that any proxy must get. together is the highest sum
			// of assigned rates at any moment, as a multiple of the limit.
			off, least, together := 0.02, 0.85, 1.45
			if ceiling == quota.Hard {
				off, least = 0.06, 0.7
			}
			if c.rate < 100 {
				off, together = off*3, 1.8
			}
			t.Run(c.name+" "+ceiling.String(), func(t *testing.T) {
				w := newWorld(t, 1, c.nodes, perSecond(c.rate, c.rate, ceiling))
				for i, l := range c.loads {
					w.proxy(i%c.nodes, 2*time.Second, flat(l))
				}
				const settling, length = 6 * time.Second, 20 * time.Second
				w.run(settling)
				passed, admit := w.passed, make([]int64, len(w.proxies))
				for i, p := range w.proxies {
					admit[i] = p.admit
				}
				w.run(length)
				ideal := maxMin(float64(c.rate), c.loads)
				var line strings.Builder
				sum, worst := 0.0, 1.0
				for i, p := range w.proxies {
					got := float64(p.admit-admit[i]) / length.Seconds()
					sum += got
					if ideal[i] > 0 {
						worst = min(worst, got/ideal[i])
					}
					fmt.Fprintf(&line, " %.0f of %.0f,", got, ideal[i])
				}
				want := float64(w.passed-passed) / length.Seconds()
				pushes := 0
				for _, p := range w.proxies {
					pushes += p.pushes
				}
				t.Logf("%s sum %.0f, ideal %.0f (%+.1f %%), worst off %.2f, excess %.0f, rates together %.2f, %.2f messages per proxy and second",
					line.String(), sum, want, 100*(sum-want)/want, worst, max(0, -w.lowest), w.sumRate/float64(c.rate), float64(pushes)/26/float64(len(w.proxies)))
				if math.Abs(sum-want) > off*want {
					t.Errorf("admitted %.0f/s; the ideal admits %.0f/s", sum, want)
				}
				if w.sumRate > together*float64(c.rate) {
					t.Errorf("the assigned rates were %.0f together", w.sumRate)
				}
				if worst < least {
					t.Errorf("the worst off got %.2f of its part", worst)
				}
			})
		}
	}
}
