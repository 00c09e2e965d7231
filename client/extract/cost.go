package extract

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// MaxCost is the most that one request may cost.
const MaxCost = 1_000_000_000

// Cost says what a request costs, in tokens: 1 to [MaxCost]. An error refuses
// the request as faulty; it may be shown to the caller.
type Cost func(Request) (int64, error)

// CostError says what is wrong with the cost of a request.
type CostError struct{ Detail string }

// Error implements error.
func (e *CostError) Error() string { return e.Detail }

// Tokens is the same cost for all.
func Tokens(n int64) Cost {
	if n < 1 || n > MaxCost {
		panic(fmt.Sprintf("extract: Tokens: %d; must be 1 to %d", n, int64(MaxCost))) // invariant: the program's own text
	}
	return func(Request) (int64, error) { return n, nil }
}

// HeaderCost is the number in a header field, or in gRPC metadata; 1 without
// one. The caller says what it costs, so only the limit's upper end protects: a
// number that is none, below 1 or above most is an error.
func HeaderCost(name string, most int64) Cost {
	if most < 1 || most > MaxCost {
		panic(fmt.Sprintf("extract: HeaderCost: at most %d; must be 1 to %d", most, int64(MaxCost))) // invariant: the program's own text
	}
	field, lower := http.CanonicalHeaderKey(name), strings.ToLower(name)
	bad := &CostError{fmt.Sprintf("header %s must be a number from 1 to %d", field, most)}
	return func(r Request) (int64, error) {
		n := field
		if r.HTTP == nil {
			n = lower
		}
		v := r.values(n)
		if len(v) == 0 {
			return 1, nil
		}
		if cost, err := strconv.ParseUint(strings.TrimSpace(v[0]), 10, 63); err == nil && cost >= 1 && cost <= uint64(most) && len(v) == 1 {
			return int64(cost), nil
		}
		return 0, bad
	}
}

// ContentLength is a token for every unit bytes of the body, begun units
// included, and at least 1. Nothing is read: a body of unknown length costs
// unknown, which should be what the longest one would.
func ContentLength(unit, unknown int64) Cost {
	if unit < 1 || unknown < 1 || unknown > MaxCost {
		panic(fmt.Sprintf("extract: ContentLength: unit %d, unknown %d; must be 1 or more, and at most %d", unit, unknown, int64(MaxCost))) // invariant: the program's own text
	}
	return func(r Request) (int64, error) {
		size, ok := contentLength(r)
		if !ok {
			return unknown, nil
		}
		cost := size / unit
		if size%unit > 0 {
			cost++
		}
		return min(max(cost, 1), MaxCost), nil
	}
}

// contentLength of a call is the size of its message, if it tells it.
func contentLength(r Request) (int64, bool) {
	if r.HTTP != nil {
		return r.HTTP.ContentLength, r.HTTP.ContentLength >= 0
	}
	if r.Call == nil {
		return 0, false
	}
	return messageSize(r.Call.Message)
}

// Of returns the cost of a request: 1 without a Cost.
func (c Cost) Of(r Request) (int64, error) {
	if c == nil {
		return 1, nil
	}
	n, err := c(r)
	if err == nil && (n < 1 || n > MaxCost) {
		err = &CostError{fmt.Sprintf("the cost is %d; must be 1 to %d", n, int64(MaxCost))}
	}
	return n, err
}
