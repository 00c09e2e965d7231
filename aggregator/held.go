package aggregator

import "github.com/quorate/quorate/internal/quota"

// maxHeld is how many checks TryHeldAll looks up before it decides them.
const maxHeld = 16

// TryHeldAll is TryHeld for checks of one limit, which is found once. It decides those for
// which enough is held; out, which is as long, has no limit for the others. A name that
// only a template answers has none decided: its keys are named otherwise.
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

// tryHeld looks all keys up before it decides, so that the processor waits for the
// memory of all of them at once, and not of one after another.
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

// decideHeld is decision of what was paid out of what is held, written in place.
func decideHeld(d *quota.Decision, l *quota.Limit, est quota.Units) {
	d.Allowed, d.Why, d.Limit, d.Tier = true, quota.WhyHeld, l, 1
	d.Remaining, d.Near = min(max(0, est.Tokens()), l.Burst), est <= l.NearUnits()
	d.ResetAfter = l.Rate.TimeFor(l.BurstUnits() - est)
}

// place is where a key is looked for.
type place struct {
	layout *layout // nil: it is not there
	hash   uint64
	first  uint64  // hash of the line where it is, if no other key is there
	bucket *bucket // of that line
}

// place reads what is first looked at for a key, and waits for nothing that it reads.
func (k *keys) place(key string) place {
	h := k.hash(key)
	x := k.shard(h).layout.Load()
	if x == nil {
		return place{}
	}
	at := int(h>>2) & (len(x.lines) - 1)
	return place{x, h, x.lines[at].hash.Load(), x.buckets[at].Load()}
}

// find returns the bucket of the key and its line, or nil.
func (p *place) find(key string) (*hotEntry, *bucket) {
	if p.layout == nil || p.first == noKey {
		return nil, nil
	}
	if i, ok := p.layout.find(p.hash, key); ok {
		return &p.layout.lines[i], p.layout.buckets[i].Load()
	}
	return nil, nil
}
