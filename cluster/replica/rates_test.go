package replica

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestRuleWithoutRate checks that a limit on requests in flight has no rate in answers, and that 0/0s is no rate.
func TestRuleWithoutRate(t *testing.T) {
	l := limit("a", 3, quota.Soft)
	l.Kind, l.Rate = quota.Concurrency, quota.Rate{}
	if got := limitProto(&l).Rate; got != "" {
		t.Errorf("the rate is %q", got)
	}
}
