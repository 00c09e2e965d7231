package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// dispersion estimates how much requests come in batches: the index of dispersion
// of the counts (variance to mean, in tokens), over all members of one key. It is
// 1 of single requests of one token that arrive as a Poisson process, and n of
// requests of n tokens, or of n requests that arrive together.
//
// The variance is the negative autocovariance of successive differences (Roll,
// 1984): of three neighbouring counts a, b, c, (b-a)(b-c) is the variance of b on
// average if they have the same mean. Unlike the variance about the mean, a step
// from one level of demand to another adds nothing to it: loads that start and
// stop, or move, are not taken for batches.
//
// Both sums forget: they are exponentially weighted by samples, not by time, so
// that rare requests are remembered.
type dispersion struct {
	variance, mean float64
	typical        float64 // size, if it has been worked out since the last sample; else 0
}

const (
	// forget is the part of the sums that a sample displaces.
	forget = 1.0 / 128
	// ones is how many requests of one token it starts with.
	ones = 8
	// fewest is what is taken for Poisson: the estimate of a real one strays that far.
	fewest = 2
	// outlier times what it should be is what one sample can say: of rare batches a
	// right one says three times as much. More is demand that has moved.
	outlier = 12
	// largest bounds the estimate: one strange count must not end all surges.
	largest = 1 << 10
)

// add takes the three neighbouring counts of a member, in tokens.
func (d *dispersion) add(a, b, c float64) {
	if a+b+c == 0 {
		return
	}
	strange := outlier * d.index() * (a + b + c) / 3
	d.typical = 0
	d.variance += min(max((b-a)*(b-c), -strange), strange) - forget*d.variance
	d.mean += b - forget*d.mean
}

func (d *dispersion) index() float64 {
	return min(max((d.variance+ones)/(d.mean+ones), 1), largest)
}

// size returns the tokens of a typical batch, in Units: from one token to largest.
func (d *dispersion) size() float64 {
	if d.typical == 0 {
		size := d.index()
		if size < fewest {
			size = 1
		}
		d.typical = size * float64(quota.Token)
	}
	return d.typical
}

// batchSize is what is taken for one event of the key, in Units. What comes at once and
// is a large part of the burst is a surge, however often it comes: the others have
// to hear of it at once.
func (b *bucket) batchSize() float64 {
	const part = 8
	return max(min(b.batchSizes.size(), float64(b.limit.BurstUnits())/part), float64(quota.Token))
}

// series cuts the counts of a member into intervals of about the same length.
// Reports come early when something happens, so their own intervals would say
// that something always happens in the shortest of times.
type series struct {
	from quota.Time
	n    float64 // tokens since
	a    float64 // per second, of the last interval but one
	b    float64 // tokens of the last
	took float64 // its length in seconds
}

// add takes the tokens counted since the last report, and adds what is complete
// to d. A member that has nothing to tell is silent: of a long gap all but the
// last interval was empty.
func (s *series) add(now quota.Time, tokens float64, every time.Duration, d *dispersion) {
	if s.from == 0 {
		s.from = now.Add(-every)
	}
	gap := now.Sub(s.from)
	if gap >= 3*every { // less may just be late
		for range 3 { // neighbours of neighbours do not matter
			s.next(s.n, every, d)
			s.n = 0
		}
		gap = every
	}
	s.n += tokens
	if gap >= every*3/4 {
		s.next(s.n, gap, d)
		s.from, s.n = now, 0
	}
}

// next ends an interval: now both neighbours of the last one are known.
func (s *series) next(n float64, took time.Duration, d *dispersion) {
	c := n / took.Seconds()
	d.add(s.a*s.took, s.b, c*s.took)
	if s.a = 0; s.took > 0 {
		s.a = s.b / s.took
	}
	s.b, s.took = n, took.Seconds()
}

// observe updates the averages of demand and admission. Demand follows a
// surge up, as far as so few requests prove it, and a lull down, at once: when the
// count differs from the expected one by more than three standard deviations of a
// Poisson process of batches (follow).
func (al *allocation) observe(now quota.Time, d delta, sync time.Duration, b *bucket, f *fades) {
	dt := 10 * sync
	if al.reported > 0 {
		dt = min(max(now.Sub(al.reported), time.Millisecond), 10*sync)
	}
	al.reported, al.took, al.gave = now, d.used+d.over, max(0, d.back)
	seconds, attempted := dt.Seconds(), float64(d.attempted().Plus(quota.FromTokens(int64(al.asked))))
	al.asked = 0
	al.counts.add(now, attempted/float64(quota.Token), max(sync, al.again), &b.batchSizes)
	size := b.batchSize()
	every := f.count.fade(seconds, 3*sync.Seconds())
	al.demand = follow(al.demand, attempted, size, seconds, every)
	al.using = follow(al.using, max(0, float64(d.used+d.over-d.refunded)), size, seconds, every)
	alpha := 1 - f.shown.fade(seconds, shown.Seconds())
	al.tried += float32(alpha * (float64(d.attempted())/seconds - float64(al.tried)))
	al.admit += float32(alpha * (float64(d.used+d.over)/seconds - float64(al.admit)))
}

// shown is how long the rates are averaged that people read: long enough to be
// steady, where the division has to follow every surge.
const shown = 2 * time.Second

// showing returns the averages for people; they fade while the member is
// silent.
func (al *allocation) showing(now quota.Time) (tried, admit float64) {
	silent := max(0, now.Sub(al.reported)-al.again)
	fade := math.Exp(-silent.Seconds() / shown.Seconds())
	return float64(al.tried) * fade, float64(al.admit) * fade
}

// fade updates live: a member that had something to count would have reported.
func (al *allocation) fade(now quota.Time, sync time.Duration) {
	al.live = al.demand
	if silent := now.Sub(al.reported) - al.again - sync/2; silent > 0 {
		al.live *= math.Exp(-silent.Seconds() / (3 * sync.Seconds()))
	}
}

// follow moves an average towards a count of events of a size.
func follow(avg, count, size, seconds, fade float64) float64 {
	return fairshare.Follow(avg, count, size, seconds, fade)
}

// fades are those of one report: its entries are about times of the same length.
type fades struct{ count, shown, deficit fading }

// fading remembers an exponential.
type fading struct{ seconds, over, left float64 }

// fade returns what is left after so many seconds of what fades to 1/e over some.
func (f *fading) fade(seconds, over float64) float64 {
	if f.seconds != seconds || f.over != over {
		*f = fading{seconds, over, math.Exp(-seconds / over)}
	}
	return f.left
}
