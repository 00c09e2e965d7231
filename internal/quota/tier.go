package quota

import (
	"fmt"
	"time"
)

// Kind is how a tier counts.
type Kind uint8

const (
	// TokenBucket holds up to Burst tokens and is refilled at Rate. The default.
	TokenBucket Kind = iota
	// FixedWindow counts up to Burst per Rate.Per, in windows aligned to the
	// Unix epoch (the Salesforce text). Twice the limit can pass around a
	// window's end.
	FixedWindow
	// SlidingWindow counts with two counters: the window before counts in
	// proportion to what of it is less than a period ago. Around a window's end no
	// more than Burst can pass at once; over a whole period, in the worst case, as
	// much as of a bucket of that size and rate.
	SlidingWindow
	// CalendarWindow counts up to Burst per calendar unit in a time zone.
	CalendarWindow
	// PeriodicRefill is a bucket that is full again every Rate.Per, counted from
	// the key's first use; nothing is carried over.
	PeriodicRefill
	// Concurrency counts what is in flight: up to Burst at a time, each acquired
	// and released.
	Concurrency
)

var kindWords = [...]string{"bucket", "fixed", "sliding", "calendar", "periodic", "concurrency"}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{TokenBucket, FixedWindow, SlidingWindow, CalendarWindow, PeriodicRefill, Concurrency}
}

// String returns the word used in limit files.
func (k Kind) String() string { return word(kindWords[:], uint8(k)) }

// Windowed reports whether the kind counts by windows: it is full at once when
// one ends, or (sliding) what it refills changes then.
func (k Kind) Windowed() bool { return k >= FixedWindow && k <= PeriodicRefill }

func word(words []string, i uint8) string {
	if int(i) >= len(words) {
		return "unknown"
	}
	return words[i]
}

// CalendarUnit is the length of a calendar window.
type CalendarUnit uint8

// The units, shortest first. Weeks begin on Monday (ISO 8601).
const (
	NoUnit CalendarUnit = iota
	Minute
	Hour
	Day
	Week
	Month
	Year
)

var unitWords = [...]string{"none", "minute", "hour", "day", "week", "month", "year"}

// CalendarUnits returns all units.
func CalendarUnits() []CalendarUnit { return []CalendarUnit{Minute, Hour, Day, Week, Month, Year} }

// String returns the word used in limit files.
func (u CalendarUnit) String() string { return word(unitWords[:], uint8(u)) }

// nominal is the usual length of the unit.
var nominal = [...]time.Duration{
	0, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// Nominal returns the usual length of the unit: 24h for a day, 30 days for a
// month, 365 for a year.
func (u CalendarUnit) Nominal() time.Duration {
	if int(u) >= len(nominal) {
		return 0
	}
	return nominal[u]
}

// Calendar says which windows a CalendarWindow has.
type Calendar struct {
	Unit CalendarUnit
	// Zone is the time zone that days begin in; nil is UTC. Zones of the same
	// name must be the same pointer (see internal/zone), so that limits compare.
	Zone *time.Location
}

// Location returns the zone, UTC if none is set.
func (c Calendar) Location() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

// Tier is one counted part of a limit.
type Tier struct {
	Kind Kind
	// Rate is the refill of a TokenBucket. For windows Rate.Tokens is Burst and
	// Rate.Per the period (of a calendar unit, its nominal length). Unused by
	// Concurrency.
	Rate Rate
	// Burst is the most that can go at once: a bucket's size, a window's count,
	// what may be in flight. 0 refuses everything.
	Burst    int64
	Calendar Calendar
}

// BurstUnits returns the burst in Units.
func (t *Tier) BurstUnits() Units { return FromTokens(t.Burst) }

// Window returns a tier that counts n per period.
func Window(k Kind, n int64, per time.Duration) Tier {
	return Tier{Kind: k, Burst: n, Rate: Rate{Tokens: n, Per: per}}
}

// Per returns a tier that counts n per calendar unit.
func Per(n int64, c Calendar) Tier {
	return Tier{Kind: CalendarWindow, Burst: n, Rate: Rate{Tokens: n, Per: c.Unit.Nominal()}, Calendar: c}
}

func (t *Tier) validate(add func(error)) {
	if int(t.Kind) >= len(kindWords) {
		add(fmt.Errorf("kind: %d; must be one of %v", t.Kind, Kinds()))
		return
	}
	if t.Burst < 0 || t.Burst > MaxTokens {
		add(fmt.Errorf("burst: %d; must be 0 to %d", t.Burst, MaxTokens))
	}
	if t.Kind == Concurrency {
		return
	}
	if t.Rate.Tokens < 0 || t.Rate.Tokens > MaxTokens || t.Rate.Per <= 0 {
		add(fmt.Errorf("rate: %d per %v; must be 0 to %d tokens per positive period", t.Rate.Tokens, t.Rate.Per, MaxTokens))
	}
	if t.Kind == CalendarWindow && (t.Calendar.Unit == NoUnit || t.Calendar.Unit > Year) {
		add(fmt.Errorf("calendar: no unit; must be one of %v", CalendarUnits()))
	}
	if t.Kind.Windowed() && t.Rate.Tokens != t.Burst {
		add(fmt.Errorf("rate: %d per window, but the burst is %d; must be the same", t.Rate.Tokens, t.Burst))
	}
	if t.Rate.Tokens > 0 && t.Rate.PerSecond() > FromTokens(MaxTokens) {
		add(fmt.Errorf("rate: %v; at most %d/s", t.Rate, MaxTokens))
	}
}
