package quota

import (
	"fmt"
	"time"
)

// Kind is the way in which a tier counts.
type Kind uint8

const (
	// TokenBucket holds up to Burst tokens and is refilled at Rate. The default.
	TokenBucket Kind = iota
	// FixedWindow counts up to Burst per Rate.Per, in windows aligned to the Unix epoch. Up to
	// twice the limit can pass around the end of a window.
	FixedWindow
	// SlidingWindow uses two counters: the previous window counts in proportion to how much of it
	// is less than a period ago. No more than Burst passes at once around the end of a window; over
	// a whole period, in the worst case, as much as with a bucket of that size and rate.
	SlidingWindow
	// CalendarWindow counts up to Burst per calendar unit in a time zone.
	CalendarWindow
	// PeriodicRefill is a bucket that is full again every Rate.Per, counted from the key's first
	// use. Nothing is carried over.
	PeriodicRefill
	// Concurrency counts requests in flight: up to Burst at a time, each acquired and released.
	Concurrency
)

// kinds describes each kind to code that does not compute with it. The arithmetic is in
// internal/limiter.
var kinds = [...]struct {
	word     string // in limit files, in JSON
	windowed bool   // see Kind.Windowed
	refills  bool   // see Kind.Refills
	period   bool   // see Kind.Periods
}{
	TokenBucket:    {word: "bucket", refills: true, period: true},
	FixedWindow:    {word: "fixed", windowed: true, period: true},
	SlidingWindow:  {word: "sliding", windowed: true, refills: true, period: true},
	CalendarWindow: {word: "calendar", windowed: true},
	PeriodicRefill: {word: "periodic", windowed: true, period: true},
	Concurrency:    {word: "concurrency"},
}

// Kinds returns all kinds, in the order of their numbers.
func Kinds() []Kind { return kindsThat(func(Kind) bool { return true }) }

// WindowKinds returns the kinds that count by windows, the default first.
func WindowKinds() []Kind { return kindsThat(Kind.Windowed) }

func kindsThat(is func(Kind) bool) (out []Kind) {
	for k := range kinds {
		if is(Kind(k)) {
			out = append(out, Kind(k))
		}
	}
	return out
}

func (k Kind) known() bool { return int(k) < len(kinds) }

// String returns the word used in limit files.
func (k Kind) String() string {
	if !k.known() {
		return "unknown"
	}
	return kinds[k].word
}

// Windowed reports whether the kind counts by windows. At the end of a window its level becomes
// full or, for SlidingWindow, its refill changes.
func (k Kind) Windowed() bool { return k.known() && kinds[k].windowed }

// Refills reports whether the level rises continuously, at about Rate.
func (k Kind) Refills() bool { return k.known() && kinds[k].refills }

// Periods reports whether tiers of the kind have a period, Rate.Per, of arbitrary length.
func (k Kind) Periods() bool { return k.known() && kinds[k].period }

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

// Calendar defines the windows of a CalendarWindow.
type Calendar struct {
	Unit CalendarUnit
	// Zone is the time zone in which days begin; nil means UTC. Zones with the same name must be
	// the same pointer (see internal/zone), so that limits can be compared.
	Zone *time.Location
}

// Location returns the zone, UTC if none is set.
func (c Calendar) Location() *time.Location {
	if c.Zone == nil {
		return time.UTC
	}
	return c.Zone
}

// Tier is one counter of a limit.
type Tier struct {
	Kind Kind
	// Rate is the refill rate of a TokenBucket. For windows, Rate.Tokens equals Burst and Rate.Per
	// is the period (for a calendar unit, its nominal length). Concurrency does not use it.
	Rate Rate
	// Burst is the most that passes at once: the size of a bucket, the count of a window, or the most in flight. 0
	// refuses everything.
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
	if !t.Kind.known() {
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
