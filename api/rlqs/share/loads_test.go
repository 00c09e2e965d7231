package share_test

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// load is a proxy of a loads test: its node, and its requests per second.
type load struct {
	node int
	rate func(since time.Duration) float64
}

// loads is a run of several proxies, and the bounds of its means over eight seeds. A bound of 0 is
// none.
type loads struct {
	name           string
	limit          quota.Limit
	nodes          int
	proxies        []load
	report         time.Duration // between reports
	slow           time.Duration // extra delay of the first proxy's assignments
	settle, length time.Duration

	least    float64 // admitted, as a fraction of what the ideal admits
	fair     float64 // smallest fraction of its max-min part that a proxy gets
	messages float64 // per proxy and second, at most
	excess   float64 // tokens beyond the bucket, at most
	together float64 // highest sum of assigned rates, as a multiple of the limit, at most
}

// flats are proxies with steady demand, on the nodes in turn.
func flats(nodes int, rates ...float64) []load {
	out := make([]load, len(rates))
	for i, r := range rates {
		out[i] = load{i % nodes, flat(r)}
	}
	return out
}

// spot are n proxies, on the nodes in turn. One of them asks for high and the others for low, and
// after each period it is the next one.
func spot(nodes, n int, period time.Duration, high, low float64) []load {
	out := make([]load, n)
	for i := range out {
		out[i] = load{i % nodes, func(since time.Duration) float64 {
			if int(since/period)%n == i {
				return high
			}
			return low
		}}
	}
	return out
}

// TestLoads runs loads whose figures depend on the heuristics of this package: the comment of each
// heuristic names a test that fails without it. No proxy may get less than 0.2 of its part with any
// seed.
func TestLoads(t *testing.T) {
	const sec = time.Second
	limit := func(rate, burst int64, hard bool) quota.Limit {
		c := quota.Soft
		if hard {
			c = quota.Hard
		}
		return perSecond(rate, burst, c)
	}
	window := func(c quota.Ceiling) quota.Limit {
		return quota.Limit{Kind: quota.FixedWindow, Rate: quota.Rate{Tokens: 5000, Per: 10 * sec}, Burst: 5000, Ceiling: c}
	}
	soft, hard := limit(1000, 1000, false), limit(1000, 1000, true)
	ten := flats(2, 20, 1000, 20, 500, 20, 500, 20, 500, 20, 500)
	many := flats(3, 10, 50, 90, 130, 170, 210, 250, 290, 330, 370, 410, 450)
	quiet := flats(3, 30, 20, 10, 5, 3, 1)
	surge := append(flats(3, 50, 300, 300, 100), load{})[:4]
	surge[0].rate = func(since time.Duration) float64 {
		if since < 20*sec {
			return 50
		}
		return 3000
	}
	for _, l := range []loads{
		{name: "ten", limit: soft, nodes: 2, proxies: ten, messages: 1.0},
		{name: "many", limit: soft, nodes: 3, proxies: many, fair: 0.8},
		{name: "even", limit: soft, nodes: 3, proxies: flats(3, 900, 900, 900), excess: 100},
		{name: "near the limit, hard", limit: hard, nodes: 3, proxies: flats(3, 600, 300, 200), messages: 0.85},
		{name: "near the limit, soft", limit: soft, nodes: 3, proxies: flats(3, 600, 300, 200), messages: 0.92},
		{name: "rare", limit: hard, nodes: 3, proxies: flats(3, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2), settle: 10 * sec, length: 60 * sec, least: 0.75},
		{name: "quiet, soft", limit: soft, nodes: 3, proxies: quiet, messages: 0.65},
		{name: "quiet, hard", limit: hard, nodes: 3, proxies: quiet, messages: 0.65, fair: 0.85},
		{name: "surge", limit: limit(1000, 10_000, false), nodes: 3, proxies: surge, settle: 20 * sec, length: 6 * sec, least: 0.956},
		{name: "window, soft", limit: window(quota.Soft), nodes: 3, proxies: flats(3, 900, 300, 10), settle: 10 * sec, length: 30 * sec, messages: 1.9},
		{name: "window, hard", limit: window(quota.Hard), nodes: 3, proxies: flats(3, 900, 300, 10), settle: 10 * sec, length: 30 * sec, fair: 0.435},
		{name: "few tokens", limit: limit(2, 2, false), nodes: 3, proxies: flats(3, 5, 5, 5), settle: 6 * sec, length: 40 * sec, fair: 0.4, excess: 15},
		{name: "start", limit: soft, nodes: 10, proxies: flats(10, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500), settle: sec / 2, length: 6 * sec, excess: 150},
		{name: "one node, soft", limit: soft, nodes: 1, proxies: spot(1, 3, 7*sec, 2000, 20), slow: 400 * time.Millisecond, settle: 7 * sec, length: 28 * sec, together: 1.1},
		{name: "one node, hard", limit: hard, nodes: 1, proxies: spot(1, 3, 7*sec, 2000, 300), settle: 7 * sec, length: 28 * sec, together: 1.1},
	} {
		t.Run(l.name, func(t *testing.T) { l.run(t) })
	}
}

func (l *loads) run(t *testing.T) {
	const seeds = 8
	if l.report == 0 {
		l.report = 2 * time.Second
	}
	if l.settle == 0 {
		l.settle, l.length = 6*time.Second, 20*time.Second
	}
	var least, fair, messages, excess, together float64
	for seed := range uint64(seeds) {
		w := newWorld(t, seed+1, l.nodes, l.limit)
		demand := make([]float64, len(l.proxies))
		for i, p := range l.proxies {
			w.proxy(p.node, l.report, p.rate).deny = true
			demand[i] = p.rate(l.settle)
		}
		w.proxies[0].slow = l.slow
		w.run(l.settle)
		passed, admit, pushes := w.passed, w.admits(), 0
		w.run(l.length)
		worst, sum := 1.0, 0.0
		ideal := maxMin(w.rate(), demand)
		for i, p := range w.proxies {
			got := float64(p.admit - admit[i])
			sum += got
			pushes += p.pushes
			if ideal[i] > 0 {
				worst = min(worst, got/ideal[i]/l.length.Seconds())
			}
		}
		least += sum / float64(w.passed-passed) / seeds
		if worst < 0.2 {
			t.Errorf("seed %d: a proxy got %.2f of its part", seed+1, worst)
		}
		fair += worst / seeds
		messages += float64(pushes) / float64(len(w.proxies)) / (l.settle + l.length).Seconds() / seeds
		excess += max(0, -w.lowest) / seeds
		together += w.sumRate / w.rate() / seeds
	}
	t.Logf("%.3f of the ideal, worst off %.2f, %.2f messages per proxy and second, excess %.0f, rates together %.2f",
		least, fair, messages, excess, together)
	for _, b := range []struct {
		name       string
		bad        bool
		got, bound float64
	}{
		{"of the ideal", least < l.least, least, l.least},
		{"worst off", fair < l.fair, fair, l.fair},
		{"messages per proxy and second", l.messages > 0 && messages > l.messages, messages, l.messages},
		{"excess", l.excess > 0 && excess > l.excess, excess, l.excess},
		{"rates together", l.together > 0 && together > l.together, together, l.together},
	} {
		if b.bad {
			t.Errorf("%s: %.3f; bound %.3f", b.name, b.got, b.bound)
		}
	}
}

// admits returns the number of requests that each proxy has admitted.
func (w *world) admits() []int64 {
	out := make([]int64, len(w.proxies))
	for i, p := range w.proxies {
		out[i] = p.admit
	}
	return out
}
