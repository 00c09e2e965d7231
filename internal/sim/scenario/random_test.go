package scenario

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/sim"
)

// TestRandom writes scenarios with anything in them: all are valid, and play to
// their end without breaking what must hold, under every algorithm.
func TestRandom(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		text := randomFile(rand.New(rand.NewPCG(seed, 2)))
		all, err := Parse("random.yaml", []byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		s := all[0]
		algorithms := sim.Algorithms()
		for _, a := range []sim.Algorithm{sim.Quorate, algorithms[seed%uint64(len(algorithms))]} {
			o := s.Run(a, seed, nil)
			if b := s.Check([]Outcome{o}); a == sim.Quorate && len(b) > 0 {
				t.Errorf("seed %d: %v: %v\n%s", seed, b, o.Violations, text)
			}
			if o.Admitted > o.Attempted || o.Ideal > o.Attempted || o.WorstExcess.Tokens < 0 {
				t.Errorf("seed %d, %s: %+v\n%s", seed, a, o, text)
			}
		}
	}
}

// randomFile is a scenario of two seconds.
func randomFile(rng *rand.Rand) string {
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	nodes := 2 + rng.IntN(6)
	node := func() int { return 1 + rng.IntN(nodes) }
	moment := func() string { return fmt.Sprintf("%dms", rng.IntN(1900)) }
	var b strings.Builder
	limit := pick("{rate: 100/s, burst: 50}", "{rate: 10/s, burst: 10, ceiling: hard}", "{limit: 100, per: 1s}", "{limit: 100, per: 1s, window: sliding, ceiling: hard}",
		"{tiers: [{limit: 50, per: 1s}, {rate: 100/s, burst: 10}]}", "{in_flight: 20}", "{rate: 50/s, burst: 20, decide: leader}", "{rate: 100/s, burst: 50, max_wait: 1s}", "{limit: 100, per: minute, window: calendar}")
	fmt.Fprintf(&b, "duration: 2s\nnodes: %d\nlimit: %s\n", nodes, limit)
	if strings.Contains(limit, "in_flight") {
		b.WriteString("hold: 50ms\n")
	}
	fmt.Fprintf(&b, "network: {delay: %s, jitter: %s, loss: %s, duplicate: %s, reorder: %s}\n", pick("0s", "1ms", "40ms"), pick("0s", "2ms"), pick("0", "0.1", "1"), pick("0", "0.1"), pick("0", "0.1"))
	fmt.Fprintf(&b, "sync: %s\nhop: %s\nelection: %s\nskew: %s\ndrift: %s\nnear: %s\n", pick("10ms", "100ms", "1s"), pick("0s", "20ms"), pick("1ms", "300ms"), pick("0s", "1s"), pick("0", "0.01"), pick("true", "false"))
	fmt.Fprintf(&b, "keys: %s\nload:\n", pick("1", "3", "{count: 100, zipf: 1.1}"))
	for range 1 + rng.IntN(3) {
		extra := pick("", ", on: 100ms, off: 50ms", ", clump: 10", ", cost: 3", ", cost: 0", ", from: 500ms, to: 1s")
		if extra != ", cost: 0" && !strings.Contains(limit, "in_flight") {
			extra += pick("", "", ", refund: 0.5", ", charge: true")
		}
		fmt.Fprintf(&b, "  - {rate: %s, spread: %s%s}\n", pick("0.5x", "3x", "500/s", "0/s"), pick("even", "{skew: 0.9}", "{moving: 100ms}", fmt.Sprintf("{nodes: [%d]}", node())), extra)
	}
	for i := range rng.IntN(5) {
		if i == 0 {
			b.WriteString("faults:\n")
		}
		fmt.Fprintf(&b, "  - {at: %s, %s}\n", moment(), pick("kill: leader", "kill: leader, for: 200ms", fmt.Sprintf("kill: %d, for: 100ms", node()), "pause: leader, for: 300ms",
			fmt.Sprintf("pause: %d", node()), "suspend: leader, for: 400ms", "heal: all", "slow: leader, by: 50ms", fmt.Sprintf("slow: %d, by: 5ms, for: 1s", node()), fmt.Sprintf("partition: [[%d], []]", node()),
			fmt.Sprintf("join: %d", node()), fmt.Sprintf("move: %d", node()), fmt.Sprintf("clock: %d, by: %s", node(), pick("2s", "-300ms"))))
	}
	return strings.NewReplacer(", []]", "]"+pick(", for: 100ms", "")).Replace(b.String())
}
