package replica

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestLimitsChangeWhileLeading checks that limits committed while a ledger is being made reach the ledger.
func TestLimitsChangeWhileLeading(t *testing.T) {
	s, n := newSet(t, 1)
	r := s.Of(0)
	r.Machine.levels.mu.Lock() // blocks the ledger from being made from the levels
	led := make(chan struct{})
	go func() {
		r.Lead(2)
		close(led)
	}()
	time.Sleep(50 * time.Millisecond) // lets Lead reach the lock, which cannot be observed
	l := limit("a", 10, quota.Soft)
	n.setLimits(t, l)
	r.Machine.levels.mu.Unlock()
	<-led
	if !r.opens(2, 1, quota.Key{LimitName: l.LimitName, Key: "k"}) {
		t.Error("the ledger does not know the limit")
	}
}

// TestCheckpointWithoutGroup checks that groups may be closed during a checkpoint, and that a checkpoint
// is made again if the log did not accept it.
func TestCheckpointWithoutGroup(t *testing.T) {
	s, n := newSet(t, 1)
	n.closed = true
	r := s.Of(0)
	l := limit("a", 10, quota.Soft)
	n.setLimits(t, l)
	r.Lead(2)
	if !r.opens(2, 1, quota.Key{LimitName: l.LimitName, Key: "k"}) {
		t.Fatal("no answer")
	}
	for range 2 {
		r.checkpoint(t.Context(), true)
		_, cp, _ := r.moved(true)
		if levels, err := DecodeCheckpoint(cp); err != nil || len(levels) != 1 || levels[0].Key.Key != "k" {
			t.Errorf("after a checkpoint that failed, the next is %v, %v", levels, err)
		}
	}
	r.Follow()
	r.Lead(3)
	if _, cp, _ := r.moved(true); cp != nil {
		t.Errorf("a new ledger writes what an old one knew: %v", cp)
	}
}
