package quota

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Limit is one rule, kept for every key separately. Its fields from Kind to
// Calendar are its first tier; More are further ones.
type Limit struct {
	LimitName
	Kind     Kind
	Rate     Rate
	Burst    int64 // see Tier.Burst
	Calendar Calendar
	// More are further tiers: all must pass, and a refusal by one charges none.
	More []Tier

	Class   Class
	Ceiling Ceiling
	Decide  Decide
	// Durable says that counts outlive the leader, and restarts, even where the
	// kind alone does not ask for it: see Endures.
	Durable bool
	// MaxCost is the most that one request may take; 0 is what could ever fit.
	MaxCost int64
	// MaxWait is the longest time that a request may be told to wait for tokens
	// reserved for it; 0 is never. TokenBucket only, one tier.
	MaxWait time.Duration
	// MaxDebt is how far ahead tokens may be reserved, as the time that the rate
	// takes to refill them.
	MaxDebt time.Duration
	// Lease is how long what is in flight, or reserved, lasts unless renewed; 0
	// is DefaultLease.
	Lease time.Duration

	// Parent names a limit of the same namespace that is charged as well, with
	// the key cut off after its last "/" (or "*" if it has none).
	Parent string
	// Floor is what a key may spend although Parent is used up; zero is nothing.
	Floor      Rate
	FloorBurst int64

	Enforcement Enforcement
	// Fraction of the keys, in parts per million, to which Enforce applies; the
	// others are in Shadow. 0 means all.
	Fraction int64
	// Near is the percentage used from which decisions are marked; 0 is
	// DefaultNear.
	Near   int64
	CutOff CutOff

	// MaxKeys and Idle bound a template's dynamic buckets: how many, on every
	// node, and how long an unused one is remembered. 0 is the node's own.
	MaxKeys int64
	Idle    time.Duration

	Match *Match // the HTTP requests that the limit is for, if any
}

// Defaults of a limit.
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

// Tiers returns all tiers, the first first.
func (l *Limit) Tiers() []Tier { return append([]Tier{l.First()}, l.More...) }

// DurableFrom is the period from which a window's counts endure by themselves.
const DurableFrom = 10 * time.Second

// Endures reports whether what is counted outlives the leader that counted it
// and restarts of its nodes: of hard limits, of windows of DurableFrom or more,
// and of limits that say so. Never of what is in flight.
func (l *Limit) Endures() bool {
	if l.Kind == Concurrency {
		return false
	}
	return l.Durable || l.Ceiling == Hard || l.Kind == CalendarWindow || l.Kind.Windowed() && l.Rate.Per >= DurableFrom
}

// AsksLeader reports whether the leader decides every request: because the limit requires it, or
// because callers queue for future tokens in order of arrival.
func (l *Limit) AsksLeader() bool { return l.Decide == AtLeader || l.MaxDebt > 0 }

// DebtUnits is how far below zero the level may go for callers that wait.
func (l *Limit) DebtUnits() Units {
	if l.MaxDebt <= 0 || l.Rate.Per <= 0 {
		return 0
	}
	u := MulDiv(int64(FromTokens(l.Rate.Tokens)), int64(l.MaxDebt), int64(l.Rate.Per))
	return min(Units(u), FromTokens(MaxTokens))
}

// OwedUnits is how far below zero the level may go for what is reported after
// the fact: a burst, or what may be reserved if that is more.
func (l *Limit) OwedUnits() Units { return max(l.BurstUnits(), l.DebtUnits()) }

// MostCost is the largest cost that can ever pass, in tokens.
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

// NearUnits is the level at or below which a decision is marked as near the
// limit.
func (l *Limit) NearUnits() Units {
	near := l.Near
	if near == 0 {
		near = DefaultNear
	}
	burst := int64(l.BurstUnits())
	return Units(burst/100*(100-near) + burst%100*(100-near)/100)
}

