package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// unassigned is the rate of a member that has no assignment yet, and so admits
// everything.
const unassigned = -1

// member is one key of one stream. Amounts are tokens, rates tokens per second:
// they are estimates, and nothing of them is replicated.
type member struct {
	id     MemberID
	origin string
	gone   bool
	back   bool // it was told to abandon the key, and uses it

	demand         float64 // requests per second, admitted or not
	known          bool    // measured, not supposed
	reportedAt     quota.Time
	reportInterval time.Duration // between its reports, averaged
	idle           quota.Time    // since when there was no request; 0: there was one

	assigned       Assignment
	rate           float64    // as assigned
	settlingRate   float64    // what it may still go by until settled
	sentAt         quota.Time // when given was last sent
	bucketTokens   float64    // what its buckets held when they were new, since its last report
	level          float64    // what its bucket probably holds, under soft
	booked         float64    // taken out of the reserve for it and not reported yet
	replacedAt     quota.Time // when its bucket was given
	settlingTokens float64    // what the buckets held that may not be replaced yet

	want float64 // its part, as of the last division
}

// guessDemand gives a newcomer the demand that is likely: that of the others here, or an
// eighth of the limit. Its first real report corrects it.
func (h *member) guessDemand(p *sharedQuota) {
	if h.known {
		return
	}
	sum, n := 0.0, 0
	for _, o := range p.members {
		if o.known && !o.gone {
			sum, n = sum+o.demand, n+1
		}
	}
	h.demand = p.limit / 8
	if n > 0 {
		h.demand = min(sum/float64(n), p.limit/2)
	}
	h.demand = max(h.demand, 1)
}

// measure takes what a report says of demand. What clients say of the time that it
// is about is in whole seconds, so their reports are timed here.
func (h *member) measure(now quota.Time, u Usage) {
	gap := now.Sub(h.reportedAt)
	h.reportedAt = now
	if gap < short {
		gap = u.Elapsed
	}
	n := float64(u.Allowed + u.Denied)
	switch {
	case n > 0:
		h.idle = 0
	case h.idle == 0:
		h.idle = now
	}
	if gap < short { // the first, or two at once
		return
	}
	rate := n / gap.Seconds()
	if h.known && rate < h.demand && (h.demand-rate)*gap.Seconds() < sure*math.Sqrt(n) {
		rate = h.demand + (rate-h.demand)*fall
	}
	h.demand, h.known = h.demandAtEnd(rate, n, float64(u.Denied), gap.Seconds()), true
	if h.reportInterval == 0 {
		h.reportInterval = gap
	}
	h.reportInterval += (gap - h.reportInterval) / 4
}

// demandAtEnd is the demand at the end of a report that says less than there was before. Who
// was short until a moment, and then was not, was refused only until then: so long it
// asked as before, and what is left of the report is of the time since.
func (h *member) demandAtEnd(rate, n, denied, gap float64) float64 {
	over := h.demand - h.rate
	if !h.known || h.rate <= 0 || over < h.demand/4 || (h.demand-rate)*gap < 2*sure*math.Sqrt(n) {
		return rate
	}
	then := (denied + h.bucketTokens) / over // it may have spent a whole bucket first
	if then > 0.9*gap {
		return rate
	}
	return max(min((n-h.demand*then)/(gap-then), rate), 0)
}

const (
	// short is less than what a rate can be read from.
	short = 50 * time.Millisecond
	// fall is how much of a fall of demand is believed at once that may be chance; of a
	// rise, or of a fall by more than so many deviations of a count, all is.
	fall, sure = 0.5, 3
)

// asks is the rate that serves the demand, with what chance needs: a bucket that is
// filled no faster than it is emptied refuses many.
func (h *member) asks() float64 { return h.demand + math.Sqrt(h.demand) }

// uses is what the member is thought to spend in a time: of a hard limit all that it
// may, else what it is likely to.
func (h *member) uses(hard bool, dt float64) float64 {
	switch {
	case h.rate == unassigned:
		return h.demand * dt
	case hard:
		return max(h.rate, h.settlingRate) * dt
	}
	has := h.level + h.rate*dt
	use := has // of which nothing is known may be spending all of it
	if h.known {
		use = min(h.demand*dt, has)
	}
	h.level = min(has-use, float64(h.assigned.Max))
	return use
}

// short reports whether the member could use more than its rate.
func (h *member) short() bool { return !h.gone && h.demand > h.rate }

// charged is the highest rate that the member may go by now.
func (h *member) charged(now quota.Time, settle time.Duration) float64 {
	if now.Sub(h.sentAt) >= settle {
		h.settlingRate = 0
	}
	return max(h.rate, h.settlingRate, 0)
}

// expired reports whether an assignment has certainly ended.
func (h *member) expired(now quota.Time, cfg Config) bool {
	return h.sentAt == 0 || now.Sub(h.sentAt) >= cfg.TTL+cfg.Settle
}

// silent reports whether the member has stopped to report although its stream is
// there.
func (h *member) silent(now quota.Time, cfg Config) bool {
	return now.Sub(h.reportedAt) > max(3*h.reportInterval, cfg.Idle)
}

// unspent is what may still be spent of what was booked, under hard: what its bucket
// holds at most, and what it has got since it was read; until the bucket is certainly
// in force, also what the ones before it held.
func (h *member) unspent(now quota.Time, settle time.Duration) float64 {
	rate := h.charged(now, settle)
	if now.Sub(h.replacedAt) >= settle {
		h.settlingTokens = 0
	}
	if rate <= 0 && h.settlingTokens == 0 {
		return 0
	}
	return float64(h.assigned.Max) + h.settlingTokens + math.Ceil(rate*settle.Seconds())
}

// renew notes a bucket that replaces the last.
func (h *member) renew(now quota.Time, a Assignment, settle time.Duration) {
	if now.Sub(h.replacedAt) >= settle {
		h.settlingTokens = 0
	}
	h.settlingTokens += float64(h.assigned.Max)
	h.replacedAt = now
	h.level, h.bucketTokens = float64(a.Max), h.bucketTokens+float64(a.Max)
}
