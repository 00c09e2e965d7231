package main

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestTierWords: people are told of every kind how it counts: no two are said in the same words.
func TestTierWords(t *testing.T) {
	words, texts := map[string]quota.Kind{}, map[string]quota.Kind{}
	for _, k := range quota.Kinds() {
		tier := quota.Window(k, 10, time.Minute)
		if k == quota.CalendarWindow {
			tier = quota.Per(10, quota.Calendar{Unit: quota.Minute})
		}
		for text, all := range map[string]map[string]quota.Kind{"explain: " + tierWords(&tier): words, "replay: " + tierText(&tier): texts} {
			if other, ok := all[text]; ok && k != quota.Concurrency {
				t.Errorf("%v and %v are both said as %q", other, k, text)
			}
			all[text] = k
		}
	}
}
