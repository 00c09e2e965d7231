package quota

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Override changes one limit for one key at run time, for example for a tenant until Friday. It
// applies to all tiers and to the floor, not to parents.
type Override struct {
	Key Key
	// Class Unlimited or Banned takes precedence over the other fields.
	Class Class
	// Rate and Burst replace those of a limit with one tier; for a window Burst is the count, and
	// Rate is zero. Rate.Per 0 keeps the limit's rate; Burst below 0 keeps the limit's burst.
	Rate  Rate
	Burst int64
	// Scale multiplies every tier, in parts per million; 0 leaves them unchanged.
	Scale int64
	// Expires is wall-clock time; 0 means never.
	Expires Time
	Comment string // at most MaxCommentLen bytes
	By      string // who set it
	At      Time   // when
}

// Bounds of overrides.
const (
	MaxCommentLen = 512
	MaxOverrides  = 2_000_000
	MaxScale      = 1_000_000 * Million
)

// Overrides looks up overrides by key. Implementations are safe for concurrent use and never modify an override that
// they have returned.
type Overrides interface {
	// Override returns the override of a limit (not of one of its tiers) and key, or nil.
	Override(k Key) *Override
}

// Validate returns all errors of the override on its own, joined.
func (o *Override) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := checkNames(o.Key.LimitName); err != nil {
		errs = append(errs, err)
	}
	if n := len(o.Key.Key); n == 0 || n > MaxKeyLen {
		add("key: is %d bytes; must be 1 to %d", n, MaxKeyLen)
	}
	if o.Class > Banned {
		add("class: %d; must be unlimited or banned, or left out", o.Class)
	}
	if o.Burst > MaxTokens {
		add("burst: %d; at most %d", o.Burst, MaxTokens)
	}
	if o.Rate.Per < 0 || o.Rate.Tokens < 0 || o.Rate.Tokens > MaxTokens || o.Rate.PerSecond() > FromTokens(MaxTokens) {
		add("rate: %d per %v; must be 0 to %d tokens per positive period", o.Rate.Tokens, o.Rate.Per, MaxTokens)
	}
	if o.Scale < 0 || o.Scale > MaxScale {
		add("scale: %d parts per million; must be 1 to %d", o.Scale, int64(MaxScale))
	}
	if o.Class == Counted && o.Burst < 0 && o.Rate.Per == 0 && o.Scale == 0 {
		add("rate, burst, scale, unlimited, banned: none is given; an override must change something")
	}
	if len(o.Comment) > MaxCommentLen {
		add("comment: is %d bytes; at most %d", len(o.Comment), MaxCommentLen)
	}
	return errors.Join(errs...)
}

// Fits returns an error if the override cannot be applied to the limit.
func (o *Override) Fits(l *Limit) error {
	single := o.Burst >= 0 || o.Rate.Per > 0
	switch {
	case l.Class != Counted && o.Class == Counted && o.Rate.Per == 0:
		return fmt.Errorf("rate: is missing; %v is %v and has no tokens that burst or scale could change", l.LimitName, l.Class)
	case single && len(l.More) > 0:
		return fmt.Errorf("rate, burst: %v has %d tiers; use scale, which multiplies them all", l.LimitName, len(l.More)+1)
	case o.Rate.Per > 0 && l.Kind != TokenBucket:
		return fmt.Errorf("rate: %v is %v, not a token bucket; give burst, the count", l.LimitName, l.Kind)
	}
	return nil
}

// Effective returns the limit (or counter) that applies to a key: l, or l as changed by the key's
// override. all may be nil.
func Effective(l *Limit, all Overrides, key string) *Limit {
	return OverrideOf(l, all, key).Apply(l)
}

// OverrideOf returns the override of a key of a limit (or counter); nil for none. all may be nil.
func OverrideOf(l *Limit, all Overrides, key string) *Override {
	if all == nil {
		return nil
	}
	base, _ := l.Base()
	return all.Override(Key{base, key})
}

// Apply returns a copy of the limit or counter, changed by the override; l itself if the override is nil. A limit that
// counts nothing, perhaps only since the override was set, needs a rate to become a token bucket, whose burst defaults to
// that of the rate.
func (o *Override) Apply(l *Limit) *Limit {
	if o == nil {
		return l
	}
	out := *l
	switch {
	case o.Class != Counted:
		out.Class = o.Class
	case l.Class != Counted && o.Rate.Per == 0:
		return &out
	case l.Class != Counted:
		if out.Class = Counted; o.Rate.Tokens > 0 {
			out.Burst = DefaultBurst(o.Rate)
		}
	}
	if _, tier := l.Base(); tier == 1 && l.Kind != TokenBucket && o.Burst >= 0 {
		out.Burst, out.Rate.Tokens = o.Burst, o.Burst
	} else if tier == 1 && l.Kind == TokenBucket {
		if o.Burst >= 0 {
			out.Burst = o.Burst
		}
		if o.Rate.Per > 0 {
			out.Rate = o.Rate
		}
	}
	if o.Scale > 0 {
		first := out.First()
		out.SetFirst(first.scaled(o.Scale))
		out.More = slices.Clone(l.More) // they bound the largest cost
		for i, t := range l.More {
			out.More[i] = t.scaled(o.Scale)
		}
	}
	return &out
}

// scaled multiplies the tier by parts per million.
func (t Tier) scaled(parts int64) Tier {
	t.Burst = min(MulDiv(t.Burst, parts, Million), MaxTokens)
	switch {
	case t.Kind.Windowed():
		t.Rate.Tokens = t.Burst
	case t.Kind == TokenBucket:
		t.Rate = t.Rate.scaled(parts)
	}
	return t
}

// scaled multiplies the rate by parts per million: exactly if numerator and denominator do not
// overflow, else rounded down.
func (r Rate) scaled(parts int64) Rate {
	num, den := parts/gcd(parts, Million), Million/gcd(parts, Million)
	if r.Tokens <= MaxTokens/num && int64(r.Per) <= math.MaxInt64/den {
		return Rate{r.Tokens * num, r.Per * time.Duration(den)}
	}
	return Rate{min(MulDiv(r.Tokens, num, den), MaxTokens), r.Per}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
