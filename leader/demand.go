package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// dispersion estimates the batch size of a key's requests: the index of dispersion of the counts
// (variance to mean, in tokens), over all members. The index is 1 for requests of one token that
// arrive as a Poisson process, and n for requests of n tokens, or n requests that arrive together.
//
// The variance is the negative autocovariance of successive differences (Roll, 1984): for three
// neighbouring counts a, b, c with the same mean, (b-a)(b-c) is on average the variance of b.
// Unlike the variance about the mean, it is not increased by a step from one level of demand to
// another, so loads that start, stop or move are not taken for batches.
//
// Both sums decay by samples, not by time, so that rare requests are remembered.
type dispersion struct {
	variance, mean float32
	typical        float32 // cached size; 0 after a sample
}

const (
	// sampleDecay is the part of the sums that a sample displaces.
	sampleDecay = 1.0 / 128
	// priorRequests is the prior: the number of requests of one token that the sums start with.
	priorRequests = 8
	// poissonIndex is the index below which counts pass as Poisson: the estimate for a real Poisson
	// process deviates that far.
	poissonIndex = 2
	// maxSampleFactor bounds a sample, as a multiple of its expectation. A valid sample of rare batches is
	// three times the expectation; a much larger one is demand that moved.
	maxSampleFactor = 12
	// maxBatchTokens bounds the estimate, so that one outlier cannot hide all surges.
	maxBatchTokens = 1 << 10
)

// add adds a sample: three neighbouring counts of a member, in tokens.
func (d *dispersion) add(a, b, c float64) {
	if a+b+c == 0 {
		return
	}
	strange := maxSampleFactor * d.index() * (a + b + c) / 3
	d.typical = 0
	d.variance += float32(min(max((b-a)*(b-c), -strange), strange) - sampleDecay*float64(d.variance))
	d.mean += float32(b - sampleDecay*float64(d.mean))
}

func (d *dispersion) index() float64 {
	return min(max((float64(d.variance)+priorRequests)/(float64(d.mean)+priorRequests), 1), maxBatchTokens)
}

// size returns the size of a typical batch in Units, from one token to maxBatchTokens.
func (d *dispersion) size() float64 {
	if d.typical == 0 {
		size := d.index()
		if size < poissonIndex {
			size = 1
		}
		d.typical = float32(size * float64(quota.Token))
	}
	return float64(d.typical)
}

// batchSize is the size of one event of the key, in Units, at most an eighth of the burst. A larger
// event is a surge, however often it happens: the other members have to hear of it at once.
func (b *bucket) batchSize() float64 {
	const part = 8
	return max(min(b.batchSizes.size(), float64(b.limit.BurstUnits())/part), float64(quota.Token))
}

// series divides the counts of a member into intervals of about the same length. Reports come early
// when something happens, so the intervals between reports would always look busy.
type series struct {
	from quota.Time
	n    float32 // tokens since from
	a    float32 // tokens per second, of the last interval but one
	b    float32 // tokens of the last interval
	took float32 // its length in seconds
}

// add adds the tokens counted since the last report, and passes complete intervals to d. A member
// without counts sends no reports, so all but the last interval of a long gap are empty.
func (s *series) add(now quota.Time, tokens float64, every time.Duration, d *dispersion) {
	if s.from == 0 {
		s.from = now.Add(-every)
	}
	gap := now.Sub(s.from)
	if gap >= 3*every { // a shorter gap may be a late report
		for range 3 { // only direct neighbours enter a sample
			s.next(float64(s.n), every, d)
			s.n = 0
		}
		gap = every
	}
	s.n += float32(tokens)
	if gap >= every*3/4 {
		s.next(float64(s.n), gap, d)
		s.from, s.n = now, 0
	}
}

// next ends an interval. Both neighbours of the previous one are known then.
func (s *series) next(n float64, took time.Duration, d *dispersion) {
	c := n / took.Seconds()
	d.add(float64(s.a*s.took), float64(s.b), c*float64(s.took))
	if s.a = 0; s.took > 0 {
		s.a = s.b / s.took
	}
	s.b, s.took = float32(n), float32(took.Seconds())
}

// observe updates the averages of demand and admission. Demand follows a change at once if the
// count differs from the expectation by more than three standard deviations of a Poisson process of
// batches (follow): a surge as far as the number of requests proves it, a lull entirely.
func (al *allocation) observe(now quota.Time, d delta, sync time.Duration, b *bucket, f *fades) {
	dt := 10 * sync
	if al.reported > 0 {
		dt = min(max(now.Sub(al.reported), time.Millisecond), 10*sync)
	}
	al.reported = now
	seconds, attempted := dt.Seconds(), float64(d.attempted().Plus(al.rarely().asked))
	al.setAsked(0)
	al.counts.add(now, attempted/float64(quota.Token), max(sync, al.reportWithin(sync)), &b.batchSizes)
	size := b.batchSize()
	every := f.count.fade(seconds, 3*sync.Seconds())
	al.demand = follow(al.demand, attempted, size, seconds, every)
	al.using = follow(al.using, max(0, float64(d.used+d.over-d.refunded)), size, seconds, every)
}

// updateDisplay updates the averages for display, before observe. A report of an open key replaces what was shown since
// the last report. Counts of an epoch that begins (opened) were not shown at all: they are added, and fade from now on.
func (al *allocation) updateDisplay(now quota.Time, d delta, opened bool, f *fades) {
	gap := displayTime
	if al.reported > 0 {
		gap = max(now.Sub(al.reported), time.Millisecond)
	}
	left := f.shown.fade(gap.Seconds(), displayTime.Seconds())
	part := (1 - left) / gap.Seconds()
	if opened {
		part = 1 / displayTime.Seconds()
	}
	al.tried = float32(left*float64(al.tried) + part*float64(d.attempted()))
	al.admit = float32(left*float64(al.admit) + part*float64(d.used+d.over))
}

// displayTime is the averaging time of displayed rates: long enough to be steady, while the division
// follows every surge.
const displayTime = 2 * time.Second

// displayRates returns the averages for display. They decay while the member is silent: from its final report on, or
// from when the next one is due.
func (al *allocation) displayRates(now quota.Time, sync time.Duration) (tried, admit float64) {
	silent := now.Sub(al.reported)
	if !al.closed {
		silent -= al.reportWithin(sync)
	}
	silent = max(0, silent)
	fade := math.Exp(-silent.Seconds() / displayTime.Seconds())
	return float64(al.tried) * fade, float64(al.admit) * fade
}

// updateLive updates live. A silent member has nothing to count, or it would have reported.
func (al *allocation) updateLive(now quota.Time, sync time.Duration) {
	al.live = al.demand
	if silent := now.Sub(al.reported) - al.reportWithin(sync) - sync/2; silent > 0 {
		al.live *= float32(math.Exp(-silent.Seconds() / (3 * sync.Seconds())))
	}
}

// follow moves an average towards a count of events of the given size.
func follow(avg float32, count, size, seconds, fade float64) float32 {
	return float32(fairshare.Follow(float64(avg), count, size, seconds, fade))
}

// fades caches the decay factors of one report: its entries cover about the same time.
type fades struct{ count, shown, deficit fading }

// fading caches one exponential.
type fading struct{ seconds, over, left float64 }

// fade returns exp(-seconds/over).
func (f *fading) fade(seconds, over float64) float64 {
	if f.seconds != seconds || f.over != over {
		*f = fading{seconds, over, math.Exp(-seconds / over)}
	}
	return f.left
}
