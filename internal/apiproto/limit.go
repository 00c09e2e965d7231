// Package apiproto turns limits, times and names into parts of the API's messages and back, and
// has the bounds that the API sets.
package apiproto

import (
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/quorate/quorate/api/apierr"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the API.
const (
	MaxBatch      = 1000    // checks in one call
	MaxTop        = 1000    // keys in one TopRates answer
	DefaultTop    = 20      // keys in a TopRates answer when not said
	MaxLimitsFile = 4 << 20 // bytes of a limit file
	MaxList       = 1000    // overrides, keys, limits or versions in one call
)

// Never is RetryAfter of a check that cannot pass however long one waits.
const Never = time.Duration(math.MaxInt64)

// CheckKey validates a key; an empty one becomes that of everybody.
func CheckKey(key *string) error {
	switch n := len(*key); {
	case n == 0:
		*key = quota.WholeKey
	case n > quota.MaxKeyLen:
		return apierr.Invalid("key", "is %d bytes; at most %d; send a hash of it", n, quota.MaxKeyLen)
	case !utf8.ValidString(*key):
		return apierr.Invalid("key", "is not UTF-8; encode it, as base64 or hex")
	}
	return nil
}

// Time is a wall clock's time, absent for 0.
func Time(t quota.Time) *timestamppb.Timestamp {
	if t == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, int64(t)))
}

// Limit returns the limit as the API shows it: a counter of a further tier
// under its limit's name.
func Limit(l *quota.Limit) *quoratev1.Limit {
	base, _ := l.Base()
	first := l.First()
	t := tierProto(&first)
	out := &quoratev1.Limit{
		Namespace: base.Namespace, Name: base.Limit, Rate: t.Rate, Burst: t.Burst, Kind: t.Kind, Calendar: t.Calendar, Timezone: t.Timezone,
		Ceiling: quoratev1.Ceiling(l.Ceiling + 1), Class: quoratev1.Class(l.Class + 1), Decide: decides[l.Mode()],
		MaxCost: l.MaxCost, MaxWait: Pause(l.MaxWait), MaxDebt: Pause(l.MaxDebt), Lease: Pause(l.Lease), Parent: l.Parent,
		Near: l.Near, WhenCutOff: CutOffProto(l.CutOff),
		MaxKeys: l.MaxKeys, Idle: Pause(l.Idle), Durable: l.Durable,
	}
	if l.Kind == quota.Concurrency {
		out.InFlight = l.Burst
	}
	if len(l.More) > 0 {
		for _, t := range l.Tiers() {
			out.Tiers = append(out.Tiers, tierProto(&t))
		}
	}
	out.Enforcement, out.Fraction = EnforcementProto(l)
	if l.Near == 0 {
		out.Near = quota.DefaultNear
	}
	if l.Floor.Tokens > 0 || l.FloorBurst > 0 {
		out.Floor = &quoratev1.Floor{Rate: l.Floor.String(), Burst: l.FloorBurst}
	}
	if l.Match != nil {
		out.Match = &quoratev1.Match{Methods: l.Match.Methods, Path: l.Match.Path}
	}
	return out
}

// EnforcementProto is whether a limit refuses, and for which part of its keys.
func EnforcementProto(l *quota.Limit) (quoratev1.Enforcement, float64) {
	part := 1.0
	if l.Fraction > 0 {
		part = float64(l.Fraction) / quota.Million
	}
	return quoratev1.Enforcement(l.Enforcement + 1), part
}

func tierProto(t *quota.Tier) *quoratev1.Tier {
	out := &quoratev1.Tier{Kind: quoratev1.Kind(t.Kind + 1), Burst: t.Burst}
	if t.Rate != (quota.Rate{}) { // what counts what is in flight has none, nor has what is unlimited or banned
		out.Rate = t.Rate.String()
	}
	if t.Kind == quota.CalendarWindow {
		out.Calendar, out.Timezone = t.Calendar.Unit.String(), t.Calendar.Location().String()
	}
	return out
}

// CutOffProto returns what holds while the leader is not reached, nil if nothing is said.
func CutOffProto(c quota.CutOff) *quoratev1.CutOff {
	if c == (quota.CutOff{}) {
		return nil
	}
	out := &quoratev1.CutOff{Policy: quoratev1.CutOffPolicy(c.Policy), Then: quoratev1.CutOffPolicy(c.Then), After: Pause(c.After)}
	if c.Policy == quota.CutOffRate {
		out.Rate = c.Rate.String()
	}
	if c.Then == quota.CutOffRate {
		out.ThenRate = c.ThenRate.String()
	}
	return out
}

// Pause returns the message for a duration: nil if it is 0 or Never.
func Pause(d time.Duration) *durationpb.Duration {
	if d <= 0 || d == Never {
		return nil
	}
	return durationpb.New(d)
}

// WholeSeconds returns d in seconds, rounded up, so that a caller that returns after that time is not too early.
func WholeSeconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

// CheckLimitKey validates a bucket whose limit may be a default or a template.
func CheckLimitKey(k *quota.Key) error {
	if err := CheckLimitName(k.LimitName); err != nil {
		return err
	}
	return CheckKey(&k.Key)
}

// CheckCounter validates a bucket of any limit, as CheckLimitKey does, or of an inline limit.
func CheckCounter(k *quota.Key) error {
	if !k.LimitName.IsInline() {
		return CheckLimitKey(k)
	}
	if _, err := k.LimitName.Inline(); err != nil {
		return apierr.InvalidName("limit", err)
	}
	return CheckKey(&k.Key)
}

// CheckLimitName validates the name of a limit that may be a default or a template.
func CheckLimitName(n quota.LimitName) error {
	if n == quota.Global {
		return nil
	}
	if err := quota.CheckName("namespace", n.Namespace); err != nil {
		return apierr.InvalidName("namespace", err)
	}
	if n.Limit == quota.Default || n.Limit == quota.Template {
		return nil
	}
	if err := quota.CheckName("limit", n.Limit); err != nil {
		return apierr.InvalidName("limit", err)
	}
	return nil
}

// decides are the values of quota.Decide in the API.
var decides = map[quota.Decide]quoratev1.Decide{
	quota.Locally: quoratev1.Decide_DECIDE_LOCAL, quota.AtLeader: quoratev1.Decide_DECIDE_LEADER, quota.Auto: quoratev1.Decide_DECIDE_AUTO,
}
