package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// reserve reserves tokens of keys on a node.
func (c *threeNodes) reserve(n *Node, ttl time.Duration, cost int64, keys ...quota.Key) (quota.Reservation, bool) {
	c.t.Helper()
	reqs := make([]quota.Request, len(keys))
	for i, k := range keys {
		reqs[i] = quota.Request{Key: k, Cost: cost, MaxWait: quota.LimitsWait}
	}
	out := make([]quota.Decision, len(keys))
	r, ok, err := n.Reserve("", reqs, ttl, out)
	if err != nil {
		c.t.Fatalf("reserve %v: %v", keys, err)
	}
	return r, ok
}

// TestReserve checks that reserved tokens are gone on every node, that the unused ones come back, and that
// a reservation can be settled on any node, once.
func TestReserve(t *testing.T) {
	c := newThreeNodes(t, 4)
	shadow := limit("shadow", 10, quota.Soft)
	shadow.Enforcement = quota.Shadow
	open := limit("open", 10, quota.Soft)
	open.Enforcement = quota.Off
	c.apply(limit("soft", 20, quota.Soft), limit("hard", 20, quota.Hard), shadow, open)
	own, other := c.running()[0], c.running()[1]
	soft := func(k string) quota.Key { return key("test", "soft", k) }

	for _, tc := range []struct {
		name   string
		limit  string
		at     *Node
		used   int64
		remain int64
	}{
		{"used-less", "soft", own, 3, 17},
		{"used-less-elsewhere", "soft", other, 3, 17},
		{"used-nothing", "hard", other, 0, 20},
		{"used-all", "soft", other, -1, 12},
		{"used-as-much", "hard", own, 8, 12},
		{"used-more", "soft", other, 15, 5},
		{"used-more-than-there-was", "soft", own, 30, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := key("test", tc.limit, tc.name)
			r, ok := c.reserve(own, time.Minute, 8, k)
			if !ok || r.Handle == "" || r.Expires != time.Minute {
				t.Fatalf("reserved %v: %+v", ok, r)
			}
			c.awaitRemaining(k, 12)
			if err := tc.at.Settle(t.Context(), r.Handle, tc.used); err != nil {
				t.Fatal(err)
			}
			c.awaitRemaining(k, tc.remain)
			if err := tc.at.Settle(t.Context(), r.Handle, tc.used); !errors.Is(err, quota.ErrNoReservation) {
				t.Errorf("settled twice: %v", err)
			}
			if err := other.Renew(t.Context(), r.Handle, time.Minute); !errors.Is(err, quota.ErrNoReservation) {
				t.Errorf("renewed when settled: %v", err)
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		for _, handle := range []string{"", "x", ".", "n1.", "n1.zzz", "n2.zzz", "n9.1", "n1.-1", "n1.$"} {
			if err := own.Settle(t.Context(), handle, 1); !errors.Is(err, quota.ErrNoReservation) {
				t.Errorf("%q: %v", handle, err)
			}
		}
	})
	t.Run("all or nothing", func(t *testing.T) {
		use(t, own, key("test", "hard", "empty"), 20)
		if r, ok := c.reserve(own, time.Minute, 5, soft("a"), key("test", "hard", "empty")); ok || r.Handle != "" {
			t.Errorf("reserved %+v although one limit is used up", r)
		}
		r, ok := c.reserve(own, time.Minute, 5, soft("a"), soft("b"))
		if !ok {
			t.Fatal("refused")
		}
		c.awaitRemaining(soft("a"), 15)
		c.awaitRemaining(soft("b"), 15)
		if err := other.Settle(t.Context(), r.Handle, 1); err != nil {
			t.Fatal(err)
		}
		c.awaitRemaining(soft("a"), 19)
		c.awaitRemaining(soft("b"), 19)
	})
	t.Run("expires unless renewed", func(t *testing.T) {
		lease := time.Second
		short, _ := c.reserve(own, lease, 4, soft("short"))
		over := time.After(lease + 100*time.Millisecond)
		var long quota.Reservation
		c.eventually(patience, "one is renewed while it lasts", func() error { // on a busy machine a call takes long
			var ok bool
			if long, ok = c.reserve(own, lease, 4, soft("long")); !ok {
				return errors.New("refused")
			}
			lease *= 2
			return other.Renew(t.Context(), long.Handle, 10*time.Minute)
		})
		<-over
		if err := own.Settle(t.Context(), short.Handle, 4); !errors.Is(err, quota.ErrNoReservation) {
			t.Errorf("settled after it expired: %v", err)
		}
		c.awaitRemaining(soft("short"), 20) // all of it comes back
		c.awaitRemaining(soft("long"), 16)
		if err := own.Settle(t.Context(), long.Handle, 2); err != nil {
			t.Errorf("the renewed one: %v", err)
		}
		c.awaitRemaining(soft("long"), 18)
	})
	t.Run("renewed for as long as at first", func(t *testing.T) {
		r, ok := c.reserve(own, time.Hour, 4, soft("again"))
		if !ok {
			t.Fatal("refused")
		}
		if err := other.Renew(t.Context(), r.Handle, 0); err != nil {
			t.Fatal(err)
		}
		if err := own.Settle(t.Context(), r.Handle, 4); err != nil {
			t.Errorf("settled after it was renewed: %v", err)
		}
	})
	t.Run("not enforced", func(t *testing.T) {
		k := key("test", "shadow", "k")
		use(t, own, k, 8)
		c.awaitRemaining(k, 2)
		r, ok := c.reserve(own, time.Minute, 5, k, key("test", "open", "k"))
		if !ok {
			t.Fatal("a limit in shadow refused")
		}
		if err := own.Settle(t.Context(), r.Handle, 0); err != nil {
			t.Fatal(err)
		}
		c.awaitRemaining(k, 2) // nothing was taken, so nothing comes back
	})
}

// TestHandles checks that no handle reveals another, and that every node can tell the namespaces of a
// reservation from its handle.
func TestHandles(t *testing.T) {
	c := newThreeNodes(t, 2)
	other := limit("l", 1000, quota.Soft)
	other.Namespace = "other"
	c.apply(limit("l", 1000, quota.Soft), other)
	nodes := c.running()
	seen := map[string]bool{}
	for range 100 {
		r, ok := c.reserve(nodes[0], time.Minute, 1, key("test", "l", "k"), key("other", "l", "k"), key("test", "l", "k2"))
		if !ok {
			t.Fatal("refused")
		}
		// All handles of a node share its name; 6 more letters are 30 bits.
		head := r.Handle[:len(nodes[0].cfg.Self)+1+6]
		if tail := r.Handle[len(head):]; seen[head] || len(tail) < 20 {
			t.Fatalf("%s: another begins like this, or it is short", r.Handle)
		}
		seen[head] = true
		for _, n := range nodes {
			spaces, err := n.ReservedIn(t.Context(), r.Handle)
			if err != nil || !slices.Equal(spaces, []string{"test", "other"}) {
				t.Fatalf("on %s: %v, %v", n.cfg.Self, spaces, err)
			}
		}
		if err := nodes[1].Settle(t.Context(), r.Handle, -1); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if _, err := n.ReservedIn(t.Context(), r.Handle); !errors.Is(err, quota.ErrNoReservation) {
				t.Fatalf("settled, on %s: %v", n.cfg.Self, err)
			}
		}
	}
}

