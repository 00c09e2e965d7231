package limitproto

import (
	"fmt"
	"math"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/zone"
)

// EncodeLimits returns the messages for limits, in their order.
func EncodeLimits(limits []quota.Limit) []*raftlogv1.StoredLimit {
	out := make([]*raftlogv1.StoredLimit, len(limits))
	for i := range limits {
		out[i] = EncodeLimit(&limits[i])
	}
	return out
}

// EncodeLimit returns the message for a limit.
func EncodeLimit(l *quota.Limit) *raftlogv1.StoredLimit {
	out := &raftlogv1.StoredLimit{
		Namespace: l.Namespace, Name: l.LimitName.Limit, RateTokens: l.Rate.Tokens, RatePeriodNanos: int64(l.Rate.Per),
		Burst: l.Burst, Hard: l.Ceiling == quota.Hard,
		Kind: uint32(l.Kind), CalendarUnit: uint32(l.Calendar.Unit), Zone: zoneName(l.Calendar.Zone),
		Class: uint32(l.Class), Decide: uint32(l.Decide), MaxCost: l.MaxCost,
		MaxWaitNanos: int64(l.MaxWait), MaxDebtNanos: int64(l.MaxDebt), LeaseNanos: int64(l.Lease),
		Parent: l.Parent, Floor: encodeRate(l.Floor), FloorBurst: l.FloorBurst,
		Enforcement: uint32(l.Enforcement), Fraction: l.Fraction, Near: l.Near, CutOff: encodeCutOff(l.CutOff),
		MaxKeys: l.MaxKeys, IdleNanos: int64(l.Idle), Durable: l.Durable,
	}
	for _, t := range l.More {
		out.More = append(out.More, &raftlogv1.StoredTier{
			Kind: uint32(t.Kind), Rate: encodeRate(t.Rate), Burst: t.Burst,
			CalendarUnit: uint32(t.Calendar.Unit), Zone: zoneName(t.Calendar.Zone),
		})
	}
	if m := l.Match; m != nil {
		out.Match = &raftlogv1.StoredMatch{Methods: m.Methods, Path: m.Path}
	}
	return out
}

// zoneName returns the name of a zone, empty for nil: most limits have no calendar.
func zoneName(l *time.Location) string {
	if l == nil {
		return ""
	}
	return zone.Name(l)
}

func encodeRate(r quota.Rate) *raftlogv1.StoredRate {
	if r == (quota.Rate{}) {
		return nil
	}
	return &raftlogv1.StoredRate{Tokens: r.Tokens, PeriodNanos: int64(r.Per)}
}

func decodeRate(r *raftlogv1.StoredRate) quota.Rate {
	return quota.Rate{Tokens: r.GetTokens(), Per: time.Duration(r.GetPeriodNanos())}
}

func encodeCutOff(c quota.CutOff) *raftlogv1.StoredCutOff {
	if c == (quota.CutOff{}) {
		return nil
	}
	return &raftlogv1.StoredCutOff{
		Policy: uint32(c.Policy), Rate: encodeRate(c.Rate), AfterNanos: int64(c.After),
		Then: uint32(c.Then), ThenRate: encodeRate(c.ThenRate),
	}
}

func decodeCutOff(c *raftlogv1.StoredCutOff) quota.CutOff {
	return quota.CutOff{
		Policy: word[quota.CutOffPolicy](c.GetPolicy()), Rate: decodeRate(c.GetRate()), After: time.Duration(c.GetAfterNanos()),
		Then: word[quota.CutOffPolicy](c.GetThen()), ThenRate: decodeRate(c.GetThenRate()),
	}
}

// word converts a stored enum value. Values that do not fit become 255, which is never valid, so
// that validation finds them.
func word[T ~uint8](v uint32) T { return T(min(v, math.MaxUint8)) }

// DecodeLimits returns the set, or all of its errors; see quota.NewLimits.
func DecodeLimits(version uint64, stored []*raftlogv1.StoredLimit) (*quota.Limits, error) {
	if len(stored) > quota.MaxLimits {
		return nil, fmt.Errorf("limits: %d; at most %d", len(stored), quota.MaxLimits)
	}
	list := make([]quota.Limit, len(stored))
	for i, s := range stored {
		l, err := DecodeLimit(s)
		if err != nil {
			return nil, fmt.Errorf("limit %s/%s: %w", s.GetNamespace(), s.GetName(), err)
		}
		list[i] = l
	}
	return quota.NewLimits(version, list)
}

// DecodeLimit returns the limit, or an error if its time zone is unknown. The limit is not
// validated: unknown enum values are in it as invalid ones.
func DecodeLimit(s *raftlogv1.StoredLimit) (quota.Limit, error) {
	calendar, err := decodeCalendar(s.GetCalendarUnit(), s.GetZone())
	if err != nil {
		return quota.Limit{}, err
	}
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: s.GetNamespace(), Limit: s.GetName()},
		Kind:      word[quota.Kind](s.GetKind()), Burst: s.GetBurst(), Calendar: calendar,
		Rate:  quota.Rate{Tokens: s.GetRateTokens(), Per: time.Duration(s.GetRatePeriodNanos())},
		Class: word[quota.Class](s.GetClass()), Decide: word[quota.Decide](s.GetDecide()), MaxCost: s.GetMaxCost(),
		MaxWait: time.Duration(s.GetMaxWaitNanos()), MaxDebt: time.Duration(s.GetMaxDebtNanos()), Lease: time.Duration(s.GetLeaseNanos()),
		Parent: s.GetParent(), Floor: decodeRate(s.GetFloor()), FloorBurst: s.GetFloorBurst(),
		Enforcement: word[quota.Enforcement](s.GetEnforcement()), Fraction: s.GetFraction(), Near: s.GetNear(),
		CutOff: decodeCutOff(s.GetCutOff()), MaxKeys: s.GetMaxKeys(), Idle: time.Duration(s.GetIdleNanos()), Durable: s.GetDurable(),
	}
	if s.GetHard() {
		l.Ceiling = quota.Hard
	}
	if m := s.GetMatch(); m != nil {
		l.Match = &quota.Match{Methods: m.GetMethods(), Path: m.GetPath()}
	}
	for i, t := range s.GetMore() {
		c, err := decodeCalendar(t.GetCalendarUnit(), t.GetZone())
		if err != nil {
			return l, fmt.Errorf("tiers[%d].%w", i+1, err)
		}
		l.More = append(l.More, quota.Tier{Kind: word[quota.Kind](t.GetKind()), Rate: decodeRate(t.GetRate()), Burst: t.GetBurst(), Calendar: c})
	}
	return l, nil
}

func decodeCalendar(unit uint32, name string) (quota.Calendar, error) {
	z, err := zone.Load(name)
	return quota.Calendar{Unit: word[quota.CalendarUnit](unit), Zone: z}, err
}
