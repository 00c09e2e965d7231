package control

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"sort"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// overrideTable is all overrides, by limit and key. It is immutable: a change makes a new table
// that shares all but a few chunks with the old one, so readers need no lock and a snapshot needs
// no copy.
type overrideTable struct {
	limits   []*limitOverrides // sorted by name; none is empty
	count    int
	revision uint64 // number of changes that led to it
}

// limitOverrides is the overrides of one limit.
type limitOverrides struct {
	name   quota.LimitName
	chunks []*overrideChunk // sorted; none is empty
	count  int
}

// limit returns the index at which the limit's overrides are or would be, and whether there are
// any.
func (t *overrideTable) limit(n quota.LimitName) (int, bool) {
	return slices.BinarySearchFunc(t.limits, n, func(l *limitOverrides, n quota.LimitName) int {
		return l.name.Compare(n)
	})
}

// find returns the rule of a key, or nil.
func (t *overrideTable) find(k quota.Key) packedRule {
	at, ok := t.limit(k.LimitName)
	if !ok {
		return nil
	}
	l := t.limits[at]
	c := l.chunks[l.chunkOf(k.Key)]
	i, ok := c.search(k.Key)
	if !ok {
		return nil
	}
	_, rule := splitRecord(c.record(i))
	return rule
}

// has reports whether the override is in the table, with the same content and time.
func (t *overrideTable) has(s *raftlogv1.StoredOverride) bool {
	e, err := editOf(s)
	return err == nil && bytes.Equal(t.find(e.key), e.rule)
}

// chunkOf returns the index of the chunk that contains the key or would contain it.
func (l *limitOverrides) chunkOf(key string) int {
	later := sort.Search(len(l.chunks), func(i int) bool { return string(l.chunks[i].key(0)) > key })
	return max(later-1, 0)
}

// with returns the table after the edits, which must be sorted by key and have each key once.
func (t *overrideTable) with(edits []overrideEdit) *overrideTable {
	out := &overrideTable{limits: slices.Clone(t.limits), revision: t.revision + 1, count: t.count}
	for len(edits) > 0 {
		name := edits[0].key.LimitName
		n := sort.Search(len(edits), func(i int) bool { return edits[i].key.LimitName != name })
		at, ok := out.limit(name)
		before := &limitOverrides{name: name}
		if ok {
			before = out.limits[at]
		}
		after := before.with(edits[:n])
		out.count += after.count - before.count
		switch {
		case ok && after.count > 0:
			out.limits[at] = after
		case ok:
			out.limits = slices.Delete(out.limits, at, at+1)
		case after.count > 0:
			out.limits = slices.Insert(out.limits, at, after)
		}
		edits = edits[n:]
	}
	return out
}

func (l *limitOverrides) with(edits []overrideEdit) *limitOverrides {
	out := &limitOverrides{name: l.name, chunks: make([]*overrideChunk, 0, len(l.chunks)+1)}
	if len(l.chunks) == 0 {
		out.chunks = new(overrideChunk).merge(edits, out.chunks)
	}
	for i, c := range l.chunks {
		mine := len(edits)
		if i+1 < len(l.chunks) {
			next := string(l.chunks[i+1].key(0))
			mine = sort.Search(len(edits), func(j int) bool { return edits[j].key.Key >= next })
		}
		if mine == 0 {
			out.chunks = append(out.chunks, c)
			continue
		}
		out.chunks = c.merge(edits[:mine], out.chunks)
		edits = edits[mine:]
	}
	for _, c := range out.chunks {
		out.count += c.len()
	}
	return out
}

// after iterates over the overrides with keys larger than k, in order.
func (t *overrideTable) after(k quota.Key) iter.Seq2[quota.Key, packedRule] {
	return func(yield func(quota.Key, packedRule) bool) {
		from, _ := t.limit(k.LimitName)
		for _, l := range t.limits[from:] {
			chunk, record := 0, 0
			if l.name == k.LimitName {
				chunk = l.chunkOf(k.Key)
				found := false
				if record, found = l.chunks[chunk].search(k.Key); found {
					record++
				}
			}
			if !l.walk(chunk, record, yield) {
				return
			}
		}
	}
}

// walk yields the records from the given one on. It returns false if yield did.
func (l *limitOverrides) walk(chunk, record int, yield func(quota.Key, packedRule) bool) bool {
	for _, c := range l.chunks[chunk:] {
		for ; record < c.len(); record++ {
			k, rule := splitRecord(c.record(record))
			if !yield(quota.Key{LimitName: l.name, Key: string(k)}, rule) {
				return false
			}
		}
		record = 0
	}
	return true
}

// soonest returns the earliest expiry, or never.
func (t *overrideTable) soonest() quota.Time {
	first := never
	for _, l := range t.limits {
		for _, c := range l.chunks {
			first = min(first, c.soonest)
		}
	}
	return first
}

// expired returns the edits that delete the overrides that expire at or before the given time.
func (t *overrideTable) expired(at quota.Time) []overrideEdit {
	var out []overrideEdit
	for _, l := range t.limits {
		for _, c := range l.chunks {
			if c.soonest > at {
				continue
			}
			for i := range c.len() {
				k, rule := splitRecord(c.record(i))
				if e := rule.expires(); e != 0 && e <= at {
					out = append(out, overrideEdit{key: quota.Key{LimitName: l.name, Key: string(k)}})
				}
			}
		}
	}
	return out
}

// tableBuilder builds a table from overrides that arrive in order, without a second copy of them.
type tableBuilder struct {
	table   overrideTable
	records [][]byte // of the next chunk
	last    quota.Key
	count   int
}

func (b *tableBuilder) add(s *raftlogv1.StoredOverride) error {
	e, err := editOf(s)
	if err != nil {
		return err
	}
	if b.count > 0 && b.last.Compare(e.key) >= 0 {
		return fmt.Errorf("override %v comes after %v", e.key, b.last)
	}
	if b.count == 0 || e.key.LimitName != b.last.LimitName {
		b.flush()
		b.table.limits = append(b.table.limits, &limitOverrides{name: e.key.LimitName})
	}
	b.records = append(b.records, packRecord(e.key.Key, e.rule))
	b.last = e.key
	b.count++
	if len(b.records) == maxChunk*3/4 { // leave room for later additions
		b.flush()
	}
	return nil
}

func (b *tableBuilder) flush() {
	if len(b.records) == 0 {
		return
	}
	l := b.table.limits[len(b.table.limits)-1]
	l.chunks = append(l.chunks, packChunk(b.records))
	l.count += len(b.records)
	b.records = b.records[:0]
}

func (b *tableBuilder) done(revision uint64) *overrideTable {
	b.flush()
	b.table.count, b.table.revision = b.count, revision
	return &b.table
}
