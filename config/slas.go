package config

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const (
	slaExample     = "{id: get-product, match: {methods: [GET], pathPattern: /product/*}, tiers: [" + slaTierExample + "]}"
	slaTierExample = "{period: 10, threshold: 1000}"
)

// sla is one entry of slas: limits for HTTP requests, whose tiers all count in fixed windows of
// whole seconds.
type sla struct {
	draft
	id      string
	enabled bool
	tiers   []quota.Tier
}

func (l *limitFile) slas(v Value) {
	lines := map[string]int{}
	v.Items(quota.MaxLimits, "["+slaExample+"]", func(item Value) {
		if !l.room(item) {
			return
		}
		s := sla{enabled: true, draft: draft{value: item}}
		faults := len(l.faults)
		var ok bool
		if s.given, ok = item.Fields(slaExample, l.slaFields(&s)); !ok || len(l.faults) > faults {
			return
		}
		if line, twice := lines[s.id]; twice {
			s.given["id"].Fault("repeats %s, first in line %d; must be unique", clip(s.id), line)
			return
		}
		lines[s.id] = s.given["id"].node.Line
		s.LimitName = quota.LimitName{Namespace: quota.HTTPNamespace, Limit: s.id}
		s.SetFirst(s.tiers[0])
		s.More = append(s.More, s.tiers[1:]...)
		if !s.enabled {
			s.Enforcement = quota.Off
		}
		l.add(&s.draft)
	})
}

func (l *limitFile) slaFields(s *sla) []Field {
	return []Field{
		{"id", "id: get-product", func(v Value) { v.scalar(limitName(&s.id)) }},
		{"enabled", "", func(v Value) { v.scalar(boolean(&s.enabled)) }},
		{"match", "match: {methods: [GET], pathPattern: /product/*}", func(v Value) {
			l.match(&s.draft, v, "pathPattern")
		}},
		{"tiers", "tiers: [" + slaTierExample + "]", func(v Value) {
			v.Items(quota.MaxTiers, "["+slaTierExample+"]", func(item Value) {
				var period, threshold int64
				if _, ok := item.Fields(slaTierExample, l.slaTierFields(&period, &threshold)); ok {
					s.tiers = append(s.tiers, quota.Window(quota.FixedWindow, threshold, time.Duration(period)*time.Second))
				}
			})
		}},
	}
}

func (l *limitFile) slaTierFields(period, threshold *int64) []Field {
	return []Field{
		{"period", "period: 10", func(v Value) { v.scalar(seconds(period)) }},
		{"threshold", "threshold: 1000", func(v Value) { v.scalar(whole(threshold, 0, quota.MaxTokens)) }},
	}
}

// seconds reads a period in whole seconds.
func seconds(to *int64) scalar {
	const most = int64(quota.MaxPause / time.Second)
	return wholeAs(to, 1, most, fmt.Sprintf("a whole number from 1 to %d, in seconds", most))
}
