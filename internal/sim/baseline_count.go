package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// countSync models limiters that share counts: every node has a copy of each key's bucket, decides
// by it, and at every sync sends the others what it has admitted since. They subtract it from their
// copies, but never below zero: what N nodes admit at the same time is forgotten, and under
// overload each admits up to the whole rate. With debt, copies may go below zero.
//
// A lost message loses its counts, and a repeated one counts twice.
type countSync struct {
	r     *run
	debt  bool
	nodes tables[counted]
}

// counted is a node's copy of a bucket, and what the node admitted since its last message.
type counted struct {
	copy       Ideal
	unreported quota.Units
}

func (c *countSync) start() {
	c.nodes = newTables(func() counted { return counted{copy: c.r.central(&c.r.Limit)} })
	c.r.everySync(c.sync)
}

func (c *countSync) decide(n *node, key string, cost quota.Units) quota.Decision {
	k := c.nodes.on(n).of(key)
	ok, _ := k.copy.Take(c.r.now, cost)
	if ok {
		k.unreported += cost
	}
	return yesOrNo(ok)
}

// sync sends one message with all changed keys to each other node.
func (c *countSync) sync(n *node) {
	var keys []string
	var by []quota.Units
	t := c.nodes.on(n)
	for _, key := range t.keys {
		if k := t.of(key); k.unreported > 0 {
			keys, by = append(keys, key), append(by, k.unreported)
			k.unreported = 0
		}
	}
	if len(keys) == 0 {
		return
	}
	for _, to := range c.r.nodes {
		if to == n {
			continue
		}
		c.r.carry(n, to, keys, func() {
			for i, key := range keys {
				c.subtract(&c.nodes.on(to).of(key).copy, by[i])
			}
		})
	}
}

func (c *countSync) subtract(d *Ideal, by quota.Units) {
	for i := range d.meters {
		m := &d.meters[i]
		m.Advance(c.r.now, &d.tiers[i])
		m.Add(-by)
		if !c.debt && m.Level() < 0 {
			m.Add(-m.Level())
		}
	}
}

// equalShares gives every node its own bucket of limit/N, at least one token. Nodes do not
// communicate.
type equalShares struct {
	r     *run
	share quota.Limit
	nodes tables[Ideal]
}

func (e *equalShares) start() {
	e.nodes = newTables(func() Ideal { return e.r.central(&e.share) })
}

func (e *equalShares) decide(n *node, key string, cost quota.Units) quota.Decision {
	ok, _ := e.nodes.on(n).of(key).Take(e.r.now, cost)
	return yesOrNo(ok)
}

// shareOf divides all tiers by n. A bucket's rate stays exact; counts are rounded down, to at least
// 1.
func shareOf(l *quota.Limit, n int) quota.Limit {
	share := *l
	share.More = nil
	for i, t := range l.Tiers() {
		t.Burst = max(1, t.Burst/int64(n))
		if t.Kind == quota.TokenBucket {
			t.Rate.Per *= time.Duration(n)
		} else {
			t.Rate.Tokens = t.Burst
		}
		if i == 0 {
			share.SetFirst(t)
		} else {
			share.More = append(share.More, t)
		}
	}
	return share
}
