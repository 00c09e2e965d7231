package share

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// unassigned is the rate of a member that has no assignment yet and so admits every
// request.
const unassigned = -1

// member is the state of one key of one stream. Amounts are in tokens and rates in tokens
// per second. All of them are estimates, and none is replicated.
type member struct {
	id     MemberID
	origin Origin
	gone   bool
	back   bool // the stream uses the key after an Abandon

	demand     float64 // requests per second, admitted or not
	known      bool    // demand is measured, not guessed
	reportedAt quota.Time
	idle       quota.Time // time of the first report without a request; 0 if the last report had one

	assigned       Assignment
	rate           float64    // of the assignment
	settlingRate   float64    // rate that the stream may still use until the assignment settles
	sentAt         quota.Time // when assigned was last sent
	level          float64    // estimated content of the bucket, under soft
	booked         float64    // taken out of the reserve for the member and not reported yet
	replacedAt     quota.Time // when the current bucket was assigned
	settlingTokens float64    // initial tokens of buckets that Envoy may not have replaced yet

	want float64 // the rate that the last division set
}

// guessDemand sets the demand of a new member to an eighth of the limit. The first report that
// covers a measurable time corrects the guess. Without it, TestLoads/many fails.
func (h *member) guessDemand(limit float64) {
	if !h.known {
		h.demand = limit / 8
	}
}

// measure updates the demand from a report. It measures the time between reports itself,
// because clients report the elapsed time in whole seconds.
func (h *member) measure(now quota.Time, u Usage) {
	gap := now.Sub(h.reportedAt)
	h.reportedAt = now
	if gap < minGap {
		gap = u.Elapsed
	}
	n := float64(u.Allowed + u.Denied)
	switch {
	case n > 0:
		h.idle = 0
	case h.idle == 0:
		h.idle = now
	}
	if gap < minGap { // the first report, or two reports at once
		return
	}
	rate := n / gap.Seconds()
	if h.known {
		rate = fairshare.Follow(h.demand, n, 1, gap.Seconds(), keptDemand)
	}
	h.demand, h.known = h.demandAtEnd(rate, n, float64(u.Denied), gap.Seconds()), true
}

// demandAtEnd returns the demand at the end of a report whose mean demand is lower than
// before. A member that was short was refused requests only until its demand fell: until then
// it asked as before, and the rest of the report's requests belong to the time since
// (TestMovingSpot/hard 2s).
func (h *member) demandAtEnd(rate, n, denied, gap float64) float64 {
	over := h.demand - h.rate
	if !h.known || h.rate <= 0 || over <= 0 || (h.demand-rate)*gap < 2*fairshare.Deviations*math.Sqrt(n) {
		return rate
	}
	then := denied / over
	if then >= gap {
		return rate
	}
	return max(min((n-h.demand*then)/(gap-then), rate), 0)
}

const (
	// minGap is the time below which a report is too brief to measure a rate.
	minGap = 50 * time.Millisecond
	// keptDemand is the fraction of the previous demand that measure keeps while the count of a
	// report differs from it by no more than chance (TestLoads/quiet, hard).
	keptDemand = 0.5
)

// asks returns the rate that serves the demand and its random variation: a bucket that fills
// no faster than it drains refuses many requests (TestLoads/quiet, hard).
func (h *member) asks() float64 { return h.demand + math.Sqrt(h.demand) }

// uses returns the tokens that the member is assumed to spend in dt seconds: all that its
// rates yield under a hard limit, otherwise the likely amount. It updates h.level under soft.
func (h *member) uses(hard bool, dt float64) float64 {
	switch {
	case h.rate == unassigned:
		return h.demand * dt
	case hard:
		return max(h.rate, h.settlingRate) * dt
	}
	has := h.level + h.rate*dt
	use := has // a member of unknown demand may spend all of it (TestLoads/start)
	if h.known {
		use = min(h.demand*dt, has)
	}
	h.level = min(has-use, float64(h.assigned.Max))
	return use
}

// short reports whether the member could use more than its rate.
func (h *member) short() bool { return !h.gone && h.demand > h.rate }

// charged returns the highest rate that the member may use now. It clears settlingRate once
// the assignment has settled.
func (h *member) charged(now quota.Time, settle time.Duration) float64 {
	if now.Sub(h.sentAt) >= settle {
		h.settlingRate = 0
	}
	return max(h.rate, h.settlingRate, 0)
}

// expired reports whether the member's assignment has certainly ended.
func (h *member) expired(now quota.Time, cfg Config) bool {
	return h.sentAt == 0 || now.Sub(h.sentAt) >= cfg.TTL+cfg.Settle
}

// silent reports whether the member has stopped reporting.
func (h *member) silent(now quota.Time, cfg Config) bool {
	return now.Sub(h.reportedAt) > cfg.Idle
}

// unspent returns the most that the member may still spend of the booked tokens under hard:
// the capacity of its bucket plus what the rate yields within settle and, until the bucket
// is certainly active, the content of the buckets before it.
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