// TestAcquire checks that a limit of concurrency holds over all nodes, that any node can release a place, and
// that a hard limit keeps the places of a dead node for the lease.
func TestAcquire(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, quick)
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "flight"}, Kind: quota.Concurrency, Burst: 3,
		Ceiling: quota.Hard, Lease: 10 * time.Minute,
	}
	c.apply(l, limit("soft", 20, quota.Soft))
	nodes := c.running()
	k := c.keyLedBy(l.LimitName, nodes[0].cfg.Self, "k")
	if d := nodes[0].Check(k, 1); d.Allowed || d.Why != quota.WhyUseAcquire {
		t.Errorf("checked: %+v", d)
	}
	acquire := func(n *Node) quota.Reservation {
		t.Helper()
		var r quota.Reservation
		c.eventually(5*time.Second, "acquired", func() error {
			var ok bool
			if r, ok = c.reserve(n, 0, 1, k); !ok {
				return errors.New("refused")
			}
			return nil
		})
		if r.Expires != l.Lease {
			t.Errorf("expires in %v, the limit's lease is %v", r.Expires, l.Lease)
		}
		return r
	}
	first, _, third := acquire(nodes[0]), acquire(nodes[1]), acquire(nodes[2])
	c.awaitRemaining(k, 0)
	for _, n := range nodes {
		if _, ok := c.reserve(n, 0, 1, k); ok {
			t.Errorf("%s: a fourth of 3 in flight", n.cfg.Self)
		}
	}
	if err := nodes[1].Settle(t.Context(), first.Handle, -1); err != nil {
		t.Fatal(err)
	}
	c.awaitRemaining(k, 1)
	acquire(nodes[1])
	c.awaitRemaining(k, 0)

	c.kill(nodes[2].cfg.Self)
	c.eventually(5*time.Second, "what a dead node held is not known", func() error {
		if err := nodes[0].Settle(t.Context(), third.Handle, -1); !errors.Is(err, quota.ErrNoReservation) {
			return fmt.Errorf("settled: %w", err)
		}
		return nil
	})
	for range 20 { // the work may go on without the node: the place is taken until the lease ends
		if _, ok := c.reserve(nodes[0], 0, 1, k); ok {
			t.Fatal("a fourth of 3 in flight, after a holder's death")
		}
		time.Sleep(20 * time.Millisecond) // keeps asking
	}
}
