package quota

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Units counts millionths of a token. Balances are Units; costs, bursts and amounts shown to users are whole tokens.
type Units int64

// Token is one token in Units.
const Token Units = 1_000_000

// MaxTokens is the largest burst, cost or number of tokens per period: about 4.4e12. The sum of two
// such balances does not overflow.
const MaxTokens = int64(1) << 42

// Tokens returns the whole tokens in u, rounded down (also below zero).
func (u Units) Tokens() int64 {
	n := int64(u / Token)
	if u%Token < 0 {
		n--
	}
	return n
}

// FromTokens converts whole tokens, saturating at MaxTokens either way.
func FromTokens(n int64) Units {
	n = min(max(n, -MaxTokens), MaxTokens)
	return Units(n) * Token
}

// Most is the largest amount that a message may carry.
const Most = Units(MaxTokens) * Token

// RoundUnits returns f rounded towards zero, saturating at the ends of the range: Go does not define the conversion
// of a larger float64. NaN gives 0.
func RoundUnits(f float64) Units {
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	case f != f:
		return 0
	}
	return Units(f)
}

// Plus returns u+v, saturating at the ends of the range.
func (u Units) Plus(v Units) Units {
	s := u + v
	switch {
	case v > 0 && s < u:
		return math.MaxInt64
	case v < 0 && s > u:
		return math.MinInt64
	}
	return s
}

// Count returns u+v, at most Most, for counters in messages. Neither may be negative.
func (u Units) Count(v Units) Units { return min(u.Plus(v), Most) }

// Time is nanoseconds since the Unix epoch on the local node's clock, which only moves forward.
// Times of different nodes are not comparable.
type Time int64

// Add returns t+d, saturating at the ends of the range.
func (t Time) Add(d time.Duration) Time {
	s := t + Time(d)
	switch {
	case d > 0 && s < t:
		return math.MaxInt64
	case d < 0 && s > t:
		return math.MinInt64
	}
	return s
}

// Sub returns t-u, or 0 if t is before u: no time passes on a clock that jumped back.
func (t Time) Sub(u Time) time.Duration {
	if t <= u {
		return 0
	}
	d := time.Duration(t - u)
	if d < 0 { // overflow
		return math.MaxInt64
	}
	return d
}

// Rate is an exact refill rate: Tokens per Per. The zero Rate refills nothing.
type Rate struct {
	Tokens int64
	Per    time.Duration
}

// PerSecond returns the rate in Units per second, rounded down and saturated.
func (r Rate) PerSecond() Units {
	if r.Per <= 0 {
		return 0
	}
	return Units(MulDiv(int64(FromTokens(r.Tokens)), int64(time.Second), int64(r.Per)))
}

// Same reports whether two rates are equal however they are written, such as 10/h and 240/d. Rates
// with Per 0 are equal only if identical.
func (r Rate) Same(o Rate) bool {
	if r.Per <= 0 || o.Per <= 0 {
		return r == o
	}
	hi, lo := bits.Mul64(uint64(max(0, r.Tokens)), uint64(o.Per))
	oHi, oLo := bits.Mul64(uint64(max(0, o.Tokens)), uint64(r.Per))
	return hi == oHi && lo == oLo
}

// TimeFor returns how long the rate takes to yield u, rounded up: 0 if u is not positive, MaxInt64
// if the rate is zero.
func (r Rate) TimeFor(u Units) time.Duration {
	if u <= 0 {
		return 0
	}
	if r.Tokens <= 0 || r.Per <= 0 {
		return math.MaxInt64
	}
	return time.Duration(MulDivCeil(int64(u), int64(r.Per), int64(FromTokens(r.Tokens))))
}

// DefaultBurst returns the burst of a limit without one: one second's worth of tokens, rounded up,
// and at least 1.
func DefaultBurst(r Rate) int64 {
	if r.Tokens <= 0 || r.Per <= 0 {
		return 1
	}
	perSecond := MulDivCeil(r.Tokens, int64(time.Second), int64(r.Per))
	return min(max(perSecond, 1), MaxTokens)
}

// rateUnits are the named periods of a rate, shortest first.
var rateUnits = []struct {
	name string
	per  time.Duration
}{
	{"s", time.Second},
	{"m", time.Minute},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
}

