package top

import (
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestNeedlessIsARange checks that needless refusals are shown as a range if the bounds differ.
func TestNeedlessIsARange(t *testing.T) {
	for want, l := range map[string]*quoratev1.LimitError{
		"0-2703": {Attempted: 9000, Admitted: 5000, NeedlessRefusalsAtMost: 2703},
		"7":      {Attempted: 9000, Admitted: 5000, NeedlessRefusals: 7, NeedlessRefusalsAtMost: 7},
	} {
		if got := limitRow("web/a", l, nil, time.Second).cells; !strings.Contains(" "+strings.Join(got, " ")+" ", " "+want+" ") || limitColumns[needlessColumn].title != "NEEDLESS" {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}
