package cluster

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestDecideLeader: one login, whichever node is asked, however many at once; it
// is told where it was decided, and the policy decides when nobody can be asked.
func TestDecideLeader(t *testing.T) {
	c := newTrio(t, 4)
	soft, closed, hard := limit("soft", 3, quota.Soft), limit("closed", 3, quota.Soft), limit("hard", 3, quota.Hard)
	for _, l := range []*quota.Limit{&soft, &closed, &hard} {
		l.Decide = quota.AtLeader
	}
	closed.CutOff.Policy = quota.CutOffClosed
	c.apply(soft, closed, hard)
	for _, l := range []quota.Limit{soft, hard} {
		for i := range 4 {
			k := quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)}
			var passed atomic.Int64
			var wg sync.WaitGroup
			for _, n := range c.running() {
				for range 4 {
					wg.Go(func() {
						d := n.Check(k, 1)
						if d.Allowed {
							passed.Add(1)
						}
						if d.Why != quota.WhyLeader && d.Why != quota.WhyOverLimit {
							t.Errorf("%v on %s: %v", k, n.cfg.Self, d.Why)
						}
					})
				}
			}
			wg.Wait()
			if passed.Load() != 3 {
				t.Errorf("%v: %d of 12 passed, want 3", k, passed.Load())
			}
		}
	}

	// A call that another limit refuses gives back what the leader admitted.
	n := c.running()[1]
	k := key("test", "soft", "back")
	out := make([]quota.Decision, 2)
	if n.Decide([]quota.Request{{Key: k, Cost: 3}, {Key: key("test", "nothing", "k"), Cost: 1}}, out) {
		t.Fatal("a call with an unknown limit passed")
	}
	c.awaitRemaining(k, 3)

	// Nobody can be asked: two of three are gone, and so is every leader.
	use(t, n, key("test", "soft", "alone"), 1)
	for _, o := range c.running() {
		if o != n {
			c.kill(o.cfg.Self)
		}
	}
	for name, want := range map[string]quota.Why{"soft": quota.WhyLocal, "closed": quota.WhyCutOff, "hard": quota.WhyCutOff} {
		c.eventually(10*time.Second, name+" is decided alone", func() error {
			if d := n.Check(key("test", name, "alone"), 1); d.Why != want {
				return errWhy(d.Why)
			}
			return nil
		})
	}
}

type errWhy quota.Why

func (e errWhy) Error() string { return "decided: " + quota.Why(e).String() }

// TestWaitForTokensToCome: callers on all nodes are given times one after
// another, each of its own.
func TestWaitForTokensToCome(t *testing.T) {
	c := newTrio(t, 2)
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "waits"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 2,
		MaxWait: time.Minute, MaxDebt: 2 * time.Minute,
	}
	c.apply(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	n := c.running()[0]
	if d := n.Check(k, 20); !d.Allowed || d.Wait != 0 { // 18 seconds of debt
		t.Fatalf("the first: %+v", d)
	}
	c.awaitRemaining(k, 0)
	last := time.Duration(0)
	for i := range 6 {
		d := c.running()[i%3].Check(k, 3) // more than the burst: nobody passes it on its own
		if !d.Allowed || d.Why != quota.WhyReserved || d.Wait < last+time.Second || d.Wait > last+30*time.Second {
			t.Errorf("caller %d: %+v; the one before waits %v", i, d, last)
		}
		last = d.Wait
	}
	out := make([]quota.Decision, 1)
	if n.Decide([]quota.Request{{Key: k, Cost: 3, MaxWait: time.Second}}, out) || out[0].Why != quota.WhyWaitTooLong {
		t.Errorf("who waits a second at most: %+v", out[0])
	}
}
