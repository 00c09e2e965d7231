package exit

import (
	"errors"
	"fmt"
	"testing"
)

// TestExitCodes checks that every error has its documented code.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{AnswerNo(), 1},
		{errors.New("any"), 1},
		{Usagef("x"), 2},
		{fmt.Errorf("in: %w", Invalid(errors.New("x"))), 2},
		{With(Unreachable, errors.New("x")), 4},
		{NotFoundf("x"), 5},
		{With(Fault, errors.New("x")), 6},
	} {
		if got := CodeOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
	if Invalid(nil) != nil {
		t.Error("no fault is invalid")
	}
}
