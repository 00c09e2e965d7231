package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit is one rule. Every key is counted separately. The fields Kind to Calendar are the first
// tier; More holds the others.
type Limit struct {
	LimitName
	Kind     Kind
	Rate     Rate
	Burst    int64 // see Tier.Burst
	Calendar Calendar
	// More are the further tiers. A request must pass all tiers; a refusal charges none.
	More []Tier

	Class   Class
	Ceiling Ceiling
	Decide  Decide
	// Durable makes counts survive changes of leader and restarts where the kind and the ceiling
	// alone do not: see Endures.
	Durable bool
	// MaxCost is the most tokens that one request may take; 0 means as many as can ever fit.
	MaxCost int64
	// MaxWait is the longest wait for reserved future tokens; 0 means never wait. Only for a
	// TokenBucket with one tier.
	MaxWait time.Duration
	// MaxDebt bounds reservations of future tokens, as the time that the rate takes to refill them.
	MaxDebt time.Duration
	// Lease is how long an acquisition or a reservation lasts unless renewed; 0 means DefaultLease.
	Lease time.Duration

	// Parent names a limit of the same namespace that is charged as well. Its key is this limit's
	// without the last "/" segment, or "*" if there is only one.
	Parent string
	// Floor and FloorBurst bound the spending of a key while Parent is used up; zero means nothing.
	Floor      Rate
	FloorBurst int64

	Enforcement Enforcement
	// Fraction is the part of the keys that Enforcement applies to, in parts per million; the
	// others are in Shadow. 0 means all.
	Fraction int64
	// Near is the percentage of use from which decisions are marked as near the limit; 0 means
	// DefaultNear.
	Near   int64
	CutOff CutOff

	// MaxKeys and Idle bound the buckets of a template on each node: their number, and how long an
	// unused one is kept. 0 means the node's setting.
	MaxKeys int64
	Idle    time.Duration

	Match *Match // HTTP requests that the limit applies to; nil for none
}

// Defaults and bounds of limits.
const (
	DefaultLease = time.Minute
	DefaultNear  = 80      // percent
	Million      = 1000000 // parts
	MaxTiers     = 16
	MaxParents   = 8 // limits above a limit
	MaxPause     = 366 * 24 * time.Hour
)

// BurstUnits returns the burst in Units.
func (l *Limit) BurstUnits() Units { return FromTokens(l.Burst) }

// First returns the first tier.
func (l *Limit) First() Tier {
	return Tier{Kind: l.Kind, Rate: l.Rate, Burst: l.Burst, Calendar: l.Calendar}
}

// SetFirst replaces the first tier.
func (l *Limit) SetFirst(t Tier) {
	l.Kind, l.Rate, l.Burst, l.Calendar = t.Kind, t.Rate, t.Burst, t.Calendar
}

// Tiers returns all tiers in order.
func (l *Limit) Tiers() []Tier { return append([]Tier{l.First()}, l.More...) }

// DurableFrom is the shortest period whose windows are durable without Durable.
const DurableFrom = 10 * time.Second

// Endures reports whether counts survive changes of leader and restarts of nodes. Those of hard
// limits, of windows of at least DurableFrom and of limits with Durable do. Concurrency never does:
// its acquisitions end with the process that made them.
func (l *Limit) Endures() bool {
	return l.Kind != Concurrency && (l.Ceiling == Hard || l.CountsLong())
}

// CountsLong reports whether counts matter for long, so that a change of leader must not count a cost that was never
// admitted: with Durable, and in windows of at least DurableFrom.
func (l *Limit) CountsLong() bool {
	return l.Durable || l.Kind == CalendarWindow || l.Kind.Windowed() && l.Rate.Per >= DurableFrom
}

// AsksLeader reports whether the leader decides every request: because the limit requires it, or
// because callers queue for future tokens in order of arrival.
func (l *Limit) AsksLeader() bool { return l.Decide == AtLeader || l.MaxDebt > 0 }

// ReportsAnswers reports whether the leader decides every request and members report what it has admitted for them as
// their own use, so that a new leader books it as it books local decisions. Under hard they do not: there the log bounds
// what the leader admits.
func (l *Limit) ReportsAnswers() bool { return l.AsksLeader() && l.Ceiling == Soft && l.Endures() }

