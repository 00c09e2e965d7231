package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestOverridesEndInTime checks that each override ends at its own time, most of them within a tenth of a
// second and all within a second.
func TestOverridesEndInTime(t *testing.T) {
	c := newThreeNodes(t, 2)
	c.apply(limit("ends", 5, quota.Soft))
	n := c.any()
	var late []time.Duration
	for range 4 { // a busy machine may be late itself
		ends := map[quota.Key]time.Time{}
		var set []quota.Override
		began := time.Now()
		for i := range 9 {
			k := key("test", "ends", fmt.Sprint("k", i))
			ends[k] = began.Add(time.Second + time.Duration(i)*100*time.Millisecond)
			set = append(set, quota.Override{Key: k, Class: quota.Unlimited, Burst: -1, Expires: quota.Time(ends[k].UnixNano())})
		}
		if err := n.SetOverrides(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		late = nil
		for len(ends) > 0 {
			for k, at := range ends {
				if n.Override(k) == nil {
					late = append(late, time.Since(at))
					delete(ends, k)
				}
			}
			time.Sleep(time.Millisecond) // the polling interval, which limits the precision
		}
		if slices.Sort(late); late[len(late)/2] < 100*time.Millisecond && late[len(late)-1] < time.Second {
			return
		}
	}
	t.Errorf("overrides end late, by %v", late)
}

// TestOverridesEndByTheClusterClock checks that overrides expire by the clock on which the nodes agree,
// whatever the clock of the meta leader's machine says.
func TestOverridesEndByTheClusterClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} { // of the cluster's clock, relative to the machine's
		t.Run(ahead.String(), func(t *testing.T) {
			c := newThreeNodes(t, 1, func(cfg *Config) { cfg.wall = func() time.Time { return time.Now().Add(ahead) } })
			c.apply(limit("ends", 5, quota.Soft))
			n := c.any()
			soon, later := key("test", "ends", "soon"), key("test", "ends", "later")
			for k, in := range map[quota.Key]time.Duration{later: 30 * time.Minute, soon: 300 * time.Millisecond} {
				o := quota.Override{Key: k, Class: quota.Unlimited, Burst: -1, Expires: n.clock.Now().Add(in)}
				if err := n.SetOverrides(t.Context(), []quota.Override{o}); err != nil {
					t.Fatal(err)
				}
			}
			c.eventually(patience, "one has expired", func() error {
				if n.Override(soon) != nil {
					return errors.New("it is there")
				}
				return nil
			})
			if n.Override(later) == nil {
				t.Error("an override was deleted half an hour early")
			}
		})
	}
}
