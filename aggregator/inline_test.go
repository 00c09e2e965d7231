package aggregator

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestInline: a limit that arrives with a request has an entry when it is first looked up, and loses it when it is
// not used.
func TestInline(t *testing.T) {
	now := quota.Time(time.Hour)
	clock := func() quota.Time { return now }
	a := New(Config{Self: "n1", Incarnation: 1, Ranges: 1}, now)
	named := func(namespace string, burst int64) quota.LimitName {
		n, err := quota.Inline{Rate: quota.Rate{Tokens: 1, Per: time.Minute}, Burst: burst}.Name(namespace)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	name := func(burst int64) quota.LimitName { return named("guests", burst) }
	for range 2 { // without limits, and with some that do not change it
		d := a.checkNow(clock, name(3), "k", 1)
		if d.Limit == nil || d.Limit.Burst != 3 || d.Why == quota.WhyNoLimit {
			t.Fatalf("%+v", d)
		}
		set, err := quota.NewLimits(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.SetLimits(now, set)
	}
	if d := a.checkNow(clock, quota.LimitName{Namespace: "guests", Limit: "@inline.nonsense"}, "k", 1); d.Why != quota.WhyNoLimit {
		t.Errorf("nonsense: %+v", d)
	}
	before := 0
	for _, namespace := range []string{"guests", "redis", "more"} { // each gets seven eighths of what it finds
		free := maxInline - before
		for i := range int64(maxInline + 10) {
			a.table.inline.slot(named(namespace, i+1))
		}
		n := a.table.inline.slots.Size()
		if got := n - before; got < free/8*7 || got > free/8*7+8 {
			t.Errorf("%s has %d inline limits of %d that were free; want seven eighths", namespace, got, free)
		}
		before = n
	}
	a.Sweep(now)
	a.Sweep(now)
	if n := a.table.inline.room.Held(); n != 1 { // it has a key
		t.Errorf("%d inline limits are left when nobody asks; want 1", n)
	}
}