// MayAsk reports whether the leader decides requests that memory does not settle, or all. In Auto it
// does under hard, and of a soft token bucket with few tokens; except where CountsLong: an answer that
// is lost with the leader would be counted.
func (l *Limit) MayAsk() bool {
	return l.AsksLeader() || l.Mode() == Auto && l.Kind != Concurrency && !l.CountsLong() && (l.Ceiling == Hard || l.Kind == TokenBucket)
}

// MayWait reports whether a check that memory does not settle waits for the leader's next grant, and is
// decided in memory then.
func (l *Limit) MayWait() bool {
	return l.Decide != Locally && (!l.MayAsk() || l.Ceiling == Soft && !l.AsksLeader())
}

// Mode returns l.Decide, or the mode that its default stands for.
func (l *Limit) Mode() Decide {
	switch {
	case l.Decide != DecideDefault:
		return l.Decide
	case l.Kind == Concurrency:
		return Locally
	}
	return Auto
}

// DebtUnits returns how far reservations of future tokens may take the level below zero.
func (l *Limit) DebtUnits() Units {
	if l.MaxDebt <= 0 || l.Rate.Per <= 0 {
		return 0
	}
	u := MulDiv(int64(FromTokens(l.Rate.Tokens)), int64(l.MaxDebt), int64(l.Rate.Per))
	return min(Units(u), FromTokens(MaxTokens))
}

// OwedUnits returns how far charges after the fact may take the level below zero: by a burst, or by
// DebtUnits if that is more.
func (l *Limit) OwedUnits() Units { return max(l.BurstUnits(), l.DebtUnits()) }

// MostCost returns the largest cost that can ever pass, in tokens.
func (l *Limit) MostCost() int64 {
	most := min(l.Burst+l.DebtUnits().Tokens(), MaxTokens)
	for i := range l.More {
		most = min(most, l.More[i].Burst)
	}
	if l.MaxCost > 0 {
		most = min(most, l.MaxCost)
	}
	return most
}

// LeaseOrDefault returns Lease, or DefaultLease.
func (l *Limit) LeaseOrDefault() time.Duration {
	if l.Lease > 0 {
		return l.Lease
	}
	return DefaultLease
}

// NearUnits returns the level at or below which decisions are marked as near the limit.
func (l *Limit) NearUnits() Units {
	near := l.Near
	if near == 0 {
		near = DefaultNear
	}
	burst := int64(l.BurstUnits())
	return Units(burst/100*(100-near) + burst%100*(100-near)/100)
}

// Equal reports whether two limits are equal in every field. A test checks that none is left out.
func (l *Limit) Equal(o *Limit) bool {
	return l.LimitName == o.LimitName && l.First() == o.First() && slices.Equal(l.More, o.More) &&
		l.Class == o.Class && l.Ceiling == o.Ceiling && l.Decide == o.Decide && l.Durable == o.Durable &&
		l.MaxCost == o.MaxCost && l.MaxWait == o.MaxWait && l.MaxDebt == o.MaxDebt && l.Lease == o.Lease &&
		l.Parent == o.Parent && l.Floor == o.Floor && l.FloorBurst == o.FloorBurst &&
		l.Enforcement == o.Enforcement && l.Fraction == o.Fraction && l.Near == o.Near && l.CutOff == o.CutOff &&
		l.MaxKeys == o.MaxKeys && l.Idle == o.Idle && l.Match.equal(o.Match)
}

// Validate returns all errors of the limit on its own, joined. NewLimits checks references to other
// limits.
func (l *Limit) Validate() error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	add(checkNames(l.LimitName))
	for i, t := range l.Tiers() {
		t.validate(func(err error) {
			if i > 0 {
				err = fmt.Errorf("tiers[%d].%w", i, err)
			}
			add(err)
		})
	}
	if n := len(l.More) + 1; n > MaxTiers {
		add(fmt.Errorf("tiers: %d; at most %d", n, MaxTiers))
	}
	l.CutOff.validate(l.Ceiling, add)
	l.validateBounds(add)
	l.validateTogether(add)
	return errors.Join(errs...)
}

