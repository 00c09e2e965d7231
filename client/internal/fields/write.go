package fields

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/client"
)

// maxInteger is the largest integer in a structured field.
const maxInteger = 999_999_999_999_999

// Seconds returns d in whole seconds, rounded up; 0 if it is past.
func Seconds(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}

// RetryAfter returns the value of Retry-After, at least a second. ok is false if the result is no
// refusal, or waiting does not help.
func RetryAfter(r *client.Result) (seconds int64, ok bool) {
	if r.Allowed || r.RetryAfter == client.Never {
		return 0, false
	}
	return max(Seconds(r.RetryAfter), 1), true
}

// Writer makes RateLimit fields. Policies rarely change, so it caches their fields. It is safe for
// concurrent use; the zero value is ready to use.
type Writer struct{ seen [64]atomic.Pointer[policies] }

type policies struct {
	of    []client.Policy
	value []string
}

// Policy returns RateLimit-Policy; nil without a policy. The result is shared and must not be
// modified; appending to it makes a copy.
func (w *Writer) Policy(r *client.Result) []string {
	if len(r.Policies) == 0 {
		return nil
	}
	slot := &w.seen[slotOf(r.Policies)]
	if p := slot.Load(); p != nil && samePolicies(p.of, r.Policies) {
		return p.value
	}
	p := &policies{of: append([]client.Policy(nil), r.Policies...), value: []string{string(appendPolicies(nil, r.Policies))}}
	slot.Store(p)
	return p.value
}

func slotOf(ps []client.Policy) int {
	h := uint64(len(ps))
	for i := range ps {
		n := ps[i].Name
		h = h*31 + uint64(len(n)) + uint64(ps[i].Quota)
		if n != "" {
			h = h*31 + uint64(n[len(n)-1])
		}
	}
	return int(h % 64)
}

// samePolicies compares the parts that RateLimit-Policy contains.
func samePolicies(a, b []client.Policy) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Quota != b[i].Quota || a[i].Window != b[i].Window {
			return false
		}
	}
	return true
}

// appendPolicies appends "name";q=20;w=2. Concurrency limits have no window.
func appendPolicies(b []byte, ps []client.Policy) []byte {
	for i := range ps {
		p := &ps[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendString(b, p.Name)
		b = appendInt(append(b, ";q="...), p.Quota)
		if p.Window > 0 {
			b = appendInt(append(b, ";w="...), Seconds(p.Window))
		} else {
			b = append(b, `;qu="concurrent-requests"`...)
		}
	}
	return b
}

// RateLimit appends the value of RateLimit, "name";r=19;t=1; nothing without a policy.
func RateLimit(b []byte, r *client.Result) []byte {
	refuser := Refuser(r)
	for i := range r.Policies {
		p := &r.Policies[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendString(b, p.Name)
		b = appendInt(append(b, ";r="...), p.Remaining)
		t, ok := moreAfter(p)
		if p == refuser {
			t, ok = r.RetryAfter, r.RetryAfter != client.Never
		}
		if ok {
			b = appendInt(append(b, ";t="...), Seconds(t))
		}
	}
	return b
}

// moreAfter returns when more of a policy is available; false if unknown.
func moreAfter(p *client.Policy) (time.Duration, bool) {
	switch {
	case p.Window <= 0:
		return 0, false
	case p.Remaining >= p.Quota:
		return 0, true
	case p.Windowed:
		return p.ResetAfter, p.ResetAfter > 0
	case p.Quota <= 0:
		return 0, false
	}
	return max(p.Window/time.Duration(p.Quota), 1), true
}

// Refuser returns the policy that refused: of those of the refusing limit, the one with the least
// remaining; nil if no limit refused.
func Refuser(r *client.Result) *client.Policy {
	if r.Allowed {
		return nil
	}
	return tightest(r, func(p *client.Policy) bool {
		rest, ok := strings.CutPrefix(p.Name, r.Limit.Name)
		return ok && (rest == "" || rest[0] == '-' && isTier(rest[1:]))
	})
}

func isTier(s string) bool {
	n, err := strconv.ParseUint(s, 10, 8)
	return err == nil && n > 1
}

// Tightest returns the policy that refused, or the one with the least remaining; nil if there are
// none.
func Tightest(r *client.Result) *client.Policy {
	if p := Refuser(r); p != nil {
		return p
	}
	return tightest(r, func(*client.Policy) bool { return true })
}

func tightest(r *client.Result, is func(*client.Policy) bool) *client.Policy {
	var out *client.Policy
	for i := range r.Policies {
		if p := &r.Policies[i]; is(p) && (out == nil || p.Remaining < out.Remaining) {
			out = p
		}
	}
	return out
}

// Detail explains why a request was refused. It contains nothing of the key.
func Detail(r *client.Result) string {
	s, ok := RetryAfter(r)
	switch {
	case !ok:
		return "the limit " + r.Limit.Name + " never admits this request, however long the caller waits"
	case s == 1:
		return "the limit " + r.Limit.Name + " is used up; try again in 1 second"
	}
	return "the limit " + r.Limit.Name + " is used up; try again in " + strconv.FormatInt(s, 10) + " seconds"
}

// appendInt appends an integer within the range of structured fields, at least 0.
func appendInt(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), maxInteger), 10)
}

// appendString appends a string of a structured field. Invalid bytes become "?".
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// Forever is the longest wait.
const Forever = time.Duration(math.MaxInt64)
