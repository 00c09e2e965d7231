package config

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const (
	slaExample     = "{id: get-product, match: {methods: [GET], pathPattern: /product/*}, tiers: [" + slaTierExample + "]}"
	slaTierExample = "{period: 10, threshold: 1000}"
)

// sla is one entry of slas: limits for HTTP requests, all of whose tiers count
// in fixed windows of whole seconds.
type sla struct {
	draft
	id      string
	enabled bool
	tiers   []quota.Tier
}

func (l *limitFile) slas(p place) {
	lines := map[string]int{}
	l.list(p, quota.MaxLimits, "["+slaExample+"]", func(item place) {
		if !l.room(item) {
			return
		}
		s := sla{enabled: true, draft: draft{place: item}}
		faults := len(l.faults)
		var ok bool
		if s.given, ok = l.fieldsOf(item, slaExample, l.slaFields(&s)); !ok || len(l.faults) > faults {
			return
		}
		if line, twice := lines[s.id]; twice {
			l.node(s.given["id"].value, s.given["id"].path, "is %s again, first in line %d; must be an id of its own", clip(s.id), line)
			return
		}
		lines[s.id] = s.given["id"].value.Line
		s.LimitName = quota.LimitName{Namespace: quota.HTTPNamespace, Limit: s.id}
		s.SetFirst(s.tiers[0])
		s.More = append(s.More, s.tiers[1:]...)
		if !s.enabled {
			s.Enforcement = quota.Off
		}
		l.add(s.draft)
	})
}

func (l *limitFile) slaFields(s *sla) []field {
	return []field{
		{"id", "id: get-product", func(p place) { l.scalar(p, limitName(&s.id)) }},
		{"enabled", "", func(p place) { l.scalar(p, boolean(&s.enabled)) }},
		{"match", "match: {methods: [GET], pathPattern: /product/*}", func(p place) {
			l.match(&s.draft, p, "pathPattern")
		}},
		{"tiers", "tiers: [" + slaTierExample + "]", func(p place) {
			l.list(p, quota.MaxTiers, "["+slaTierExample+"]", func(item place) {
				var period, threshold int64
				if l.object(item, slaTierExample, l.slaTierFields(&period, &threshold)) {
					s.tiers = append(s.tiers, quota.Window(quota.FixedWindow, threshold, time.Duration(period)*time.Second))
				}
			})
		}},
	}
}

func (l *limitFile) slaTierFields(period, threshold *int64) []field {
	return []field{
		{"period", "period: 10", func(p place) { l.scalar(p, seconds(period)) }},
		{"threshold", "threshold: 1000", func(p place) { l.scalar(p, whole(threshold, 0, quota.MaxTokens)) }},
	}
}

// seconds reads a period in whole seconds.
func seconds(to *int64) scalar {
	s := whole(to, 1, int64(quota.MaxPause/time.Second))
	want := s.want + ", in seconds"
	return scalar{number: true, want: want, set: func(text string) error {
		if s.set(text) != nil {
			return wrong(text, want)
		}
		return nil
	}}
}
