package systemtest

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestReload checks that repeated limit changes under load fail no request and refill no bucket.
func TestReload(t *testing.T) {
	testspeed.Full(t)
	const changes, most, least = 10, 600, 300 // tokens; tokens per second
	file := func(n int, ceiling string) string {
		return fmt.Sprintf("version: 1\nnamespaces:\n  api:\n    limits:\n      soft: {rate: %d/s, burst: %d}\n      hard: {rate: %d/s, burst: %d, ceiling: %s}\n", n, n, n, n, ceiling)
	}
	c := newServers(t, 16)
	c.run(file(most, "hard"))
	keys := c.keysLedBy("n1", "api/soft", "api/hard")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	l := startLoad(ctx, t, c.nodes, 500, keys...)
	time.Sleep(time.Second) // load before the first change
	for i := range changes {
		c.apply(file(least+(most-least)*(i%2), "hard"))
		time.Sleep(250 * time.Millisecond) // load between the changes
	}
	cancel()
	l.wait()
	for _, k := range keys {
		got := l.keys[k]
		envelope := got.envelope(most, most)
		lowest := float64(least) * got.last.Sub(got.first).Seconds()
		t.Logf("%s: admitted %d of %d; %d changes; the largest limit's envelope is %.0f, the smallest limit yields %.0f; %v",
			k.Limit, got.admitted, got.admitted+got.refused, changes, envelope, lowest, got.why)
		if float64(got.admitted) > envelope*1.03 || k.Limit == "hard" && float64(got.admitted) > envelope {
			t.Errorf("%s: admitted %d, more than %.0f", k.Limit, got.admitted, envelope)
		}
		if k.Limit == "hard" && got.why["cut_off"] > 0 { // a busy machine had no leader for long
			lowest /= 2
		}
		if float64(got.admitted) < 0.9*lowest {
			t.Errorf("%s: admitted %d, far less than %.0f", k.Limit, got.admitted, lowest)
		}
	}
	for _, s := range c.nodes {
		if n := l.nodes[s.grpc]; n.errors > 0 || n.answers == 0 {
			t.Errorf("%s: %v, the last: %v", s.id, n, n.lastErr)
		}
		if st := c.awaitReady(s, time.Second); st.Version != changes+1 {
			t.Errorf("%s has version %d; want %d", s.id, st.Version, changes+1)
		}
	}
	t.Run("bad file", func(t *testing.T) {
		path := filepath.Join(c.dir, "bad.yaml")
		write(t, path, "version: 1\nnamespaces:\n  api:\n    limits:\n      soft: {rate: 10/s, burts: 10}\n")
		out, msg, code := quorate(t, "limits", "apply", path, "--addr", c.addrs())
		if code != 2 || out != "" {
			t.Errorf("exit code %d, output %q; want 2 and none", code, out)
		}
		if ok, _ := regexp.MatchString(`bad\.yaml:5:\d+: .*burts.*burst`, msg); !ok {
			t.Errorf("the message does not say where and what would be right: %s", msg)
		}
		for _, s := range c.nodes {
			if st := c.awaitReady(s, time.Second); st.Version != changes+1 {
				t.Errorf("%s has version %d; want %d", s.id, st.Version, changes+1)
			}
			eventually(t, 3*time.Second, s.id+" still decides", func() error {
				if d := allow(t, s.httpAddr, keys[0]); !d.Allowed {
					return fmt.Errorf("%+v", d)
				}
				return nil
			})
		}
	})
}
