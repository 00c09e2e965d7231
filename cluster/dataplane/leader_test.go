package dataplane

import (
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestHotKeyLeavesPlaces checks that decide requests about one key leave slots for other keys, and that
// requests that were sent or canceled no longer take a slot.
func TestHotKeyLeavesPlaces(t *testing.T) {
	q := &askQueue{}
	ask := func(key string) (asked []*decideRequest) {
		for {
			p := &decideRequest{ask: quota.Ask{Key: quota.Key{Key: key}}}
			if _, ok := q.add(p); !ok {
				return asked
			}
			asked = append(asked, p)
		}
	}
	for range 2 {
		hot, second := ask("hot"), ask("second")
		if len(hot) != maxQueue/2 || len(second) != maxQueue/4 {
			t.Fatalf("%d requests about one key and %d about another; want %d and %d", len(hot), len(second), maxQueue/2, maxQueue/4)
		}
		for len(q.requests) > len(second) {
			q.next()
		}
		for _, p := range second {
			if !p.sent {
				_ = q.cancel(p)
			}
		}
		if len(q.next()) > 0 || len(q.keys) > 0 {
			t.Fatalf("nobody waits, and %d keys are counted", len(q.keys))
		}
	}
}
