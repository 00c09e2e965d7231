package rules

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestNewEpochAtOnce checks that a key whose counters are nearly full starts a new epoch. Durable
// counts wait for the log to commit, but not for the checkpoint that comes every second.
func TestNewEpochAtOnce(t *testing.T) {
	const second = quota.MaxTokens / 16
	g := newOneRange(t, 1, ruleOf("l", quota.Tier{Rate: quota.Rate{Tokens: second, Per: time.Second}, Burst: second}, hard))
	k, last := key("l", "k"), g.now
	longest := time.Duration(0)
	for end := g.now.Add(30 * time.Second); g.now < end; g.pass(5 * time.Millisecond) {
		if g.take(0, k, second/50).Allowed {
			longest, last = max(longest, g.now.Sub(last)), g.now
		}
	}
	if longest > 200*time.Millisecond {
		t.Errorf("nothing was admitted for %v", longest)
	}
}
