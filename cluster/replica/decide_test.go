package replica

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestDecideAnswersAtOnce checks that decide requests which need nothing in the log do not wait for one that does, and
// that this one is answered once the log has accepted it.
func TestDecideAnswersAtOnce(t *testing.T) {
	s, n := newSet(t, 1)
	soft, hard := limit("s", 10, quota.Soft), limit("h", 10, quota.Hard)
	soft.Decide, hard.Decide = quota.AtLeader, quota.AtLeader
	n.setLimits(t, soft, hard)
	accept := make(chan struct{})
	n.gate = func([]byte) { <-accept }
	s.Start()
	r := s.Of(0)
	r.Lead(1)
	var asks []quota.Ask
	for _, l := range []quota.LimitName{hard.LimitName, soft.LimitName, hard.LimitName, soft.LimitName} {
		asks = append(asks, quota.Ask{From: "a", Incarnation: 1, Key: quota.Key{LimitName: l, Key: "k"}, Cost: quota.Token})
	}
	answered := make(chan int, len(asks))
	done := make(chan bool)
	go func() {
		done <- r.Decide(asks, func(i int, a quota.Answer) {
			if !a.Allowed || a.Unsaved {
				t.Errorf("request %d: %+v", i, a)
			}
			answered <- i
		})
	}()
	next := func() int {
		select {
		case i := <-answered:
			return i
		case <-time.After(time.Minute):
			t.Error("no answer")
			return -1
		}
	}
	if a, b := next(), next(); a != 1 || b != 3 {
		t.Errorf("before the log accepts an entry, requests %d and %d are answered; want 1 and 3", a, b)
	}
	close(accept)
	if a, b := next(), next(); a != 0 || b != 2 {
		t.Errorf("then, requests %d and %d are answered; want 0 and 2", a, b)
	}
	if !<-done {
		t.Error("the leader says that it does not lead")
	}
	r.Follow()
	if r.Decide(asks, func(i int, a quota.Answer) { t.Errorf("request %d is answered without leading: %+v", i, a) }) {
		t.Error("a replica that does not lead says that it does")
	}
}
