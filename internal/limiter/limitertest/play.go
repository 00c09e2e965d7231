package limitertest

import (
	"fmt"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Start is when every history begins; times stay between Earliest and Latest.
const (
	// Start is the time at which every history begins. Times stay between Earliest and Latest.
	Start    = quota.Time(1_700_000_000_000_000_000)
	Earliest = quota.Time(86_400_000_000_000 * 400) // 1971
	Latest   = quota.Time(7_200_000_000_000_000_000)
)

// Step is one step of a history: Do selects the action, Arg its amount.
type Step struct {
	Do  uint8
	Arg int64
}

// player runs a meter and a model through one history.
type player struct {
	t     *testing.T
	limit quota.Limit
	now   quota.Time
	meter limiter.Meter
	model *Reference
	step  int
	doing string
}

// Play runs a history on a meter of the limit and on the reference model, and fails at the first
// difference.
func Play(t *testing.T, l quota.Limit, history []Step) {
	t.Helper()
	first := l.First()
	p := &player{t: t, limit: l, now: Start, meter: limiter.NewMeter(&first, Start), model: NewReference(l, Start)}
	for i, s := range history {
		p.step = i
		actions[int(s.Do)%len(actions)](p, s.Arg)
		p.compare()
	}
}

var actions = []func(*player, int64){
	func(p *player, arg int64) { p.pass("moment", time.Duration(arg%int64(time.Second))) },
	func(p *player, arg int64) { p.pass("period", time.Duration(arg)%(2*p.limit.Rate.Per+1)) },
	func(p *player, arg int64) { p.pass("years", time.Duration(arg)%(3000*24*time.Hour)) },
	func(p *player, arg int64) { // to the end of the window, plus or minus a nanosecond
		if _, end := p.meter.Bounds(); end > p.now {
			p.pass("edge", end.Add(time.Duration(arg%3)-1).Sub(p.now))
		}
	},
	func(p *player, arg int64) { p.take(some(arg, p.limit.Burst/2+1), quota.LimitsWait) },
	func(p *player, arg int64) { p.take(some(arg, p.limit.Burst+1), time.Duration(arg&math.MaxInt64)) },
	func(p *player, arg int64) { p.take(quota.FromTokens(arg&math.MaxInt64), quota.LimitsWait) },
	func(p *player, arg int64) { p.take(some(arg, p.limit.MostCost()+2), time.Duration(arg&(1<<36-1))) },
	func(p *player, _ int64) { p.take(0, quota.LimitsWait) },
	func(p *player, arg int64) { p.charge(quota.Units(arg)) },
	func(p *player, arg int64) { p.charge(some(arg, p.limit.Burst+1)) },
	func(p *player, arg int64) { p.refund(quota.Units(arg)) },
	func(p *player, arg int64) { p.refund(some(arg, p.limit.Burst/2+1)) },
	func(p *player, arg int64) { p.retier(arg) },
	func(p *player, _ int64) { p.restore() },
}

// some returns 1 to most tokens.
func some(arg, most int64) quota.Units {
	return quota.FromTokens(1 + (arg&math.MaxInt64)%max(most, 1))
}

func (p *player) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Logf("step %d: %s at %d, limit %+v, wait %v, debt %v", p.step, p.doing, p.now, p.limit.First(), p.limit.MaxWait, p.limit.MaxDebt)
	p.t.Fatalf(format, args...)
}

func (p *player) pass(what string, d time.Duration) {
	p.doing = what
	p.now = min(max(p.now.Add(d), Earliest), Latest)
}

func (p *player) take(cost quota.Units, maxWait time.Duration) {
	p.doing = fmt.Sprintf("take %d within %v", cost, maxWait)
	before := p.model.clone()
	got := p.meter.Take(p.now, &p.limit, cost, maxWait)
	var want limiter.Decision
	if cost == 0 { // the decision on one token
		cost = quota.Token
		want = before.clone().take(p.now, cost, maxWait)
	} else {
		want = p.model.take(p.now, cost, maxWait)
	}
	if got.Allowed != want.Allowed || got.Wait != want.Wait || got.TooLong != want.TooLong || want.Never && !got.Never {
		p.fail("got %+v, want %+v; the level was %s", got, want, before.level(p.now).FloatString(6))
	}
	p.checkRetry(before, got, cost, maxWait)
}

// checkRetry repeats the request at the returned time, and a nanosecond before.
func (p *player) checkRetry(before *Reference, v limiter.Decision, cost quota.Units, maxWait time.Duration) {
	at := p.now.Add(v.RetryAfter)
	switch {
	case v.Allowed:
		if v.RetryAfter != 0 || v.Never || v.TooLong {
			p.fail("allowed, but %+v", v)
		}
	case v.Never != (v.RetryAfter == math.MaxInt64):
		p.fail("never, or later? %+v", v)
	case v.Never:
		if before.clone().take(math.MaxInt64, cost, maxWait).Allowed && p.limit.Kind != quota.CalendarWindow {
			p.fail("never, but at the end of time it passes")
		}
	case p.limit.Kind == quota.Concurrency:
		if v.RetryAfter != p.limit.LeaseOrDefault() {
			p.fail("retry after %v, want the lease", v.RetryAfter)
		}
	case at == math.MaxInt64:
	case !before.clone().take(at, cost, maxWait).Allowed:
		p.fail("retry after %v, but then it is refused", v.RetryAfter)
	case before.clone().take(at-1, cost, maxWait).Allowed:
		p.fail("retry after %v, but it passes earlier", v.RetryAfter)
	}
}

