package plan

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// layout says when the requests of each key may have come. It is a model, not a record. It deals the
// demand of a key's part to the points of the limit's course at random, weighted by the demand of each.
type layout struct {
	keys   [][]cell
	clump  quota.Units // tokens that come together; 0 means evenly
	listed quota.Units
	all    quota.Units
}

// cell is the demand of a key in some seconds, starting at a second.
type cell struct {
	at      history.Second
	seconds int32
	u       quota.Units
}

// maxClump is the largest number of a key's requests that calibrate assumes to come together.
const maxClump = 4096

// calibrate returns the layout for which the current rule refuses closest to what it really refused. If
// that is not known, it assumes that requests come individually.
func (k *Keyed) calibrate() *layout {
	if k.seen == nil {
		return k.layout(quota.Token)
	}
	want := k.seen.Refused()
	best, off := (*layout)(nil), math.Inf(1)
	for clump := quota.Units(0); clump <= maxClump*quota.Token; clump = max(quota.Token, 2*clump) {
		l := k.even
		if clump > 0 {
			l = k.layout(clump)
		}
		got := l.refused(&k.seen.Rule)
		if d := math.Abs(float64(got - want)); d < off {
			best, off = l, d
		}
		if got >= want {
			break
		}
	}
	return best
}

// layout lays out the demand of all keys.
func (k *Keyed) layout(clump quota.Units) *layout {
	l := &layout{clump: clump, listed: k.all - k.others, all: k.all}
	grids := k.grids()
	for i, name := range k.names {
		rng := rand.New(rand.NewPCG(uint64(i), uint64(clump)))
		var cells []cell
		for _, p := range k.keys[name] {
			cells = grids[p.part].deal(cells, p.u, clump, rng)
		}
		l.keys = append(l.keys, cells)
	}
	return l
}

// grid is the course of the limit in one part.
type grid struct {
	points []history.Point
	sums   []float64 // cumulative demand, up to and including each point
}

func (k *Keyed) grids() []grid {
	out := make([]grid, len(k.parts))
	for i := range k.parts {
		p, g := &k.parts[i], &out[i]
		from := sort.Search(len(k.points), func(j int) bool { return k.points[j].Start >= p.At })
		end := sort.Search(len(k.points), func(j int) bool { return k.points[j].Start >= p.end() })
		if from == end { // points are longer than parts
			from = max(0, from-1)
		}
		g.points = k.points[from:end]
		sum := 0.0
		for j := range g.points {
			sum += float64(g.points[j].Attempted)
			g.sums = append(g.sums, sum)
		}
	}
	return out
}

// deal distributes the demand u to the points.
func (g *grid) deal(out []cell, u, clump quota.Units, rng *rand.Rand) []cell {
	total := 0.0
	if len(g.sums) > 0 {
		total = g.sums[len(g.sums)-1]
	}
	if total == 0 {
		return out
	}
	if clump > 0 && float64(u)/float64(clump) <= 4*float64(len(g.points)) {
		return g.dealFew(out, u, clump, rng)
	}
	left, rest := float64(u), total
	for i := range g.points {
		p := &g.points[i]
		part := float64(p.Attempted) / max(rest, 1)
		share := left * part
		if clump > 0 {
			n := left / float64(clump)
			share = math.Round(n*part+rng.NormFloat64()*math.Sqrt(max(0, n*part*(1-part)))) * float64(clump)
		}
		share = min(left, max(0, share))
		left, rest = left-share, rest-float64(p.Attempted)
		if share > 0 {
			out = append(out, cell{p.Start, int32(p.Seconds), quota.Units(share)})
		}
	}
	return out
}

// dealFew assigns a small number of clumps to one point each.
func (g *grid) dealFew(out []cell, u, clump quota.Units, rng *rand.Rand) []cell {
	shares := make([]quota.Units, len(g.points))
	for left := u; left > 0; left -= clump {
		at := sort.SearchFloat64s(g.sums, rng.Float64()*g.sums[len(g.sums)-1])
		shares[min(at, len(shares)-1)] += min(left, clump)
	}
	for i, share := range shares {
		if share > 0 {
			out = append(out, cell{g.points[i].Start, int32(g.points[i].Seconds), share})
		}
	}
	return out
}

// refused returns what a tier would have refused. It assumes that unlisted demand is refused in the same proportion.
func (l *layout) refused(t *quota.Tier) quota.Units {
	if l == nil || l.listed <= 0 {
		return 0
	}
	sum := 0.0
	for _, cells := range l.keys {
		if t.Kind == quota.TokenBucket {
			sum += l.flow(t, cells)
		} else {
			sum += l.step(t, cells)
		}
	}
	return quota.Units(sum * float64(l.all) / float64(l.listed))
}

// flow returns what a bucket refuses of demand that comes evenly within each cell, in clumps.
func (l *layout) flow(t *quota.Tier, cells []cell) (refused float64) {
	burst, rate := float64(t.BurstUnits()), perSecond(t)
	level, free := burst, history.Second(0)
	for _, c := range cells {
		level = min(burst, level+rate*float64(max(0, c.at-free)))
		u, refill := float64(c.u), rate*float64(c.seconds)
		got := min(u, level+refill)
		if clump := float64(l.clump); clump > burst {
			got = min(got, math.Ceil(u/clump)*burst)
		}
		level = min(burst, max(0, level+refill-got))
		refused += u - got
		free = c.at + history.Second(c.seconds)
	}
	return refused
}

// step returns what a window refuses of demand that comes in the middle of each cell.
func (l *layout) step(t *quota.Tier, cells []cell) (refused float64) {
	if len(cells) == 0 {
		return 0
	}
	m := limiter.NewMeter(t, at(cells[0].at))
	for _, c := range cells {
		m.Advance(at(c.at)+(at(c.at+history.Second(c.seconds))-at(c.at))/2, t)
		refused += float64(c.u - spend(&m, c.u))
	}
	return refused
}
