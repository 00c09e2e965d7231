package config

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/quorate/quorate/internal/quota"
)

// makeTier makes a tier from the fields of a bucket or a window.
func (l *limitFile) makeTier(v Value, g Given, t *tierText, f *form) (quota.Tier, bool) {
	if f.main == "rate" {
		return l.makeBucket(v, g, t)
	}
	ok := true
	for name, write := range map[string]string{"limit": "limit: 10", "per": "per: 1s"} {
		if !g.any(name) {
			v.Missing(name, "is missing; write %s", write)
			ok = false
		}
	}
	if _, there := g["timezone"]; there && t.kind != quota.CalendarWindow {
		g["timezone"].faultAtName("is only for calendar windows; write window: calendar, or leave it out")
		ok = false
	}
	if !ok {
		return quota.Tier{}, false
	}
	return l.makeWindow(g["per"], t)
}

func (l *limitFile) makeBucket(v Value, g Given, t *tierText) (quota.Tier, bool) {
	if !g.any("rate") {
		v.Missing("rate", "is missing; write rate: 10/s")
		return quota.Tier{}, false
	}
	out := quota.Tier{Rate: t.rate, Burst: t.burst}
	if !g.any("burst") && t.rate.Per > 0 {
		out.Burst = l.burstFor(v, t.rate)
	}
	return out, true
}

// burstFor returns the default burst of a rate whose limit has none in the file.
func (l *limitFile) burstFor(v Value, r quota.Rate) int64 {
	if r.Tokens == 0 {
		v.Missing("burst", "is missing, and a rate of 0 suggests none; write burst: 0 to refuse everything")
	}
	return quota.DefaultBurst(r)
}

const perWant = "a duration such as 10s, 90m, 1d or 1w, or for calendar windows minute, hour, day, week, month or year"

// calendarShort holds the short forms of quota.CalendarUnits, in the same order.
var calendarShort = []string{"1m", "1h", "1d", "1w", "1mo", "1y"}

func (l *limitFile) makeWindow(per Value, t *tierText) (quota.Tier, bool) {
	if per.node.Kind != yaml.ScalarNode {
		return quota.Tier{}, false // already reported
	}
	unit := quota.NoUnit
	for i, u := range quota.CalendarUnits() {
		if t.per == u.String() || t.per == calendarShort[i] {
			unit = u
		}
	}
	if t.kind == quota.CalendarWindow {
		if unit == quota.NoUnit {
			per.Fault("is %s; a calendar window is per minute, hour, day, week, month or year", clip(t.per))
			return quota.Tier{}, false
		}
		return quota.Per(t.limit, quota.Calendar{Unit: unit, Zone: t.zone}), true
	}
	var d time.Duration
	err := pause(&d, time.Millisecond).set(t.per)
	if err != nil && unit != quota.NoUnit {
		err = fmt.Errorf("is %s, a unit of the calendar; add window: calendar, or write a duration such as 10s, 90m, 1d or 1w", clip(t.per))
	}
	if err != nil {
		per.Fault("%s", err)
		return quota.Tier{}, false
	}
	return quota.Window(t.kind, t.limit, d), true
}

// tiers reads the tiers of a limit with several tiers.
func (l *limitFile) tiers(d *draft, v Value) {
	v.Items(quota.MaxTiers, "["+tierExample+", {limit: 50, per: 10s}]", func(item Value) {
		text, faults := newTier(), len(l.faults)
		g, ok := item.Fields(tierExample, l.tierFields(&text))
		if !ok {
			return
		}
		f := l.choose(item, g, forms[:2])
		if f == nil {
			return
		}
		t, ok := l.makeTier(item, g, &text, f)
		if !ok || len(l.faults) > faults {
			return
		}
		if item.node == v.node.Content[0] {
			d.SetFirst(t)
		} else {
			d.More = append(d.More, t)
		}
	})
}
