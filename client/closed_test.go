package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/quorate/quorate/internal/quota"
)

// TestFailClosed checks that with WithFailClosed nothing passes without a decision: before a node
// has sent its limits, for an unknown limit, for invalid names, and after Close. A matching default
// still applies.
func TestFailClosed(t *testing.T) {
	for _, closed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			opts := []Option{WithDefaults(Default{Namespace: "own", Rate: "1/s", Burst: 1})}
			if closed {
				opts = append(opts, WithFailClosed())
			}
			nodes := newCluster(t, []string{"n1"}, bucketLimit("known", "10/s", 10, quota.Soft))
			nodes.node("n1").set(false)
			c := attachTo(t, nodes, opts...)
			passes := func(what, namespace, limit, key string, want bool) {
				t.Helper()
				if got := c.Bucket(namespace, limit, key).Allow(); got != want {
					t.Errorf("closed %v, %s: %v", closed, what, got)
				}
			}
			passes("before a node answers", "web", "known", "k", !closed)
			passes("names that cannot be", "web", "no such name", "k", !closed)
			passes("a default", "own", "any", "k", true)
			if c.Bucket("own", "any", "k").AllowN(-5) == closed || c.Buckets("own", "any").AllowN("k", -5) == closed {
				t.Errorf("closed %v: a negative cost passes: %v", closed, closed)
			}
			passes("a default that is used up, after negative costs", "own", "any", "k", false)
			res, err := c.Allow(t.Context(), "web", "known", "k", 1)
			if err != nil || res.Allowed == closed {
				t.Errorf("closed %v, Allow before a node answers: %+v, %v", closed, res, err)
			}
			if closed && (res.Why != WhyCutOff || res.Mode != ModeFallback || res.RetryAfter <= 0) {
				t.Errorf("refused as %+v; want cut_off, in mode fallback, again in a while", res)
			}
			nodes.node("n1").set(true)
			<-c.Ready()
			passes("a limit that is known", "web", "known", "k", true)
			passes("a limit that does not exist", "web", "knwon", "k", !closed)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			passes("after Close", "web", "known", "k", !closed)
		})
	}
}

// TestEndedContext checks that a check whose context has ended charges nothing and reports the
// reason.
func TestEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := newCluster(t, []string{"n1"}, bucketLimit("known", "1/h", 1, quota.Soft))
		c := attachTo(t, nodes)
		defer c.Close()
		<-c.Ready()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Allow(over, "web", "known", "k", 1)
		_, batch := c.AllowBatch(over, []Check{{Namespace: "web", Limit: "known", Key: "k"}})
		_, all := c.AllowAll(over, []Check{{Namespace: "web", Limit: "known", Key: "k"}})
		for what, err := range map[string]error{"Allow": err, "AllowBatch": batch, "AllowAll": all} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v; want %v", what, err, context.Canceled)
			}
		}
		if res, err := c.Allow(t.Context(), "web", "known", "k", 1); err != nil || !res.Allowed {
			t.Errorf("the only token was taken: %+v, %v", res, err)
		}
	})
}
