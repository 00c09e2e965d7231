package dataplane

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestGathering checks that the first key leaves at once, that those of the next millisecond leave
// together, and that no key waits while a caller does.
func TestGathering(t *testing.T) {
	const start = quota.Time(time.Hour)
	var g gathering
	for i, at := range []struct {
		after  time.Duration
		waited bool
		left   time.Duration
	}{
		{0, false, 0},
		{gather / 4, false, gather * 3 / 4},
		{gather - 1, false, 1},
		{gather, false, 0},
		{gather + 5, false, gather - 5},
		{gather + 6, true, 0},
		{gather + 7, false, gather - 1},
		{gather + 8, true, 0},
		{time.Minute, false, 0},
	} {
		if left := g.left(start.Add(at.after), at.waited); left != at.left {
			t.Errorf("%d: %v left, want %v", i, left, at.left)
		}
	}
}

// TestStopIsBounded checks that Stop does not wait for a member loop that is busy and whose inbox is full.
func TestStopIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := far(t, time.Millisecond) // no member loop runs
		defer d.Close()
		for range inboxSize {
			d.tryMemberLoop(func(quota.Time) {})
		}
		began := time.Now()
		if d.Stop(t.Context()); time.Since(began) != stopLimit {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}