func checkNames(n LimitName) error {
	if n.special() {
		return nil
	}
	return errors.Join(CheckName("namespace", n.Namespace), CheckName("limit", n.Limit))
}

func (l *Limit) validateBounds(add func(error)) {
	bound := func(field string, v, low, high int64, unit string) {
		if v < low || v > high {
			add(fmt.Errorf("%s: %d%s; must be %d to %d%s", field, v, unit, low, high, unit))
		}
	}
	pause := func(field string, d time.Duration) {
		if d < 0 || d > MaxPause {
			add(fmt.Errorf("%s: %v; must be 0 to %v", field, d, MaxPause))
		}
	}
	bound("max_cost", l.MaxCost, 0, MaxTokens, "")
	bound("fraction", l.Fraction, 0, Million, " parts per million")
	bound("near", l.Near, 0, 100, "%")
	bound("max_keys", l.MaxKeys, 0, 1<<40, "")
	bound("floor.burst", l.FloorBurst, 0, MaxTokens, "")
	pause("max_wait", l.MaxWait)
	pause("max_debt", l.MaxDebt)
	pause("lease", l.Lease)
	pause("idle", l.Idle)
}

// validateTogether checks combinations of fields.
func (l *Limit) validateTogether(add func(error)) {
	waits := l.MaxWait > 0 || l.MaxDebt > 0
	switch {
	case waits && (l.Kind != TokenBucket || len(l.More) > 0):
		add(errors.New("max_wait: only a token bucket with one tier has tokens to come; leave it out"))
	case l.MaxWait > 0 && l.MaxDebt < l.MaxWait:
		add(fmt.Errorf("max_debt: %v is less than max_wait %v; waiting callers reserve tokens, so it must be at least max_wait", l.MaxDebt, l.MaxWait))
	case waits && l.Ceiling == Hard:
		add(errors.New("max_debt: a hard limit reserves no future tokens; use ceiling: soft"))
	case waits && l.Decide == Locally:
		add(errors.New("decide: local asks no leader, and max_wait and max_debt reserve tokens at the leader; leave decide out, or both of them"))
	}
	hasFloor := l.Floor.Tokens > 0 || l.FloorBurst > 0
	if hasFloor && l.Parent == "" {
		add(errors.New("floor: requires a parent; name one, or leave the floor out"))
	}
	if hasFloor && l.Floor.Per <= 0 {
		add(errors.New("floor.rate: is missing; write it as tokens/period"))
	}
	if l.Kind == Concurrency && (len(l.More) > 0 || l.Parent != "") {
		add(errors.New("concurrency: counts requests in flight; give rates and parents a limit of their own, and name both in one call"))
	}
	if l.Kind == Concurrency && (l.Decide == AtLeader || l.Decide == Auto) {
		add(errors.New("decide: not for concurrency limits, which are counted where they are acquired; omit it, and use ceiling: hard to be exact"))
	}
	for _, t := range l.More {
		if t.Kind == Concurrency {
			add(errors.New("concurrency: cannot be one of several tiers; make it a separate limit"))
		}
	}
	if int(l.Class) >= len(classWords) || int(l.Enforcement) >= len(enforcementWords) || int(l.Decide) >= len(decideWords) || l.Ceiling > Hard {
		add(fmt.Errorf("class %d, enforcement %d, decide %d, ceiling %d: one is unknown", l.Class, l.Enforcement, l.Decide, l.Ceiling))
	}
	if l.Match != nil {
		add(l.Match.validate())
	}
}

// meterName returns the name of an additional counter of a limit: "limit#2" for tier 2,
// "limit#floor" for the floor.
func meterName(n LimitName, suffix string) LimitName {
	return LimitName{n.Namespace, n.Limit + "#" + suffix}
}

// Base returns the limit that a counter belongs to and the number of its tier: 1 for the first, 0
// for the floor.
func (n LimitName) Base() (LimitName, int) {
	base, suffix, ok := strings.Cut(n.Limit, "#")
	if !ok {
		return n, 1
	}
	tier, _ := strconv.Atoi(suffix) // "floor" is 0
	return LimitName{n.Namespace, base}, tier
}
