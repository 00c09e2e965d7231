package limits

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTierWords checks that no two kinds of limits are described in the same words.
func TestTierWords(t *testing.T) {
	words := map[string]quota.Kind{}
	for _, k := range quota.Kinds() {
		tier := quota.Window(k, 10, time.Minute)
		if k == quota.CalendarWindow {
			tier = quota.Per(10, quota.Calendar{Unit: quota.Minute})
		}
		text := tierWords(&tier)
		if other, ok := words[text]; ok && k != quota.Concurrency {
			t.Errorf("%v and %v are both described as %q", other, k, text)
		}
		words[text] = k
	}
}
