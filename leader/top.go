package leader

import (
	"cmp"
	"math"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// KeyCount is the count of one key since the last list.
type KeyCount struct {
	Key                 string
	Attempted, Admitted quota.Units
}

// TopKeys are the most requested keys of a limit, in descending order. Any other key was requested
// at most Rest.
type TopKeys struct {
	Limit quota.LimitName
	Keys  []KeyCount
	Rest  quota.Units
}

// listing is the part of a bucket's counts that TopSince has returned.
type listing struct{ attempted, admitted quota.Units }

// maxDeparted bounds the keys whose counts are kept after their buckets were dropped.
const maxDeparted = 1024

// keepCounts keeps the counts of a dropped bucket since the last TopSince.
func (l *Ledger) keepCounts(b *bucket) {
	if b.counted != nil { // otherwise the list would keep the bucket in memory until the next TopSince
		*b.counted, b.counted = nil, nil
	}
	d := b.unlistedCounts()
	if d.Attempted == 0 {
		return
	}
	was, there := l.departed[b.key()]
	if !there && len(l.departed) >= maxDeparted {
		l.lost[b.of] = max(l.lost[b.of], d.Attempted)
		return
	}
	was.attempted, was.admitted = was.attempted.Plus(d.Attempted), was.admitted.Plus(d.Admitted)
	l.departed[b.key()] = was
}

// unlistedCounts returns the counts that TopSince has not returned yet.
func (b *bucket) unlistedCounts() KeyCount {
	return KeyCount{b.name, max(0, b.attempted-b.listed.attempted), max(0, b.admitted-b.listed.admitted)}
}

// listed reports whether keys of the counter are listed: those of the first tier of limits that did
// not arrive with a request.
func listed(n quota.LimitName) bool {
	base, tier := n.Base()
	return tier == 1 && base == n && !n.IsInline()
}

// TopSince returns, for every limit with requests since the last call, its most requested keys: at
// most each of one limit, and at most all in total, ordered by limit. Call it once a minute.
// Requests of a key whose bucket was dropped several times in between may be in Rest.
func (l *Ledger) TopSince(each, all int) []TopKeys {
	for l.TopSome(each, math.MaxInt) {
	}
	return l.takeTop(each, all)
}

// TopSome does part of the work of the next TopSince, which must have the same each: it reads up to
// most of the requested keys, and returns true if some are left. Requests made in the meantime
// count for the TopSince after that.
func (l *Ledger) TopSome(each, most int) (more bool) {
	if l.tops == nil {
		l.tops, l.topLeft = tops{}, l.counted.len()
	}
	for n := min(most, l.topLeft); n > 0; n-- {
		l.visits++
		l.topLeft--
		b := l.counted.pop()
		if b == nil { // dropped: keepCounts has kept its counts
			continue
		}
		b.counted = nil
		wasPacked := b.isPacked()
		if wasPacked {
			l.unpackBucket(b)
		}
		d := b.unlistedCounts()
		b.listed = listing{b.attempted, b.admitted}
		if was, there := l.departed[b.key()]; there {
			d.Attempted, d.Admitted = d.Attempted.Plus(was.attempted), d.Admitted.Plus(was.admitted)
			delete(l.departed, b.key())
		}
		l.repackBucket(b, wasPacked)
		l.tops.add(b.of, d, each)
	}
	return l.topLeft > 0
}

// tops are the most requested keys of each limit that TopSome has found.
type tops map[quota.LimitName]*TopKeys

// add adds a key. At most 2 x each and a few keys of a limit are kept.
func (t tops) add(n quota.LimitName, d KeyCount, each int) {
	const few = 64
	if d.Attempted == 0 || !listed(n) {
		return
	}
	top := t[n]
	if top == nil {
		top = &TopKeys{Limit: n}
		t[n] = top
	}
	if top.Keys = append(top.Keys, d); len(top.Keys) >= 2*each+few {
		top.sort()
		top.cut(each)
	}
}

func (t *TopKeys) sort() {
	slices.SortFunc(t.Keys, func(x, y KeyCount) int {
		return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), cmp.Compare(x.Key, y.Key))
	})
}

// cut leaves at most each keys.
func (t *TopKeys) cut(each int) {
	if len(t.Keys) > each {
		t.Rest = max(t.Rest, t.Keys[each].Attempted)
		t.Keys = t.Keys[:each]
	}
}

// takeTop returns what TopSome has found, with the keys whose buckets were dropped.
func (l *Ledger) takeTop(each, all int) []TopKeys {
	for k, d := range l.departed {
		if t := l.tops[k.LimitName]; t != nil { // dropped after TopSome had read it
			if i := slices.IndexFunc(t.Keys, func(c KeyCount) bool { return c.Key == k.Key }); i >= 0 {
				t.Keys[i].Attempted, t.Keys[i].Admitted = t.Keys[i].Attempted.Plus(d.attempted), t.Keys[i].Admitted.Plus(d.admitted)
				continue
			}
		}
		l.tops.add(k.LimitName, KeyCount{k.Key, d.attempted, d.admitted}, each)
	}
	out := make([]TopKeys, 0, len(l.tops))
	for n, t := range l.tops {
		t.Rest = max(t.Rest, quota.Units(quota.MulDiv(int64(l.lost[n]), maxReopened, 1)))
		t.sort()
		out = append(out, *t)
	}
	slices.SortFunc(out, func(x, y TopKeys) int {
		return cmp.Or(cmp.Compare(x.Limit.Namespace, y.Limit.Namespace), cmp.Compare(x.Limit.Limit, y.Limit.Limit))
	})
	l.tops = nil
	clear(l.departed)
	clear(l.lost)
	for cut(out, each) > all && each > 0 {
		each /= 2
	}
	return slices.DeleteFunc(out, func(t TopKeys) bool { return len(t.Keys) == 0 && t.Rest == 0 })
}

// maxReopened bounds how often the bucket of a key is dropped within a minute: each is kept for linger, 10 s.
const maxReopened = 6

// cut leaves at most each keys of every limit, and returns how many are left.
func cut(all []TopKeys, each int) (sum int) {
	for i := range all {
		all[i].cut(each)
		sum += len(all[i].Keys)
	}
	return sum
}
