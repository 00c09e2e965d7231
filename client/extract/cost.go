package extract

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxCost is the largest cost of a request.
const MaxCost = 1_000_000_000

// Cost returns the cost of a request in tokens, 1 to [MaxCost]. An error rejects the request as
// invalid; it may be shown to the caller.
type Cost func(Request) (int64, error)

// CostError reports an invalid cost of a request.
type CostError struct{ Detail string }

// Error implements error.
func (e *CostError) Error() string { return e.Detail }

// Tokens returns a constant cost.
func Tokens(n int64) Cost {
	if n < 1 || n > MaxCost {
		panic(fmt.Sprintf("extract: Tokens: %d; must be 1 to %d", n, int64(MaxCost))) // invariant: the program's own text
	}
	return func(Request) (int64, error) { return n, nil }
}

// HeaderCost returns the number in a header field, or in gRPC metadata; 1 if it is missing. The
// caller chooses its own cost, so only the maximum protects the limit: invalid numbers, and those
// below 1 or above most, are errors.
func HeaderCost(name string, most int64) Cost {
	if most < 1 || most > MaxCost {
		panic(fmt.Sprintf("extract: HeaderCost: at most %d; must be 1 to %d", most, int64(MaxCost))) // invariant: the program's own text
	}
	field := fieldOf(name)
	bad := &CostError{fmt.Sprintf("header %s must be a number from 1 to %d", field.http, most)}
	return func(r Request) (int64, error) {
		v := r.values(field)
		if len(v) == 0 {
			return 1, nil
		}
		if cost, err := strconv.ParseUint(strings.TrimSpace(v[0]), 10, 63); err == nil && cost >= 1 && cost <= uint64(most) && len(v) == 1 {
			return int64(cost), nil
		}
		return 0, bad
	}
}

// ContentLength returns one token for every started unit of bytes of the body, at least 1. It reads
// nothing: a body of unknown length costs unknown, which should be the cost of the longest one.
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

// contentLength returns the length of the body, or the size of a call's message.
func contentLength(r Request) (int64, bool) {
	if r.HTTP != nil {
		return r.HTTP.ContentLength, r.HTTP.ContentLength >= 0
	}
	if r.Call == nil {
		return 0, false
	}
	return messageSize(r.Call.Message)
}

// Of returns the cost of a request; 1 for a nil Cost.
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
