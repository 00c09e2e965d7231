package control

import (
	"encoding/binary"
	"math"
	"sort"

	"github.com/quorate/quorate/internal/quota"
)

// never is later than every expiry.
const never quota.Time = math.MaxInt64

// overrideChunk is a packed list of up to maxChunk overrides of one limit, sorted by key. It is
// immutable.
//
// Each record is the length of the key, the key, the expiry, and the rule; both numbers are
// varints.
type overrideChunk struct {
	data    []byte
	starts  []uint32   // offsets of the records
	soonest quota.Time // earliest expiry, or never
}

// maxChunk bounds the records of a chunk, and so what a change of one record copies.
const maxChunk = 64

func (c *overrideChunk) len() int { return len(c.starts) }

// record returns the i-th record.
func (c *overrideChunk) record(i int) []byte {
	end := uint32(len(c.data))
	if i+1 < len(c.starts) {
		end = c.starts[i+1]
	}
	return c.data[c.starts[i]:end]
}

// key returns the i-th key.
func (c *overrideChunk) key(i int) []byte {
	k, _ := splitRecord(c.record(i))
	return k
}

// splitRecord splits a record into the key and the rest.
func splitRecord(rec []byte) (key []byte, rest packedRule) {
	n, w := binary.Uvarint(rec)
	end := w + int(n)
	return rec[w:end], rec[end:]
}

// search returns the index of the first record whose key is not below key, and whether it equals
// key.
func (c *overrideChunk) search(key string) (int, bool) {
	i := sort.Search(c.len(), func(i int) bool { return string(c.key(i)) >= key })
	return i, i < c.len() && string(c.key(i)) == key
}

func packRecord(key string, rule packedRule) []byte {
	rec := make([]byte, 0, binary.MaxVarintLen16+len(key)+len(rule))
	rec = binary.AppendUvarint(rec, uint64(len(key)))
	return append(append(rec, key...), rule...)
}

// overrideEdit sets the rule of a key, or deletes it if the rule is nil.
type overrideEdit struct {
	key  quota.Key
	rule packedRule
}

// merge applies edits, which must be sorted, to the chunk and appends the resulting chunks to out.
func (c *overrideChunk) merge(edits []overrideEdit, out []*overrideChunk) []*overrideChunk {
	records := make([][]byte, 0, c.len()+len(edits))
	next := 0
	for _, e := range edits {
		at, found := c.search(e.key.Key)
		for ; next < at; next++ {
			records = append(records, c.record(next))
		}
		if found {
			next++
		}
		if e.rule != nil {
			records = append(records, packRecord(e.key.Key, e.rule))
		}
	}
	for ; next < c.len(); next++ {
		records = append(records, c.record(next))
	}
	for pieces := (len(records) + maxChunk - 1) / maxChunk; pieces > 0; pieces-- { // of about equal length
		n := len(records) / pieces
		out, records = append(out, packChunk(records[:n])), records[n:]
	}
	return out
}

// packChunk copies the records into slices of exactly their size.
func packChunk(records [][]byte) *overrideChunk {
	size := 0
	for _, rec := range records {
		size += len(rec)
	}
	c := &overrideChunk{data: make([]byte, 0, size), starts: make([]uint32, 0, len(records)), soonest: never}
	for _, rec := range records {
		c.starts = append(c.starts, uint32(len(c.data)))
		c.data = append(c.data, rec...)
		if _, rule := splitRecord(rec); rule.expires() != 0 {
			c.soonest = min(c.soonest, rule.expires())
		}
	}
	return c
}
