package envoy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

// Headers selects the fields that the proxy adds to its answers.
type Headers uint8

// Choices of fields.
const (
	// HeadersIETF selects RateLimit and RateLimit-Policy of draft-ietf-httpapi-ratelimit-headers,
	// with all limits of the request, and Retry-After on refusals.
	HeadersIETF Headers = iota
	// HeadersLegacy selects RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of the limit
	// that envoyproxy/ratelimit chooses: the last limit that refused, else the limit with the least
	// remaining.
	HeadersLegacy
	HeadersBoth
	HeadersNone
)

// maxPolicies bounds the limits in the RateLimit fields: the tightest come first.
const maxPolicies = 16

// headers collects the limits that the fields describe.
type headers struct{ list []policy }

type policy struct {
	name      string
	burst     int64
	window    time.Duration // 0: omitted
	remaining int64
	after     time.Duration
	refused   bool
	quota     bool // the descriptor is in quota mode
}

func (h *headers) add(t *target, d *quota.Decision, now time.Time) {
	if d.Limit == nil || d.Limit.Class != quota.Counted || d.Why == quota.WhyNotEnforced {
		return
	}
	tier := tierOf(d)
	p := policy{name: t.policyName(d), burst: tier.Burst, remaining: max(d.Remaining, 0), after: againAfter(d, now), refused: !d.Allowed, quota: t.quota()}
	switch {
	case tier.Kind.Windowed():
		p.window = tier.Rate.Per
	case tier.Kind == quota.TokenBucket:
		p.window = tier.Rate.TimeFor(tier.BurstUnits())
		if one := tier.Rate.TimeFor(quota.Token); d.Allowed && d.Remaining < tier.Burst && one < never {
			p.after = one
		}
	}
	h.list = append(h.list, p)
}

// policyName returns a limit's name for the clients of the proxy. It contains no values of
// requests.
func (t *target) policyName(d *quota.Decision) string {
	if name := t.limitName(d); name != "" {
		return name
	}
	keys := make([]string, len(t.entries))
	for i, e := range t.entries {
		keys[i] = e.Key
	}
	return strings.Join(keys, ".")
}

// fields returns the header fields; code is the code of the answer.
func (h *headers) fields(which Headers, code statusCode) (out []*corev3.HeaderValue) {
	if which == HeadersNone || len(h.list) == 0 {
		return nil
	}
	first := h.legacy()
	slices.SortStableFunc(h.list, tighter)
	add := func(key, value string) { out = append(out, &corev3.HeaderValue{Key: key, Value: value}) }
	if which == HeadersIETF || which == HeadersBoth {
		policies, state := h.ietf()
		add("RateLimit-Policy", policies)
		add("RateLimit", state)
	}
	if which == HeadersLegacy || which == HeadersBoth {
		add("RateLimit-Limit", strconv.FormatInt(first.burst, 10))
		add("RateLimit-Remaining", strconv.FormatInt(first.remaining, 10))
		add("RateLimit-Reset", strconv.FormatInt(apiproto.WholeSeconds(first.after), 10))
	}
	if code == overCode {
		var wait time.Duration // until every limit that refused has more
		for i := range h.list {
			if p := &h.list[i]; p.refused {
				wait = max(wait, p.after)
			}
		}
		add("Retry-After", strconv.FormatInt(max(apiproto.WholeSeconds(wait), 1), 10))
	}
	return out
}

// legacy returns the limit for the legacy fields. The list must be in the order of the request.
func (h *headers) legacy() policy {
	first := h.list[0]
	for _, p := range h.list {
		switch over := p.refused && !p.quota; {
		case over, !(first.refused && !first.quota) && p.remaining < first.remaining:
			first = p
		}
	}
	return first
}

// tighter compares two policies: refusals come first, then the policy with the least remaining.
func tighter(a, b policy) int {
	if a.refused != b.refused {
		if a.refused {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.remaining, b.remaining)
}

// ietf returns the two fields, with each limit once.
func (h *headers) ietf() (policies, state string) {
	var ps, ss []string
	var names []string
	for i := range h.list {
		p := &h.list[i]
		if slices.Contains(names, p.name) || len(names) == maxPolicies {
			continue
		}
		names = append(names, p.name)
		quoted := fieldString(p.name)
		one := quoted + ";q=" + strconv.FormatInt(p.burst, 10)
		if p.window > 0 && p.window < never {
			one += ";w=" + strconv.FormatInt(apiproto.WholeSeconds(p.window), 10)
		}
		ps = append(ps, one)
		ss = append(ss, quoted+";r="+strconv.FormatInt(p.remaining, 10)+";t="+strconv.FormatInt(apiproto.WholeSeconds(p.after), 10))
	}
	return strings.Join(ps, ", "), strings.Join(ss, ", ")
}

// fieldString returns s as a String of RFC 9651. Characters that it cannot contain become "?".
func fieldString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
