package sim

import (
	"math/rand/v2"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// dropRatio sheds load like Uber's global limiter: nodes report the attempts of each sync interval
// to one aggregator, on the first living node. It sums them and returns the fraction to drop in the
// next interval, so that the rest is what the rate yields in an interval. Each request draws a
// random number. There is no bucket: saved tokens are not admitted, and admissions are not
// remembered.
//
// A node without news keeps the last ratio. An aggregator that dies loses its sums.
type dropRatio struct {
	r     *run
	rng   *rand.Rand
	nodes tables[dropped]
	sums  table[summed]
	at    *node // node of the current aggregator
}

// dropped is a node's state of a key.
type dropped struct {
	ratio     float64
	attempted quota.Units // not yet reported
}

// summed is the aggregator's state of a key.
type summed struct {
	attempted quota.Units // in this interval
	dropping  bool        // the last ratio was more than 0
}

func newDropRatio(r *run) *dropRatio {
	return &dropRatio{
		r: r, rng: rand.New(rand.NewPCG(r.Seed, 2)),
		nodes: newTables(func() dropped { return dropped{} }), sums: newTable(func() summed { return summed{} }),
	}
}

func (d *dropRatio) start() {
	d.r.everySync(d.sync)
	d.r.after(d.r.Sync, d.aggregate)
}

func (d *dropRatio) decide(n *node, key string, cost quota.Units) quota.Decision {
	k := d.nodes.on(n).of(key)
	k.attempted += cost
	return yesOrNo(d.rng.Float64() >= k.ratio)
}

// aggregator returns the aggregator's node, nil if all nodes are dead.
func (d *dropRatio) aggregator() *node {
	i := slices.IndexFunc(d.r.nodes, func(n *node) bool { return !n.dead })
	if i < 0 {
		return nil
	}
	if d.at != d.r.nodes[i] {
		d.at = d.r.nodes[i]
		d.sums.clear()
	}
	return d.at
}

// sync reports attempts to the aggregator.
func (d *dropRatio) sync(n *node) {
	to := d.aggregator()
	if to == nil {
		return
	}
	attempted := map[string]quota.Units{}
	var keys []string
	t := d.nodes.on(n)
	for _, key := range t.keys {
		if k := t.of(key); k.attempted > 0 {
			attempted[key], k.attempted = k.attempted, 0
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return
	}
	d.r.carry(n, to, keys, func() {
		for _, key := range keys {
			d.sums.of(key).attempted += attempted[key]
		}
	})
}

// aggregate ends an interval: it computes the ratios and sends all nodes those that are or were
// above 0.
func (d *dropRatio) aggregate() {
	defer d.r.after(d.r.Sync, d.aggregate)
	from := d.aggregator()
	if from == nil {
		return
	}
	ratios := map[string]float64{}
	var keys []string
	for _, key := range d.sums.keys {
		s := d.sums.of(key)
		ratio := d.ratio(s.attempted)
		s.attempted = 0
		if ratio > 0 || s.dropping {
			ratios[key] = ratio
			keys = append(keys, key)
		}
		s.dropping = ratio > 0
	}
	if len(keys) == 0 {
		return
	}
	for _, n := range d.r.nodes {
		d.r.carry(from, n, keys, func() {
			for _, key := range keys {
				d.nodes.on(n).of(key).ratio = ratios[key]
			}
		})
	}
}

// ratio returns the part of an interval's attempts that exceeds the strictest tier.
func (d *dropRatio) ratio(attempted quota.Units) float64 {
	worst := 0.0
	for _, t := range d.r.Limit.Tiers() {
		yields := float64(quota.FromTokens(t.Rate.Tokens)) * float64(d.r.Sync) / float64(t.Rate.Per)
		if a := float64(attempted); a > yields {
			worst = max(worst, 1-yields/a)
		}
	}
	return worst
}
