package fields

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Bounds of input.
const (
	maxField = 4 << 10 // bytes of a RateLimit field
	maxItems = 32      // items of its list
)

// Wait returns how long a response asks its caller to stay away: Retry-After, else the longest t of
// exhausted RateLimit items. It ignores malformed fields, and RateLimit in a response from a cache.
// now is for dates.
func Wait(h http.Header, now time.Time) time.Duration {
	if v := h.Get("Retry-After"); v != "" {
		if d, ok := parseRetryAfter(v, h.Get("Date"), now); ok {
			return d
		}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 32); err == nil && age > 0 {
		return 0
	}
	return exhausted(strings.Join(h.Values("Ratelimit"), ","))
}

// parseRetryAfter parses seconds or a date. A date is compared with that of the response, so clocks
// need not agree.
func parseRetryAfter(v, date string, now time.Time) (time.Duration, bool) {
	if n, err := strconv.ParseUint(v, 10, 63); err == nil {
		return seconds(n), true
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	if sent, err := http.ParseTime(date); err == nil {
		now = sent
	}
	return max(at.Sub(now), 0), true
}

func seconds(n uint64) time.Duration {
	return time.Duration(min(n, uint64(Forever/time.Second))) * time.Second
}

// exhausted returns the longest t of items with r=0.
func exhausted(field string) time.Duration {
	items, ok := parseList(field)
	if !ok {
		return 0
	}
	var longest time.Duration
	for _, it := range items {
		if it.r == 0 && it.t > 0 {
			longest = max(longest, seconds(uint64(it.t)))
		}
	}
	return longest
}

// item is an item of RateLimit; -1 stands for a missing parameter.
type item struct {
	name string
	r, t int64
}

// parseList parses RateLimit: a list of strings with parameters. It ignores unknown parameters. It
// is stricter than the format: every item must be a string and have an r.
func parseList(s string) ([]item, bool) {
	if len(s) > maxField {
		return nil, false
	}
	p := parser{rest: s}
	p.space()
	var out []item
	for p.rest != "" {
		it, ok := p.item()
		if !ok || len(out) == maxItems {
			return nil, false
		}
		out = append(out, it)
		p.space()
		if p.rest == "" {
			return out, true
		}
		if !p.accept(',') {
			return nil, false
		}
		if p.space(); p.rest == "" {
			return nil, false // a comma at the end
		}
	}
	return out, true
}

type parser struct{ rest string }

func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *parser) accept(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *parser) item() (item, bool) {
	it := item{r: -1, t: -1}
	var ok bool
	if it.name, ok = p.str(); !ok {
		return it, false
	}
	for p.accept(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		key := p.while(isKeyChar)
		if key == "" || key[0] >= '0' && key[0] <= '9' || key[0] == '-' || key[0] == '.' {
			return it, false
		}
		n, isInt := int64(-1), false
		if p.accept('=') {
			if n, isInt, ok = p.bare(); !ok {
				return it, false
			}
		}
		switch {
		case key != "r" && key != "t":
		case !isInt || n < 0:
			return it, false
		case key == "r":
			it.r = n
		default:
			it.t = n
		}
	}
	return it, it.r >= 0
}

// while cuts off the bytes that is accepts.
func (p *parser) while(is func(byte) bool) string {
	i := 0
	for i < len(p.rest) && is(p.rest[i]) {
		i++
	}
	s := p.rest[:i]
	p.rest = p.rest[i:]
	return s
}

func isKeyChar(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-.*", c) >= 0
}

// str parses a quoted string.
func (p *parser) str() (string, bool) {
	if !p.accept('"') {
		return "", false
	}
	var b []byte
	for i := 0; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return string(b), true
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return "", false
			}
			c = p.rest[i]
		case c < ' ' || c > '~':
			return "", false
		}
		b = append(b, c)
	}
	return "", false
}

// bare parses the value of a parameter. It returns integers only; of other values it determines the
// end.
func (p *parser) bare() (n int64, isInt, ok bool) {
	if p.rest == "" {
		return 0, false, false
	}
	switch p.rest[0] {
	case '"':
		_, ok = p.str()
		return 0, false, ok
	case ':':
		end := strings.IndexByte(p.rest[1:], ':')
		if end < 0 {
			return 0, false, false
		}
		p.rest = p.rest[end+2:]
		return 0, false, true
	}
	s := p.while(func(c byte) bool { return c > ' ' && c <= '~' && c != ';' && c != ',' && c != '"' })
	if s == "" {
		return 0, false, false
	}
	if digits := strings.TrimPrefix(s, "-"); len(digits) <= 15 {
		if v, err := strconv.ParseUint(digits, 10, 63); err == nil {
			n = int64(v)
			if len(digits) < len(s) {
				n = -n
			}
			return n, true, true
		}
	}
	return 0, false, true
}
