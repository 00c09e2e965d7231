package aggregator

import "github.com/quorate/quorate/internal/quota"

// maxHeld is the number of checks that TryHeldAll looks up before it decides them.
const maxHeld = 16

// TryHeldAll is TryHeld for several checks of one limit, which it looks up once. It decides the checks for which
// enough is held. out has the same length; its entries for the other checks have no limit. For a name that only a
// template matches it decides nothing, because the template changes the names of the keys.
func (a *Aggregator) TryHeldAll(n quota.LimitName, checks []quota.Spend, out []quota.Decision) {
	clear(out)
	s, unnamed := a.table.resolve(n, "")
	if s == nil || unnamed != "" {
		return
	}
	r := s.rule.Load()
	if !r.simple {
		return
	}
	for len(checks) > 0 {
		some := min(len(checks), maxHeld)
		a.tryHeld(s, r.limit, checks[:some], out[:some])
		checks, out = checks[some:], out[some:]
	}
}

// tryHeld looks up all keys before it decides, so that the processor waits for their memory together, not for one
// after another.
func (a *Aggregator) tryHeld(s *limitEntry, l *quota.Limit, checks []quota.Spend, out []quota.Decision) {
	var places [maxHeld]place
	for i := range checks {
		places[i] = s.keys.place(checks[i].Key)
	}
	for i := range checks {
		c := &checks[i]
		at, b := places[i].find(c.Key)
		if at == nil || !at.pay(c.Cost, b, &a.urgent) {
			continue
		}
		decideHeld(&out[i], l, at.lastEstimate())
	}
}

// decideHeld writes the decision of a cost that was paid out of held tokens, in place.
func decideHeld(d *quota.Decision, l *quota.Limit, est quota.Units) {
	d.Allowed, d.Why, d.Limit, d.Tier = true, quota.WhyHeld, l, 1
	d.Remaining, d.Near = min(max(0, est.Tokens()), l.Burst), est <= l.NearUnits()
	d.ResetAfter = l.Rate.TimeFor(l.BurstUnits() - est)
}

// place is the position at which the lookup of a key begins.
type place struct {
	layout *layout // nil if the key has no hot entry
	hash   uint64
	first  uint64  // hash of the hot entry at that position
	bucket *bucket // bucket of that hot entry
}

// place reads the first memory of a lookup, without depending on its content.
func (k *keys) place(key string) place {
	h := k.hash(key)
	x := k.shard(h).layout.Load()
	if x == nil {
		return place{}
	}
	at := int(h>>2) & (len(x.lines) - 1)
	return place{x, h, x.lines[at].hash.Load(), x.buckets[at].Load()}
}

// find returns the hot entry and the bucket of the key, or nil.
func (p *place) find(key string) (*hotEntry, *bucket) {
	if p.layout == nil || p.first == noKey {
		return nil, nil
	}
	if i, ok := p.layout.find(p.hash, key); ok {
		return &p.layout.lines[i], p.layout.buckets[i].Load()
	}
	return nil, nil
}
