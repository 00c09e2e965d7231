package dataplane

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestGathering checks that the first key leaves at once, that those of the next millisecond leave
// together, and that no key waits while a caller does.
func TestGathering(t *testing.T) {
	const start = quota.Time(time.Hour)
	var g gathering
	for i, at := range []struct {
		after time.Duration
		left  time.Duration
	}{
		{0, 0},
		{gather / 4, gather * 3 / 4},
		{gather - 1, 1},
		{gather, 0},
		{gather + 5, gather - 5},
		{time.Minute, 0},
	} {
		if left := g.left(start.Add(at.after)); left != at.left {
			t.Errorf("%d: %v left, want %v", i, left, at.left)
		}
	}
}
