package sim

import (
	"cmp"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// arrive plays node n's next request of the function Load and schedules the following one. Arrivals
// are Poisson; the rate is read again at least every ten milliseconds.
func (r *run) arrive(n *node) {
	if n.look == nil {
		n.look = func() { r.arrive(n) }
		n.come = func() {
			r.request(n, wanted{key: "k", cost: 1})
			r.arrive(n)
		}
	}
	const step = 10 * time.Millisecond
	rate := r.Load(n.i, r.since())
	gap := time.Duration(math.MaxInt64)
	if rate > 0 {
		gap = time.Duration(r.rng.ExpFloat64() / rate * float64(time.Second))
	}
	if gap > step {
		r.after(step, n.look)
		return
	}
	r.after(gap, n.come)
}

// source plays one entry of Loads: one Poisson process over all nodes and keys.
type source struct {
	Load
	r    *run
	rng  *rand.Rand
	keys *zipf // nil for a single key
	next func()
}

func (r *run) startLoad(i int) {
	s := &source{Load: r.Loads[i], r: r, rng: rand.New(rand.NewPCG(r.Seed, 1000+uint64(i)))}
	if s.Clump, s.Cost = max(s.Clump, 1), max(s.Cost, 1); s.Look {
		s.Cost = 0
	}
	if s.To == 0 {
		s.To = math.MaxInt64
	}
	if r.Keys.Count > 1 {
		s.keys = newZipf(r.Keys.Count, r.Keys.Zipf)
	}
	s.next = s.play
	s.schedule(s.From)
}

// schedule schedules the first arrival after t. While the load is off, nothing arrives; because the
// process is memoryless, the arrival is drawn again when the load is on again.
func (s *source) schedule(t time.Duration) {
	for s.Rate > 0 {
		from, to := s.stretch(t)
		if from >= s.To {
			return
		}
		gap := s.rng.ExpFloat64() * float64(s.Clump) / s.Rate * float64(time.Second)
		if at := float64(from) + gap; at < float64(min(to, s.To)) {
			s.r.at(s.r.Start.Add(time.Duration(at)), s.next)
			return
		}
		if to >= s.To {
			return
		}
		t = to
	}
}

// stretch returns the first interval, from t on, in which the load is on.
func (s *source) stretch(t time.Duration) (from, to time.Duration) {
	if s.On <= 0 || s.Off <= 0 {
		return t, math.MaxInt64
	}
	period := s.On + s.Off
	start := s.From + (t-s.From)/period*period
	if t >= start+s.On {
		start += period
	}
	return max(t, start), start + s.On
}

func (s *source) play() {
	t := s.r.since()
	n := s.r.nodes[s.node(t)]
	key := "k"
	if s.keys != nil {
		key = strconv.Itoa(s.keys.draw(s.rng))
	}
	for range s.Clump {
		s.r.requestAt(n, s.Spread, s.wants(key))
	}
	s.schedule(t)
}

// wants returns what a request of the load asks for. What it gives back, if it is admitted, is drawn here, so that it is
// the same for every algorithm.
func (s *source) wants(key string) wanted {
	w := wanted{key: key, cost: s.Cost, charge: s.Charge}
	if s.Refund > 0 && s.rng.Float64() < s.Refund {
		w.back = 1 + s.rng.Int64N(s.Cost)
		w.after = time.Duration(s.rng.Int64N(int64(cmp.Or(s.within, refundWithin))))
	}
	return w
}

// node draws the node that gets the next requests.
func (s *source) node(t time.Duration) int {
	switch p := s.Spread; {
	case len(p.Nodes) > 0:
		return p.Nodes[s.rng.IntN(len(p.Nodes))] - 1
	case p.Moving > 0:
		return int((t-s.From)/p.Moving) % s.r.Nodes
	case p.Skew > 0 && s.r.Nodes > 1:
		if s.rng.Float64() < p.Skew {
			return 0
		}
		return 1 + s.rng.IntN(s.r.Nodes-1)
	}
	return s.rng.IntN(s.r.Nodes)
}

// zipf draws numbers from 1 to n, with a probability of k proportional to k^-e; e 0 is uniform. It
// uses rejection-inversion: it draws a point under the curve x^-e, whose integral is easily
// inverted, and returns the nearest integer unless the point is above that integer's step.
type zipf struct {
	n        int
	e        float64
	low, all float64 // integral at the left edge of the first step and the right edge of the last
}

func newZipf(n int, e float64) *zipf {
	z := &zipf{n: n, e: e}
	z.low = z.area(1.5) - 1
	z.all = z.area(float64(n) + .5)
	return z
}

// area returns the integral of x^-e, up to a constant.
func (z *zipf) area(x float64) float64 {
	if math.Abs(z.e-1) < 1e-9 {
		return math.Log(x)
	}
	return math.Pow(x, 1-z.e) / (1 - z.e)
}

func (z *zipf) inverse(a float64) float64 {
	if math.Abs(z.e-1) < 1e-9 {
		return math.Exp(a)
	}
	return math.Pow(a*(1-z.e), 1/(1-z.e))
}

func (z *zipf) draw(rng *rand.Rand) int {
	if z.e <= 0 {
		return 1 + rng.IntN(z.n)
	}
	for {
		a := z.low + rng.Float64()*(z.all-z.low)
		k := min(max(int(z.inverse(a)+.5), 1), z.n)
		// The step of k is as high as the curve at k, and the curve is convex: its
		// area over the step's width is at least the step's.
		if a >= z.area(float64(k)+.5)-math.Pow(float64(k), -z.e) {
			return k
		}
	}
}
