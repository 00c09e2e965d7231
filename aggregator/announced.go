package aggregator

import "github.com/quorate/quorate/internal/quota"

// announced takes over the level of a used-up key that a leader announces, if this member has the key closed: without it,
// a key that is new here begins full. A level of a token or more ends an earlier announcement. The table stays half empty
// for the keys that callers name; max_keys of a limit is for these alone.
func (a *Aggregator) announced(now, at quota.Time, off clockOffset, rt *route, e *quota.GrantEntry) {
	s := a.table.find(e.Key.LimitName)
	if s == nil {
		return
	}
	b := a.table.lookup(s, e.Key.Key)
	room := a.table.size.Load() < a.table.maxKeys/2 && s.rule.Load().limit.MaxKeys == 0
	if b == nil && room && e.Level < quota.Token {
		b = a.table.bucket(s, e.Key.Key)
	}
	if b == nil {
		return
	}
	b.lock()
	defer b.unlock()
	l := b.limit()
	if b.dead || b.phase != closed || l.Kind == quota.Concurrency {
		return
	}
	if b.estAt == 0 {
		b.changed = now
		a.idle = append(a.idle, idleBucket{b, now})
	}
	b.initEstimate(now, l)
	b.roll(now, l)
	b.term, b.offset, b.lag = rt.term, off.high, off.lag()
	latest := clockOffset{low: off.high, high: off.high} // nothing is held: a window that ends late only refuses
	if b.adoptWindow(now, latest, e) {
		b.anchor(now, at, off, e)
	}
}
