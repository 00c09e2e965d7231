package aggregator

import (
	"math"

	"github.com/quorate/quorate/internal/quota"
)

// takeRestored returns the buckets that were restored since the last call.
func (s *compactShard) takeRestored() []*bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.restored
	s.restored = nil
	return list
}

// sweepCompact drops compact keys by the rules by which sweepIdle drops buckets.
func (a *Aggregator) sweepCompact(now quota.Time) {
	a.makeRoom()
	c := &a.table.compact
	for i := range c.shards {
		a.sweepShard(now, &c.shards[i])
	}
}

// sweepShard drops the keys of a shard that have been closed long enough. It looks at the longest closed ones until one
// must stay, and at a sixtieth of the others, in turn.
func (a *Aggregator) sweepShard(now quota.Time, s *compactShard) {
	c := &a.table.compact
	var gone goneKeys
	defer func() { a.table.notifyRemoved(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.next(s.first)
	for ok && a.compactDone(now, s, &r) {
		a.dropCompact(s, &r, &gone)
		r, ok = s.next(r.at + r.size)
	}
	s.first = r.at
	r, ok = s.next(max(s.first, s.looked))
	for n := max(leastLooked/compactShards, s.live/60+1); ok && n > 0; n-- {
		if a.compactDone(now, s, &r) {
			a.dropCompact(s, &r, &gone)
		}
		r, ok = s.next(r.at + r.size)
	}
	if s.looked = r.at; !ok {
		s.looked = 0
	}
	s.rebuildIfSparse(c)
}

// goneKeys lists dropped keys for Config.Removed, if that is set.
type goneKeys []quota.Key

// notifyRemoved calls Config.Removed for dropped keys, outside the lock of their shard.
func (t *table) notifyRemoved(gone goneKeys) {
	for _, k := range gone {
		t.removed(k)
	}
}

// forgetKey gives back the place of a key and adds the key to gone.
func (t *table) forgetKey(of *limitEntry, key []byte, gone *goneKeys) {
	t.givePlace(of, string(key))
	if t.removed != nil {
		*gone = append(*gone, quota.Key{LimitName: of.name, Key: string(key)})
	}
}

// compactDone reports whether a compact key may be dropped.
func (a *Aggregator) compactDone(now quota.Time, s *compactShard, r *record) bool {
	l := s.kinds.list[r.kind].as
	return now.Sub(a.table.compact.closedAt(r)) >= a.idleFor(l) && a.unpackRecord(s, r).full(now)
}

// unpackRecord restores a compact key into the scratch bucket, for reading: the next call overwrites it.
func (a *Aggregator) unpackRecord(s *compactShard, r *record) *bucket {
	b, k := a.scratch, s.kinds.list[r.kind]
	b.state, b.entry = newState(), k.entry
	b.own.Store(k.as)
	b.hot().held.Store(0)
	s.restore(&a.table.compact, r, b)
	return b
}

func (a *Aggregator) dropCompact(s *compactShard, r *record, gone *goneKeys) {
	of := s.kinds.list[r.kind].entry
	a.table.forgetKey(of, r.key, gone)
	a.table.compact.remove(s, s.entryOf(of.keys.hashBytes(r.key), r.at), r)
}

// entryOf returns the position of a record's index entry.
func (s *compactLog) entryOf(hash uint64, at int) int {
	mask, want := len(s.index)-1, tag(hash)|uint32(at/placeUnit)
	i := int(hash>>2) & mask
	for s.index[i] != want {
		i = (i + 1) & mask
	}
	return i
}

// makeRoom drops the keys that have been closed longest, of limits that use their shares, while the table is nearly
// full.
func (a *Aggregator) makeRoom() {
	if !a.tight() || a.table.compact.size.Load() == 0 {
		return
	}
	var next [compactShards]oldest
	for i := range next {
		next[i] = a.findOldest(i, a.table.compact.shards[i].first, false)
	}
	for a.tight() {
		first := 0
		for i := range next {
			if next[i].since < next[first].since {
				first = i
			}
		}
		if next[first].since == math.MaxInt64 {
			return
		}
		next[first] = a.findOldest(first, next[first].at, true)
	}
}

// oldest is the next key to drop in a shard: its place, and when it was closed.
type oldest struct {
	at    int
	since int64 // math.MaxInt64 without a key
}

// findOldest returns the first key from a place on that may be dropped. With drop, it first drops the key at that
// place.
func (a *Aggregator) findOldest(shard, at int, drop bool) oldest {
	s := &a.table.compact.shards[shard]
	var gone goneKeys
	defer func() { a.table.notifyRemoved(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.next(at)
	if ok && drop && r.at == at { // the key was not restored since
		a.dropCompact(s, &r, &gone)
		r, ok = s.next(r.at + r.size)
	}
	for ok {
		if s.kinds.list[r.kind].entry.usesItsShare() {
			return oldest{r.at, r.since}
		}
		r, ok = s.next(r.at + r.size)
	}
	return oldest{since: math.MaxInt64}
}

// relimitCompact applies changed limits and overrides to all compact keys, as relimit does to buckets.
func (a *Aggregator) relimitCompact(now quota.Time) {
	c := &a.table.compact
	for i := range c.shards {
		a.relimitShard(now, &c.shards[i])
	}
}

func (a *Aggregator) relimitShard(now quota.Time, s *compactShard) {
	var gone goneKeys
	defer func() { a.table.notifyRemoved(gone) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == 0 {
		return
	}
	s.rebuild(&a.table.compact, func(r *record, rec []byte) []byte {
		k := s.kinds.list[r.kind]
		if k.entry.gone.Load() {
			s.kinds.release(r.kind)
			a.table.forgetKey(k.entry, r.key, &gone)
			return nil
		}
		l := quota.Effective(k.entry.rule.Load().limit, a.table.overrides, string(r.key))
		if l == k.as || k.entry.name.IsInline() {
			return rec
		}
		n := s.kinds.number(kind{k.entry, l})
		to := appendRecordStart(s.buf[:0], n, r.key, r.since)
		if k.as.First() == l.First() {
			to = append(to, r.packed...)
		} else {
			b := a.unpackRecord(s, r)
			b.own.Store(l)
			b.roll(now, l)
			f := b.compact(now)
			to = f.append(to)
		}
		s.kinds.release(r.kind)
		s.buf = to
		return to
	})
}
