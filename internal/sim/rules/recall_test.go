package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRecall checks that tokens held by an idle member move to the member whose callers want them,
// while those callers wait.
func TestRecall(t *testing.T) {
	for name, tier := range map[string]quota.Tier{
		"bucket": perHour(100),
		"window": quota.Window(quota.FixedWindow, 100, 24*time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			g := newOneRange(t, 3, ruleOf("l", tier, hard))
			k := key("l", "k")
			if n := g.drain(0, k, 10); n != 10 {
				t.Fatalf("%d of 10 passed", n)
			}
			g.pass(400 * time.Millisecond) // a pause, but the key stays open
			if n := g.drain(1, k, 60); n != 60 {
				t.Errorf("%d of 60 passed at the second member", n)
			}
			g.pass(400 * time.Millisecond) // right after its burst the second member keeps what the next one may need
			if n := g.drain(2, k, 100); n != 30 {
				t.Errorf("%d of 30 passed at the third", n)
			}
			if d := g.take(0, k, 1); d.Allowed {
				t.Error("101 passed")
			}
		})
	}
}