// charge books use after the fact, as members do: down to OwedUnits below zero.
func (p *player) charge(u quota.Units) {
	p.doing = fmt.Sprintf("charge %d", u)
	t := p.limit.First()
	p.meter.Advance(p.now, &t)
	got, want := max(0, min(u, p.meter.Level()+p.limit.OwedUnits())), p.model.charge(p.now, u)
	p.meter.Add(-got)
	if whole(int64(got)).Cmp(want) != 0 {
		p.fail("booked %d, want %s", got, want.FloatString(6))
	}
}

func (p *player) refund(u quota.Units) {
	p.doing = fmt.Sprintf("refund %d", u)
	p.meter.Refund(p.now, &p.limit, u)
	p.model.advance(p.now)
	p.model.counter.add(whole(int64(max(u, 0))))
}

// retier changes the burst, the rate or both, and sometimes the period.
func (p *player) retier(arg int64) {
	p.doing = "retier"
	old, l := p.limit.First(), p.limit
	n := int64(0)
	if arg&7 != 0 {
		n = (arg >> 3 & math.MaxInt64) % (2*max(l.Burst, 1) + 1)
	}
	l.Burst = min(n, quota.MaxTokens)
	switch {
	case l.Kind.Windowed():
		l.Rate.Tokens = l.Burst
	case arg&16 != 0:
		l.Rate.Tokens = min(max(l.Rate.Tokens, 1)*(1+arg>>5&3), quota.MaxTokens)
	case arg&32 != 0:
		l.Rate.Tokens /= 2
	}
	if arg&64 != 0 && l.Kind != quota.CalendarWindow && l.Kind != quota.Concurrency {
		l.Rate.Per = max(1, min(l.Rate.Per/3*4, 400*24*time.Hour))
	}
	next := l.First()
	p.meter.Retier(p.now, &old, &next)
	p.model.retier(p.now, l)
	p.limit = l
}

// restore writes a checkpoint and reads it back for the kinds where that is exact: the remainder of
// a bucket and the slope of a sliding window are rounded.
func (p *player) restore() {
	p.doing = "restore"
	if p.limit.Kind == quota.TokenBucket || p.limit.Kind == quota.SlidingWindow {
		return
	}
	t := p.limit.First()
	p.compare() // advances
	start, _ := p.meter.Bounds()
	p.meter = limiter.RestoreMeter(&t, p.meter.Level(), p.model.seen, start, p.meter.Slope(&t), p.model.seen)
}

func (p *player) compare() {
	p.t.Helper()
	t := p.limit.First()
	p.meter.Advance(p.now, &t)
	exact := p.model.level(p.now)
	if want := floor(exact); !want.IsInt64() || want.Int64() != int64(p.meter.Level()) {
		p.fail("level %d, want %s", p.meter.Level(), exact.FloatString(6))
	}
	if p.meter.Level() > t.BurstUnits() {
		p.fail("level %d is above the burst", p.meter.Level())
	}
	if start, end := p.meter.Bounds(); t.Kind.Windowed() && (start > p.model.seen || end <= p.model.seen) || !t.Kind.Windowed() && (start != 0 || end != 0) {
		p.fail("window %d to %d", start, end)
	}
	p.checkReset(&t)
	p.checkTimeFor(&t)
}

// checkReset compares the level at the time when it should be full, and a nanosecond before.
func (p *player) checkReset(t *quota.Tier) {
	top := units(*t)
	d := p.meter.ResetAfter(p.now, t)
	at := p.now.Add(d)
	switch {
	case d == math.MaxInt64:
		if end := p.model.clone().level(math.MaxInt64); t.Kind == quota.TokenBucket && end.Cmp(top) >= 0 {
			p.fail("never full, but at the end of time it is")
		}
	case at == math.MaxInt64:
	case p.model.clone().level(at).Cmp(top) != 0:
		p.fail("full in %v, but then it is not", d)
	case d > 0 && p.model.clone().level(at-1).Cmp(top) >= 0:
		p.fail("full in %v, but it is earlier", d)
	}
}

// checkTimeFor checks that TimeFor is never too early, and late by no more than the remainder of a
// unit, which TimeFor does not get.
func (p *player) checkTimeFor(t *quota.Tier) {
	level := p.meter.Level()
	cost := level + (t.BurstUnits()-level)/2
	d := p.meter.TimeFor(p.now, t, level, cost)
	at := p.now.Add(d)
	if d == math.MaxInt64 || at == math.MaxInt64 {
		return
	}
	if p.model.clone().level(at).Cmp(whole(int64(cost))) < 0 {
		p.fail("%d in %v, but then it is less", cost, d)
	}
	above := new(big.Rat).Sub(p.model.clone().level(max(at-1, p.now)), whole(int64(cost)))
	if d > 0 && above.Cmp(whole(1)) >= 0 && (t.Kind == quota.TokenBucket || t.Kind == quota.SlidingWindow) {
		p.fail("%d in %v, but before it is already %s above", cost, d, above.FloatString(6))
	}
}
