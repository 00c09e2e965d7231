package api

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/apierr"
	"github.com/quorate/quorate/internal/quota"
)

const checkExample = `{"namespace":"web","limit":"per_client","key":"203.0.113.7"}`

// decodeCheck reads an AllowRequest and nothing after it.
func decodeCheck(b []byte, c *check) error {
	r := reader{b: b}
	if f := r.start(checkExample); f != nil {
		return f
	}
	if f := r.check("", c); f != nil {
		return f
	}
	return r.end()
}

// decodeBatch reads an AllowBatchRequest and nothing after it.
func decodeBatch(b []byte) ([]check, error) {
	r := reader{b: b}
	if f := r.start(`{"checks":[` + checkExample + `]}`); f != nil {
		return nil, f
	}
	var checks []check
	f := r.object("", []string{"checks"}, func(int) (f error) {
		checks, f = r.checks()
		return f
	})
	if f == nil {
		f = r.end()
	}
	return checks, f
}

func (r *reader) checks() (checks []check, f error) {
	if r.peek() != '[' {
		return nil, apierr.Invalid("checks", "is %s; must be an array of checks", r.describe())
	}
	r.i++
	if r.peek() == ']' {
		r.i++
		return nil, nil
	}
	for {
		if len(checks) == MaxBatch {
			return nil, apierr.Invalid("checks", "more than %d checks; send at most %d in one call", MaxBatch, MaxBatch)
		}
		checks = append(checks, check{})
		path := "checks[" + strconv.Itoa(len(checks)-1) + "]"
		if f := r.check(path, &checks[len(checks)-1]); f != nil {
			return nil, f
		}
		switch r.peek() {
		case ',':
			r.i++
		case ']':
			r.i++
			return checks, nil
		default:
			return nil, r.expected("a comma or ] after a check")
		}
	}
}

var checkFields = []string{"namespace", "limit", "key", "cost", "max_wait", "method", "path"}

func (r *reader) check(path string, c *check) error {
	return r.object(path, checkFields, func(field int) (f error) {
		name := apierr.Join(path, checkFields[field])
		switch field {
		case 0:
			c.key.Namespace, f = r.str(name)
		case 1:
			c.key.LimitName.Limit, f = r.str(name)
		case 2:
			c.key.Key, f = r.str(name)
		case 3:
			c.cost, c.costs, f = r.cost(name)
		case 4:
			c.wait, c.waits, f = r.seconds(name)
		case 5:
			c.method, f = r.str(name)
		case 6:
			c.path, f = r.str(name)
		}
		return f
	})
}

// cost reads a whole number, or null for absent. Its range is checked later.
func (r *reader) cost(field string) (n int64, given bool, f error) {
	if r.null() {
		return 0, false, nil
	}
	n, f = r.whole(field, 64, "from 0 to "+strconv.FormatInt(quota.MaxTokens, 10))
	return n, f == nil, f
}

// null takes a null, if it comes next.
func (r *reader) null() bool {
	r.peek()
	if string(r.token()) != "null" {
		return false
	}
	r.i += len("null")
	return true
}

// whole reads a whole number of that many bits.
func (r *reader) whole(field string, bits int, what string) (int64, error) {
	r.peek()
	raw := r.token()
	n, err := strconv.ParseInt(string(raw), 10, bits)
	if err != nil || raw[0] == '+' || !json.Valid(raw) {
		return 0, apierr.Invalid(field, "is %s; must be a whole number %s", r.describe(), what)
	}
	r.i += len(raw)
	return n, nil
}

// number reads a number that a float64 can hold.
func (r *reader) number(field, what string) (float64, error) {
	r.peek()
	raw := r.token()
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !json.Valid(raw) {
		return 0, apierr.Invalid(field, "is %s; must be %s", r.describe(), what)
	}
	r.i += len(raw)
	return f, nil
}

// seconds reads a duration, or null for absent.
func (r *reader) seconds(field string) (d time.Duration, given bool, f error) {
	return r.secondsTo(field, quota.MaxPause)
}

func (r *reader) secondsTo(field string, most time.Duration) (d time.Duration, given bool, f error) {
	if r.null() {
		return 0, false, nil
	}
	start := r.i
	n, f := r.number(field, "a number of seconds, such as 0.5")
	if f != nil {
		return 0, false, f
	}
	if n < 0 || n > most.Seconds() {
		return 0, false, apierr.Invalid(field, "is %s; must be 0 to %.0f seconds", apierr.Clip(string(bytes.TrimSpace(r.b[start:r.i]))), most.Seconds())
	}
	return time.Duration(math.Round(n * float64(time.Second))), true, nil
}