// ParseRate parses "10/s", "10/m", "2.5/s" or "100/10s". The period is s, m, h, d, a number of days
// (7d) or a Go duration. Fractions are kept exactly.
func ParseRate(s string) (Rate, error) {
	count, period, ok := strings.Cut(strings.TrimSpace(s), "/")
	if !ok {
		return Rate{}, fmt.Errorf("rate %q: write it as tokens/period, such as 10/s, 5/m or 100/10s", s)
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Rate{}, fmt.Errorf("rate %q: %w", s, err)
	}
	return parseCount(s, count, per)
}

func parsePeriod(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	for _, u := range rateUnits {
		if u.name == s {
			return u.per, nil
		}
	}
	if n, ok := strings.CutSuffix(s, "d"); ok {
		days, err := strconv.ParseInt(n, 10, 32)
		if err != nil || days < 1 || days > maxDays {
			return 0, fmt.Errorf("period %q: must be 1d to %dd", s, maxDays)
		}
		return time.Duration(days) * 24 * time.Hour, nil
	}
	per, err := time.ParseDuration(s)
	if err != nil || per <= 0 {
		return 0, fmt.Errorf("period %q: must be s, m, h, d or a positive duration such as 10s", s)
	}
	return per, nil
}

// parseCount parses digits[.digits] as an exact number of tokens per period. It scales the period
// up to make the number whole.
func parseCount(whole, count string, per time.Duration) (Rate, error) {
	count = strings.TrimSpace(count)
	digits, fraction, _ := strings.Cut(count, ".")
	n, err := strconv.ParseInt(digits+fraction, 10, 64)
	if err != nil || strings.HasPrefix(count, "+") || digits == "" {
		return Rate{}, fmt.Errorf("rate %q: tokens %q must be a number from 0 to %d", whole, count, MaxTokens)
	}
	if n < 0 || strings.HasPrefix(count, "-") {
		return Rate{}, fmt.Errorf("rate %q: tokens %s is negative; must be 0 or more", whole, count)
	}
	for range fraction {
		if n%10 == 0 {
			n /= 10
			continue
		}
		if per > math.MaxInt64/10 {
			return Rate{}, fmt.Errorf("rate %q: too many decimal places for its period", whole)
		}
		per *= 10
	}
	r := Rate{Tokens: n, Per: per}
	if fraction != "" {
		r = r.reduced()
	}
	if r.Tokens > MaxTokens {
		return Rate{}, fmt.Errorf("rate %q: tokens %s is too large; at most %d per period", whole, count, MaxTokens)
	}
	return r, nil
}

// reduced cancels factors of ten, so that equal rates with different decimal places compare equal
// if the period allows it.
func (r Rate) reduced() Rate {
	for r.Tokens != 0 && r.Tokens%10 == 0 && r.Per%10 == 0 && r.Per/10 >= time.Second {
		r.Tokens, r.Per = r.Tokens/10, r.Per/10
	}
	return r
}

// String formats the rate so that ParseRate returns the same rate.
func (r Rate) String() string {
	return strconv.FormatInt(r.Tokens, 10) + "/" + formatPeriod(r.Per)
}

// formatPeriod formats a period in its largest whole unit: m, 90s, 7d.
func formatPeriod(per time.Duration) string {
	for _, u := range slices.Backward(rateUnits) {
		n := per / u.per
		switch {
		case per%u.per != 0 || n == 0 || u.name == "d" && n > maxDays:
		case n == 1:
			return u.name
		default:
			return strconv.FormatInt(int64(n), 10) + u.name
		}
	}
	return per.String()
}

// maxDays bounds a period given in days.
const maxDays = 366

// MulDiv returns a*b/c, rounded toward zero, with a 128-bit intermediate. It saturates at the ends
// of int64. c must be positive.
func MulDiv(a, b, c int64) int64 {
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(abs(a), abs(b))
	if hi >= uint64(c) {
		return saturate(neg)
	}
	var q uint64
	if hi == 0 && c == int64(time.Second) { // a rate: the compiler divides by a constant without a division
		q = lo / uint64(time.Second)
	} else {
		q, _ = bits.Div64(hi, lo, uint64(c))
	}
	if q > math.MaxInt64 {
		return saturate(neg)
	}
	if neg {
		return -int64(q)
	}
	return int64(q)
}

// MulDivCeil is MulDiv rounded up. a and b must not be negative, c must be positive.
func MulDivCeil(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, rem := bits.Div64(hi, lo, uint64(c))
	if q >= math.MaxInt64 { // before rounding up, which could wrap around
		return math.MaxInt64
	}
	if rem > 0 {
		q++
	}
	return int64(q)
}

func abs(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

func saturate(neg bool) int64 {
	if neg {
		return math.MinInt64
	}
	return math.MaxInt64
}
