package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
)

// Late is how many seconds after a part its list may still count requests. Leaders list their keys one
// after another, in the first seconds of the next minute.
const Late = 15

// Part holds what was requested of the busiest keys of a limit in some seconds, or up to Late seconds
// after them.
type Part struct {
	At      history.Second
	Seconds int
	Keys    []history.KeyTotal
	Rest    quota.Units // upper bound for a key that is not listed
}

func (p *Part) end() history.Second { return p.At + history.Second(p.Seconds) }

// Keyed holds what is recorded of a limit that counts many keys: the demand of all keys together by the
// second or coarser, and that of the busiest keys by the part. Create it with NewKeyed.
type Keyed struct {
	points []history.Point
	parts  []Part
	seen   *Observed

	names  []string
	keys   map[string][]portion // the portions of each key, in order
	all    quota.Units          // total demand
	others quota.Units          // the part of all that no list contains
	busy   quota.Units          // demand of the busiest key
	rests  quota.Units          // upper bound on what listed keys had while they were not listed
	rest   quota.Units          // the largest Rest
	bars   [][]bar              // the seconds of each part, those in which most can be refused first; nil if seconds are not known
	even   *layout              // nil if there are no lists
	likely *layout
}

// portion is the demand of one key in one part.
type portion struct {
	part int
	u    quota.Units
}

// NewKeyed returns a Keyed for Replay. Points and parts must be whole and ordered by time. NewKeyed leaves
// out parts whose list may reach beyond the last point. seen may be nil.
func NewKeyed(points []history.Point, parts []Part, seen *Observed) *Keyed {
	k := &Keyed{points: points, seen: seen, keys: map[string][]portion{}}
	for i := range points {
		k.all = k.all.Plus(points[i].Attempted)
	}
	for _, p := range parts {
		if n := len(points); n > 0 && p.At >= points[0].Start && p.end()+Late <= points[n-1].Start+history.Second(points[n-1].Seconds) {
			k.parts = append(k.parts, p)
		}
	}
	listed := quota.Units(0)
	for i := range k.parts {
		p := &k.parts[i]
		k.rest = max(k.rest, p.Rest)
		for j := range p.Keys {
			x := &p.Keys[j]
			listed = listed.Plus(x.Attempted)
			k.keys[x.Key] = append(k.keys[x.Key], portion{i, x.Attempted})
		}
	}
	k.names = slices.Sorted(maps.Keys(k.keys))
	k.all = max(k.all, listed)
	k.others = k.all - listed
	k.sum()
	if len(points) > 0 && points[0].Seconds == 1 {
		k.arrange()
	}
	if len(k.names) > 0 {
		k.even = k.layout(0)
		k.likely = k.calibrate()
	}
	return k
}

// sum computes the demand of the busiest key, and bounds what keys had while they were not listed.
func (k *Keyed) sum() {
	whole := quota.Units(0)
	for i := range k.parts {
		whole = whole.Plus(k.parts[i].Rest)
	}
	for _, portions := range k.keys {
		sum, rests := quota.Units(0), whole
		for _, p := range portions {
			sum = sum.Plus(p.u)
			rests -= k.parts[p.part].Rest
		}
		k.busy, k.rests = max(k.busy, sum), k.rests.Plus(rests)
	}
}

// bar is a second in which a key can have been requested. Two parts may share a second; each then gets
// half of what a bucket refills in it.
type bar struct {
	demand quota.Units
	shared bool
}

func (b bar) weight() float64 {
	if b.shared {
		return .5
	}
	return 1
}

// arrange orders the seconds of each part by how much can be refused in them.
func (k *Keyed) arrange() {
	first := k.points[0].Start
	for i := range k.parts {
		p := &k.parts[i]
		var bars []bar
		for s := p.At; s < p.end()+Late; s++ {
			if at := int(s - first); at < len(k.points) && k.points[at].Attempted > 0 {
				bars = append(bars, bar{k.points[at].Attempted, s >= p.end() || s < p.At+Late})
			}
		}
		slices.SortFunc(bars, func(x, y bar) int {
			return cmp.Compare(float64(y.demand)/y.weight(), float64(x.demand)/x.weight())
		})
		k.bars = append(k.bars, bars)
	}
}