// Equal reports whether the limits say the same. A test holds it to all fields.
func (l *Limit) Equal(o *Limit) bool {
	return l.LimitName == o.LimitName && l.First() == o.First() && slices.Equal(l.More, o.More) &&
		l.Class == o.Class && l.Ceiling == o.Ceiling && l.Decide == o.Decide && l.Durable == o.Durable &&
		l.MaxCost == o.MaxCost && l.MaxWait == o.MaxWait && l.MaxDebt == o.MaxDebt && l.Lease == o.Lease &&
		l.Parent == o.Parent && l.Floor == o.Floor && l.FloorBurst == o.FloorBurst &&
		l.Enforcement == o.Enforcement && l.Fraction == o.Fraction && l.Near == o.Near && l.CutOff == o.CutOff &&
		l.MaxKeys == o.MaxKeys && l.Idle == o.Idle && l.Match.equal(o.Match)
}

func (m *Match) equal(o *Match) bool {
	return m == o || m != nil && o != nil && m.Path == o.Path && slices.Equal(m.Methods, o.Methods)
}

// Validate returns every fault of the limit by itself, joined. What it says of
// other limits is checked by NewLimits.
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

// validateTogether checks fields against each other.
func (l *Limit) validateTogether(add func(error)) {
	waits := l.MaxWait > 0 || l.MaxDebt > 0
	switch {
	case waits && (l.Kind != TokenBucket || len(l.More) > 0):
		add(errors.New("max_wait: only a token bucket with one tier has tokens to come; leave it out"))
	case l.MaxWait > 0 && l.MaxDebt < l.MaxWait:
		add(fmt.Errorf("max_debt: %v is less than max_wait %v; what is waited for is reserved, so it must be at least that", l.MaxDebt, l.MaxWait))
	case waits && l.Ceiling == Hard:
		add(errors.New("max_debt: a hard limit reserves no future tokens; use ceiling: soft"))
	}
	hasFloor := l.Floor.Tokens > 0 || l.FloorBurst > 0
	if hasFloor && l.Parent == "" {
		add(errors.New("floor: there is no parent whose use it is a floor of; name one, or leave it out"))
	}
	if hasFloor && l.Floor.Per <= 0 {
		add(errors.New("floor.rate: is missing; write it as tokens/period"))
	}
	if l.Kind == Concurrency && (len(l.More) > 0 || l.Parent != "") {
		add(errors.New("concurrency: counts what is in flight; give rates and parents a limit of their own, and name both in one call"))
	}
	if l.Kind == Concurrency && l.Decide == AtLeader {
		add(errors.New("decide: what is in flight is counted where it is acquired; leave it out, and use ceiling: hard to be exact"))
	}
	for _, t := range l.More {
		if t.Kind == Concurrency {
			add(errors.New("concurrency: cannot be one of several tiers; make it a limit of its own"))
		}
	}
	if int(l.Class) >= len(classWords) || int(l.Enforcement) >= len(enforcementWords) || int(l.Decide) >= len(decideWords) || l.Ceiling > Hard {
		add(fmt.Errorf("class %d, enforcement %d, decide %d, ceiling %d: one is unknown", l.Class, l.Enforcement, l.Decide, l.Ceiling))
	}
	if l.Match != nil {
		add(l.Match.validate())
	}
}

func (m *Match) validate() error {
	var errs []error
	if !strings.HasPrefix(m.Path, "/") || len(m.Path) > MaxKeyLen {
		errs = append(errs, fmt.Errorf("match.path: %q; must begin with / and have at most %d bytes", m.Path, MaxKeyLen))
	}
	for _, method := range m.Methods {
		if method == "" || method != strings.ToUpper(method) || strings.ContainsAny(method, " \t/") {
			errs = append(errs, fmt.Errorf("match.methods: %q; must be an HTTP method in upper case", method))
		}
	}
	return errors.Join(errs...)
}

// meterName is the name of a limit's further counters: tier 2 is "limit#2".
func meterName(n LimitName, suffix string) LimitName {
	return LimitName{n.Namespace, n.Limit + "#" + suffix}
}

// Base returns the name of the limit that a counter belongs to, and which of its
// tiers it is: 1 for the first, 0 for its floor.
func (n LimitName) Base() (LimitName, int) {
	base, suffix, ok := strings.Cut(n.Limit, "#")
	if !ok {
		return n, 1
	}
	tier, _ := strconv.Atoi(suffix) // "floor" is 0
	return LimitName{n.Namespace, base}, tier
}
