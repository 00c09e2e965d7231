package systemtest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

const overrideLimits = `
version: 1
namespaces:
  api:
    limits:
      user: {rate: 10/h, burst: 10}
      busy: {rate: 1000/s, burst: 1000}
`

// TestOverrides sets 20,000 overrides in a busy cluster and checks how soon all nodes apply some of
// them.
func TestOverrides(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	const many, batch = 20_000, 1000
	c := newServers(t, 8)
	c.run(overrideLimits)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l := startLoad(ctx, t, c.nodes, 200, c.keysLedBy("n1", "api/busy")...)
	put := func(s *server, all ...fields) {
		t.Helper()
		if a, err := try(s, http.MethodPut, "/v1/overrides", fields{"overrides": all}); err != nil || a.code != 200 {
			t.Fatalf("%s: %d %s, %v", s.id, a.code, a.body, err)
		}
	}
	began := time.Now()
	for i := 0; i < many; i += batch {
		var all []fields
		for n := i; n < i+batch; n++ {
			all = append(all, in(key("api", "user", fmt.Sprintf("tenant%d", n)), "burst", 100+n))
		}
		put(c.nodes[i/batch%3], all...)
	}
	took := time.Since(began)
	for _, s := range c.nodes {
		for _, n := range []int{0, many / 2, many - 1} {
			k := key("api", "user", fmt.Sprintf("tenant%d", n))
			eventually(t, time.Second, fmt.Sprintf("%s knows the override of %v", s.id, k), func() error {
				if a := post(t, s, "/v1/allow", in(k, "cost", 0)); a.Limit.Burst != int64(100+n) {
					return fmt.Errorf("%+v", a)
				}
				return nil
			})
		}
	}
	t.Logf("%d overrides in %v, known to all %v later", many, took.Round(time.Millisecond), (time.Since(began) - took).Round(time.Millisecond))
	overrideRaise(t, c, put)
	overrideBan(t, c, put)
	cancel()
	l.wait()
	for _, s := range c.nodes {
		n := l.nodes[s.grpc]
		t.Logf("%s: %v", s.id, n)
		if n.errors > 0 || n.answers == 0 {
			t.Errorf("%s: %v, the last: %v", s.id, n, n.lastErr)
		}
	}
}

// overrideRaise checks that an override gives a tenant that has used up its limit more for 1.5
// seconds.
func overrideRaise(t *testing.T, c *servers, put func(*server, ...fields)) {
	t.Helper()
	within := 1500 * time.Millisecond
	k := key("api", "user", "raised")
	drain(t, c.nodes, k)
	var ends time.Time
	raise := func() {
		ends = time.Now().Add(within)
		put(c.nodes[1], in(k, "burst", 40, "rate", "600/m", "expires", ends.UTC().Format(time.RFC3339Nano)))
	}
	raise()
	set := time.Now()
	for _, s := range c.nodes {
		eventually(t, time.Second, s.id+" gives what was raised", func() error {
			if time.Now().After(ends) { // the machine was busy for longer than the override lasted
				within *= 2
				raise()
			}
			if a := post(t, s, "/v1/allow", in(k)); !a.Allowed || a.Limit.Burst != 40 {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	t.Logf("a raise is in force on all nodes after %v", time.Since(set).Round(time.Millisecond))
	var last time.Duration
	for _, s := range c.nodes {
		eventually(t, within+3*time.Second, s.id+" has ended the raise", func() error {
			if a := post(t, s, "/v1/allow", in(k, "cost", 0)); a.Limit.Burst != 10 {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
		last = time.Since(ends)
	}
	t.Logf("and ends on all nodes %v after its time", last.Round(time.Millisecond))
	if last < -50*time.Millisecond {
		t.Errorf("the raise ended %v too early", -last)
	}
}

// overrideBan checks that all nodes refuse a banned key within a second.
func overrideBan(t *testing.T, c *servers, put func(*server, ...fields)) {
	t.Helper()
	k := key("api", "user", "banned")
	for _, s := range c.nodes {
		if a := post(t, s, "/v1/allow", in(k)); !a.Allowed {
			t.Errorf("%s, before the ban: %+v", s.id, a)
		}
	}
	set := time.Now()
	put(c.nodes[2], in(k, "class", "banned"))
	for _, s := range c.nodes {
		eventually(t, time.Second, s.id+" bans", func() error {
			if a := post(t, s, "/v1/allow", in(k)); a.Allowed || a.Why != "banned" {
				return fmt.Errorf("%+v", a)
			}
			return nil
		})
	}
	t.Logf("a ban is in force on all nodes %v after the call began", time.Since(set).Round(time.Millisecond))
}
