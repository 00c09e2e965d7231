package api

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// LimitProto returns the limit as the API shows it: a counter of a further tier
// under its limit's name.
func LimitProto(l *quota.Limit) *quoratev1.Limit {
	base, _ := l.Base()
	first := l.First()
	t := tierProto(&first)
	out := &quoratev1.Limit{
		Namespace: base.Namespace, Name: base.Limit, Rate: t.Rate, Burst: t.Burst, Kind: t.Kind, Calendar: t.Calendar, Timezone: t.Timezone,
		Ceiling: quoratev1.Ceiling(l.Ceiling + 1), Class: quoratev1.Class(l.Class + 1), Decide: quoratev1.Decide(l.Decide + 1),
		MaxCost: l.MaxCost, MaxWait: pause(l.MaxWait), MaxDebt: pause(l.MaxDebt), Lease: pause(l.Lease), Parent: l.Parent,
		Near: l.Near, WhenCutOff: cutOffProto(l.CutOff),
		MaxKeys: l.MaxKeys, Idle: pause(l.Idle), Durable: l.Durable,
	}
	if l.Kind == quota.Concurrency {
		out.InFlight = l.Burst
	}
	if len(l.More) > 0 {
		for _, t := range l.Tiers() {
			out.Tiers = append(out.Tiers, tierProto(&t))
		}
	}
	out.Enforcement, out.Fraction = enforcementProto(l)
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

// enforcementProto is whether a limit refuses, and for which part of its keys.
func enforcementProto(l *quota.Limit) (quoratev1.Enforcement, float64) {
	part := 1.0
	if l.Fraction > 0 {
		part = float64(l.Fraction) / quota.Million
	}
	return quoratev1.Enforcement(l.Enforcement + 1), part
}

// shortLimit is the limit as answers to checks show it: without what is as in
// every other limit.
func shortLimit(l *quota.Limit) *quoratev1.Limit {
	out := LimitProto(l)
	if l.Class == quota.Counted {
		out.Class = quoratev1.Class_CLASS_UNSPECIFIED
	}
	if l.Enforcement == quota.Enforce {
		out.Enforcement = quoratev1.Enforcement_ENFORCEMENT_UNSPECIFIED
	}
	if out.Fraction == 1 {
		out.Fraction = 0
	}
	if out.Near == quota.DefaultNear {
		out.Near = 0
	}
	if l.Decide == quota.Locally {
		out.Decide = quoratev1.Decide_DECIDE_UNSPECIFIED
	}
	return out
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

func cutOffProto(c quota.CutOff) *quoratev1.CutOff {
	if c == (quota.CutOff{}) {
		return nil
	}
	out := &quoratev1.CutOff{Policy: quoratev1.CutOffPolicy(c.Policy), Then: quoratev1.CutOffPolicy(c.Then), After: pause(c.After)}
	if c.Policy == quota.CutOffRate {
		out.Rate = c.Rate.String()
	}
	if c.Then == quota.CutOffRate {
		out.ThenRate = c.ThenRate.String()
	}
	return out
}

// pause is a duration that is absent when there is none, or no end of it.
func pause(d time.Duration) *durationpb.Duration {
	if d <= 0 || d == never {
		return nil
	}
	return durationpb.New(d)
}
