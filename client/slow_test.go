package client

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/quota"
)

// TestFullNodes checks that the client skips a node that has as many clients as allowed. While all
// nodes are full, the process decides alone, retries, and reports the reason.
func TestFullNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a", "b"}, bucketLimit("soft", "10/s", 10, quota.Soft), bucketLimit("hard", "10/s", 10, quota.Hard))
		full := func(name string, is bool) {
			n := cl.node(name)
			n.mu.Lock()
			n.full = is
			n.mu.Unlock()
		}
		full("a", true)
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		if s := c.Stats(); s.Node != "b" || s.LastError != "" {
			t.Errorf("attached to %q (%s); want b", s.Node, s.LastError)
		}
		for _, l := range []string{"soft", "hard"} {
			c.Allow(t.Context(), "web", l, "k", 1)
		}
		time.Sleep(50 * time.Millisecond)
		full("b", true)
		cl.node("b").set(false)
		before := c.Stats().Attempts
		time.Sleep(20 * time.Second)
		s := c.Stats()
		if tries := s.Attempts - before; s.Attached || tries < 4 || tries > 40 {
			t.Errorf("%d attempts in 20 s, attached: %v; want some, with pauses", tries, s.Attached)
		}
		if want := attach.ErrFull.Error(); !strings.Contains(s.LastError, want) {
			t.Errorf("the last error is %q; want %q", s.LastError, want)
		}
		for l, want := range map[string]Why{"soft": WhyLocal, "hard": WhyCutOff} {
			if res, err := c.Allow(t.Context(), "web", l, "k", 1); err != nil || res.Why != want || res.Allowed != (l == "soft") {
				t.Errorf("%s: %+v %v; want %s", l, res, err, want)
			}
		}
		full("a", false)
		time.Sleep(2*lastPause + time.Second)
		if s := c.Stats(); s.Node != "a" || s.LastError != "" {
			t.Errorf("there is room: attached to %q (%s)", s.Node, s.LastError)
		}
	})
}

// TestSlowNode checks that, while its node is late, a process guesses at most its share among all
// processes that may do the same, and that a process that is alone continues.
func TestSlowNode(t *testing.T) {
	for _, c := range []struct {
		peers       uint64
		least, most int
	}{{200, 1, 1}, {10, 12, 15}, {1, 50, 50}, {0, 50, 50}} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t, []string{"a"}, bucketLimit("l", "1/h", 300, quota.Soft))
			cl.node("a").peers = c.peers
			c2 := attachTo(t, cl)
			defer c2.Close()
			ready(t, c2)
			n := cl.node("a")
			n.mu.Lock()
			n.deaf = true
			n.mu.Unlock()
			passed := 0
			for range 50 {
				res, err := c2.Allow(t.Context(), "web", "l", "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				if res.Allowed {
					passed++
				} else if res.Why != WhyNotHeld || res.RetryAfter <= 0 {
					t.Errorf("%d clients: refused as %s, to come back after %v", c.peers, res.Why, res.RetryAfter)
				}
			}
			if passed < c.least || passed > c.most {
				t.Errorf("%d clients: %d of 300 tokens passed before the node said anything; want %d to %d", c.peers, passed, c.least, c.most)
			}
		})
	}
}
