package config

import (
	"math"
	"math/bits"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func lintRepeatedTier(_ *lint, l *quota.Limit, say say) {
	tiers := l.Tiers()
	for i := range tiers {
		for j := range i {
			if tiers[i] == tiers[j] {
				say("tier %d (%s) repeats tier %d; remove one", i+1, describeTier(&tiers[i]), j+1)
				break
			}
		}
	}
}

// lintUnreachableTier finds tiers that never refuse anything, because another tier of the limit
// always refuses first.
func lintUnreachableTier(_ *lint, l *quota.Limit, say say) {
	tiers := l.Tiers()
	for i := range tiers {
		for j := range tiers {
			if i == j || tiers[i] == tiers[j] || !within(&tiers[j], &tiers[i]) {
				continue
			}
			if j > i && within(&tiers[i], &tiers[j]) {
				continue // equivalent: only the later one is reported
			}
			say("tier %d (%s) is never reached, because tier %d (%s) admits no more; remove one of them, or change it",
				i+1, describeTier(&tiers[i]), j+1, describeTier(&tiers[j]))
			break
		}
	}
}

// lintAboveParent finds tiers that never refuse anything, because the parent always refuses first.
func lintAboveParent(in *lint, l *quota.Limit, say say) {
	parent := in.named[quota.LimitName{Namespace: l.Namespace, Limit: l.Parent}]
	if l.Parent == "" || parent == nil || parent.Class != quota.Counted || parent.Enforcement != quota.Enforce {
		return
	}
	own, above := l.Tiers(), parent.Tiers()
	for i := range own {
		for j := range above {
			if own[i] != above[j] && within(&above[j], &own[i]) {
				say("%s is never reached, because the parent %s (%s) admits no more for all its keys; lower it, or raise the parent",
					describeTier(&own[i]), l.Parent, describeTier(&above[j]))
				return
			}
		}
	}
}

// within reports whether a never admits more than b would.
func within(a, b *quota.Tier) bool {
	if a.Kind == quota.Concurrency || b.Kind == quota.Concurrency {
		return false
	}
	if b.Kind == quota.TokenBucket {
		return atOnce(a) <= b.Burst && compareRates(a.Rate, b.Rate, 1) <= 0
	}
	return mostIn(a, b) <= b.Burst
}

// atOnce returns the most that a tier admits at one instant. Two fixed windows can meet in it.
func atOnce(t *quota.Tier) int64 {
	if t.Kind.Windowed() && t.Kind != quota.SlidingWindow {
		return 2 * t.Burst
	}
	return t.Burst
}

// mostIn returns the most that t admits during one window of the other tier.
func mostIn(t, window *quota.Tier) int64 {
	_, longest := lengths(window)
	if t.Kind == quota.TokenBucket {
		if t.Rate.Per <= 0 {
			return t.Burst
		}
		return plus(t.Burst, quota.MulDiv(t.Rate.Tokens, int64(longest), int64(t.Rate.Per)))
	}
	if aligned(t, window) { // longest includes the longest day and month
		return quota.MulDiv(t.Burst, int64(longest/t.Rate.Per), 1)
	}
	shortest, _ := lengths(t)
	return quota.MulDiv(t.Burst, int64((longest+shortest-1)/shortest)+1, 1)
}

// aligned reports whether windows of t never span a boundary of the other's windows.
func aligned(t, window *quota.Tier) bool {
	if t.Kind == quota.CalendarWindow && window.Kind == quota.CalendarWindow {
		weeks := t.Calendar.Unit == quota.Week && window.Calendar.Unit != quota.Week
		return !weeks && t.Calendar.Zone == window.Calendar.Zone && t.Calendar.Unit <= window.Calendar.Unit
	}
	return t.Kind == quota.FixedWindow && window.Kind == quota.FixedWindow && window.Rate.Per%t.Rate.Per == 0
}

// lengths returns the shortest and the longest length of a tier's window.
func lengths(t *quota.Tier) (shortest, longest time.Duration) {
	per, hour, day := t.Rate.Per, time.Hour, 24*time.Hour
	if t.Kind != quota.CalendarWindow {
		return per, per
	}
	switch t.Calendar.Unit {
	case quota.Day, quota.Week:
		return per - hour, per + hour // clocks change for daylight saving time
	case quota.Month:
		return 28*day - hour, 31*day + hour
	case quota.Year:
		return 365 * day, 366 * day
	}
	return per, per
}

func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// compareRates compares a with n times b, exactly.
func compareRates(a, b quota.Rate, n int64) int {
	if a.Per <= 0 || b.Per <= 0 {
		return 0
	}
	ah, al := bits.Mul64(uint64(a.Tokens), uint64(b.Per))
	bh, bl := bits.Mul64(uint64(b.Tokens)*uint64(n), uint64(a.Per))
	switch {
	case ah != bh && ah < bh, ah == bh && al < bl:
		return -1
	case ah == bh && al == bl:
		return 0
	}
	return 1
}

// describeTier formats a tier for messages: 10 per 1s, 5/s up to 9.
func describeTier(t *quota.Tier) string {
	burst := strconv.FormatInt(t.Burst, 10)
	switch t.Kind {
	case quota.TokenBucket:
		return formatRate(t.Rate) + " up to " + burst
	case quota.Concurrency:
		return burst + " in flight"
	case quota.CalendarWindow:
		return burst + " per " + t.Calendar.Unit.String()
	}
	return burst + " per " + formatPause(t.Rate.Per)
}
