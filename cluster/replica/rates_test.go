package replica

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestRuleWithoutRate: of what counts what is in flight no rate is told, and 0/0s is none.
func TestRuleWithoutRate(t *testing.T) {
	l := limit("a", 3, quota.Soft)
	l.Kind, l.Rate = quota.Concurrency, quota.Rate{}
	if got := limitProto(&l).Rate; got != "" {
		t.Errorf("the rate is %q", got)
	}
}