// Parts returns the number of parts with known lists.
func (k *Keyed) Parts() int { return len(k.parts) }

// Calibrated reports whether Outcome.Likely is calibrated so that the current rule refuses what it really
// refused.
func (k *Keyed) Calibrated() bool { return k.seen != nil && k.likely != nil }

// Replay returns what tiers would have refused. Three pairs of bounds follow from the demand of each key,
// from the demand of all keys together, and from what another rule really refused of it. The narrowest
// bounds hold.
func (k *Keyed) Replay(tiers []quota.Tier) Outcome {
	out := Outcome{Attempted: k.all}
	for i := range tiers {
		t := &tiers[i]
		one := Outcome{Attempted: k.all, Estimate: estimated(t), Seconds: len(k.parts)}
		one.RefusedAtLeast, one.RefusedAtMost = k.byKey(t)
		if len(tiers) == 1 {
			k.together(t, &one)
			k.seen.narrow(t, &one)
		}
		if one.Likely, one.RefusedIfEven = (one.RefusedAtLeast+one.RefusedAtMost)/2, one.RefusedAtMost; k.likely != nil {
			one.Likely, one.RefusedIfEven = k.likely.refused(t), k.even.refused(t)
		}
		if i == 0 {
			out = one
		} else {
			out.join(one)
		}
	}
	out.RefusedAtLeast = min(max(0, out.RefusedAtLeast), out.RefusedAtMost)
	out.Likely = min(max(out.Likely, out.RefusedAtLeast), out.RefusedAtMost)
	out.RefusedIfEven = min(max(out.RefusedIfEven, out.RefusedAtLeast), out.RefusedAtMost)
	if out.RefusedAtMost == 0 {
		out.Seconds = 0
	}
	return out
}

// byKey returns the bounds that follow from the demand of each key.
func (k *Keyed) byKey(t *quota.Tier) (least, most quota.Units) {
	for _, name := range k.names {
		portions := k.keys[name]
		least = least.Plus(k.leastOf(t, portions))
		most = most.Plus(k.mostOf(t, portions))
	}
	unlisted := k.others
	if k.harmless(t) {
		unlisted = min(unlisted, k.rests.Plus(k.unlisted()))
	}
	return least, min(most.Plus(unlisted), k.all)
}

// unlisted returns what was requested in seconds that no list covers for certain.
func (k *Keyed) unlisted() (sum quota.Units) {
	j := 0
	for i := range k.points {
		p := &k.points[i]
		end := p.Start + history.Second(p.Seconds)
		for j < len(k.parts) && k.parts[j].end() < end {
			j++
		}
		listed := j < len(k.parts) && p.Start >= k.parts[j].At
		if listed && p.Start < k.parts[j].At+Late && (j == 0 || k.parts[j-1].end() != k.parts[j].At) {
			listed = false
		}
		if !listed {
			sum = sum.Plus(p.Attempted)
		}
	}
	return sum
}

// together applies the bounds that follow from treating all demand as one key's. Keys with a bucket each
// are refused no more than that, and hardly less if one key had nearly all of the demand.
func (k *Keyed) together(t *quota.Tier, out *Outcome) {
	if len(k.points) == 0 || k.points[0].Seconds > 1 && !fits(t, k.points) { // coarser points would yield only an estimate
		return
	}
	one := Replay(t, Whole(k.points))
	if one.Estimate {
		return
	}
	out.RefusedAtMost = min(out.RefusedAtMost, one.RefusedAtMost)
	out.RefusedAtLeast = max(out.RefusedAtLeast, one.RefusedAtLeast-(k.all-k.busy))
}
