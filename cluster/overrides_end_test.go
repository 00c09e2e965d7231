package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestOverridesEndInTime: each override ends at its own moment, not with the next look at all.
func TestOverridesEndInTime(t *testing.T) {
	c := newTrio(t, 2)
	c.apply(limit("ends", 5, quota.Soft))
	n := c.any()
	const most = 600 * time.Millisecond // a look a second would be 700 ms late for the first or more
	late := time.Hour
	for range 4 { // a busy machine may be late itself
		ends := map[quota.Key]time.Time{}
		var set []quota.Override
		began := time.Now()
		for i := range 8 {
			k := key("test", "ends", fmt.Sprint("k", i))
			ends[k] = began.Add(time.Second + time.Duration(i)*100*time.Millisecond)
			set = append(set, quota.Override{Key: k, Class: quota.Unlimited, Burst: -1, Expires: quota.Time(ends[k].UnixNano())})
		}
		if err := n.SetOverrides(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		worst := time.Duration(0)
		for len(ends) > 0 {
			for k, at := range ends {
				if n.Override(k) == nil {
					worst = max(worst, time.Since(at))
					delete(ends, k)
				}
			}
			time.Sleep(time.Millisecond) // how often it looks: the moments of the ends are measured
		}
		if late = min(late, worst); late < most {
			return
		}
	}
	t.Errorf("overrides end up to %v late", late)
}
