package systemtest

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

const deathLimits = `
version: 1
namespaces:
  api:
    limits:
      places: {in_flight: 6, lease: 2s, ceiling: hard}
      few:    {rate: 1/h, burst: 6, ceiling: hard}
      window: {limit: 300, per: 7d, ceiling: hard}
      long:   {limit: 100000, per: 7d}
`

// TestDeathOfHolder kills the node that holds in-flight places and reservations, of keys that it
// leads and of keys that another node leads, and checks that the places come back.
func TestDeathOfHolder(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	const lease = 2 * time.Second
	c := newServers(t, 8)
	c.run(deathLimits)
	victim, others := c.nodes[0], c.nodes[1:]
	keys := append(c.keysLedBy("n1", "api/places"), c.keysLedBy("n2", "api/places")...)
	few := c.keysLedBy("n2", "api/few")[0]
	kept, lost := []string{}, []string{} // handles of other nodes; of the victim
	for _, k := range keys {
		for i := range 6 { // the victim takes 4 of 6
			s := c.nodes[map[bool]int{true: 0, false: 1}[i < 4]]
			eventuallyEvery(t, 100*time.Millisecond, 3*time.Second, fmt.Sprintf("%s acquires place %d of %v", s.id, i, k), func() error {
				a := post(t, s, "/v1/acquire", in(k))
				if !a.Allowed {
					return fmt.Errorf("%s", a.body)
				}
				if s == victim {
					lost = append(lost, a.Handle)
				} else {
					kept = append(kept, a.Handle)
				}
				for _, h := range append(kept, lost...) {
					post(t, s, "/v1/renew", fields{"handle": h, "ttl": 60})
				}
				return nil
			})
		}
	}
	var r answer
	eventually(t, 3*time.Second, "the victim reserves 4", func() error { // the victim may hold less for a moment
		if r = post(t, victim, "/v1/reserve", fields{"checks": []fields{in(few, "cost", 4)}, "ttl": 3600}); !r.Allowed {
			return fmt.Errorf("%s", r.body)
		}
		return nil
	})
	time.Sleep(200 * time.Millisecond) // time for a report and its answer
	victim.kill()
	killed := time.Now()

	free := make([]time.Duration, len(keys)) // when the places of the victim become free
	got := make([]int, len(keys))
	eventually(t, lease+6*time.Second, "others have the victim's places", func() error {
		for i, k := range keys {
			for _, s := range others {
				if a := post(t, s, "/v1/acquire", in(k, "ttl", 60)); a.Allowed {
					if got[i]++; got[i] == 1 {
						free[i] = time.Since(killed)
					}
				}
			}
		}
		if got[0] < 4 || got[1] < 4 {
			return fmt.Errorf("acquired %v; want 4 each", got)
		}
		return nil
	})
	t.Logf("free %v after the kill, all after %v (lease %v)", free, time.Since(killed).Round(10*time.Millisecond), lease)
	for i, k := range keys {
		for _, s := range others {
			if a := post(t, s, "/v1/acquire", in(k)); a.Allowed || got[i] != 4 {
				t.Errorf("%s: %v: %d beside 2 that others hold, and %+v", s.id, k, got[i], a)
			}
		}
	}
	for path, handle := range map[string]string{"/v1/settle": r.Handle, "/v1/renew": r.Handle, "/v1/release": lost[0]} {
		for _, s := range others {
			if a, err := try(s, http.MethodPost, path, fields{"handle": handle}); err != nil || a.code != 404 {
				t.Errorf("%s %s: %d %s, %v", s.id, path, a.code, a.body, err)
			}
		}
	}
	if n := drain(t, others, few); n > 2 {
		t.Errorf("4 of 6 were reserved by the dead node, then %d were admitted", n)
	}
}

// TestDeathOfWindow kills the leader of a hard window under load, and then all nodes, and checks
// that the count continues where it was. A leader could lose what it admitted itself and had
// reported neither to other nodes nor to its log, so the load goes only to the other nodes in the
// last second.
func TestDeathOfWindow(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	const most, third = 300, 100
	c := newServers(t, 8)
	c.run(deathLimits)
	window, long := c.keysLedBy("n2", "api/window")[0], c.keysLedBy("n2", "api/long")[0]
	victim := c.node("n2")
	others := c.others(victim)
	for i := range third {
		take(t, c.nodes[i%3], window, 1)
	}
	time.Sleep(1200 * time.Millisecond) // at least one checkpoint
	admitted, refused := third, 0
	killed, last := false, time.Now() // last: time of the last admission
	for i := 0; refused < 6; i++ {
		if admitted == 2*third && !killed {
			victim.kill()
			killed = true
		}
		switch a := post(t, others[i%2], "/v1/allow", in(window)); {
		case a.Allowed:
			admitted, refused, last = admitted+1, 0, time.Now()
		case a.Why == "over_limit":
			refused++
			time.Sleep(50 * time.Millisecond) // another node may hold the last tokens for a moment
		case time.Since(last) > 10*time.Second:
			t.Fatalf("admitted %d, and then for 10 s: %+v", admitted, a)
		default: // not_held: no leader for a moment, or the log takes longer than a check waits
			time.Sleep(10 * time.Millisecond)
		}
	}
	t.Logf("hard window of %d: admitted %d, the leader was killed at %d", most, admitted, 2*third)
	if admitted > most || admitted < 2*third {
		t.Errorf("admitted %d of %d", admitted, most)
	}

	c.start(victim)
	c.awaitReady(victim, 15*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	l := startLoad(ctx, t, c.nodes, 100, long)
	l.wait()
	atEnd := l.keys[long].admitted
	for _, s := range c.nodes {
		s.kill()
	}
	for _, s := range c.nodes {
		c.start(s)
	}
	for _, s := range c.nodes {
		c.awaitReady(s, 15*time.Second)
	}
	// What was held counts as spent until the journals report it, within half a second of an
	// election, and the log has committed it.
	eventually(t, 4*time.Second, "what was not used comes back", func() error {
		more := drain(t, c.nodes, window)
		t.Logf("after the end of all processes %d more", more)
		if admitted += more; admitted < most*9/10 {
			return fmt.Errorf("admitted %d of %d in all", admitted, most)
		}
		return nil
	})
	if admitted > most {
		t.Errorf("admitted %d of %d in all", admitted, most)
	}
	// A node that has not heard from the leader yet answers with its own estimate.
	var used, asked int64
	eventually(t, 3*time.Second, "the leader knows how much is left", func() error {
		a := post(t, c.nodes[0], "/v1/allow", in(long))
		if a.Allowed {
			asked++
		}
		used = 100_000 - a.Remaining - asked
		if forgotten := atEnd - used; forgotten > 300*3/2 { // at 300/s; one checkpoint a second, plus its write to disk
			return fmt.Errorf("%d of %d are forgotten, more than of one second and a half: %+v", forgotten, atEnd, a)
		}
		return nil
	})
	t.Logf("of %d that passed before the end of all processes, %d are known after it", atEnd, used)
}
