package aggregator

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/quota"
)

// compactStore stores the keys that are closed and at rest as compact records: most keys of a large table, most of
// the time. It has no pointers for each key, so that the garbage collector does not scan them. A key has a record
// here or a bucket, never both: code that moves a key holds the lock of its shard of the limit entry's keys, and code
// that needs the bucket restores it.
//
// Records are stored in the order in which their keys were compacted, the longest closed first. A removed record
// leaves a gap until its shard is rebuilt.
type compactStore struct {
	born   quota.Time
	size   atomic.Int64
	shards [compactShards]compactShard
}

const (
	compactShards = 64

	chunkBytes = 4096    // a record takes at most half of it: keys that need more stay buckets
	maxChunks  = 1 << 13 // per shard: 32 MiB; further keys stay buckets

	// An entry of the index is a record's place, in units of 4 bytes, and 8 bits of the key's hash.
	placeUnit = 4
	placeBits = 24
	noPlace   = 0       // free, and never used
	lostPlace = 1       // its record was removed
	headBytes = 2       // head of a record: its length in place units, and goneMark
	goneMark  = 1 << 15 // in the head: the record was removed

	leastIndex = 16
)

type compactShard struct {
	mu sync.Mutex
	compactLog
	kinds    kinds
	restored []*bucket // since the last sweep, which checks whether they were opened
	buf      []byte    // buffer for one record
}

// compactLog holds the records of a shard and their index.
type compactLog struct {
	chunks []*[chunkBytes]byte
	end    int // bytes used in all chunks, gaps included
	gaps   int // bytes of removed records
	live   int // records that are not removed
	index  []uint32
	used   int // index entries that are not noPlace
	first  int // place before which all records are removed
	looked int // place at which the next sweep continues
}

// kind holds the fields that many records share.
type kind struct {
	entry *limitEntry
	as    *quota.Limit // bucket.as
}

// kinds numbers the kinds and counts the records of each.
type kinds struct {
	list []kind
	refs []int
	of   map[kind]int
	free []int
}

func (k *kinds) number(of kind) int {
	n, ok := k.of[of]
	if !ok {
		if k.of == nil {
			k.of = map[kind]int{}
		}
		if last := len(k.free) - 1; last >= 0 {
			n, k.free = k.free[last], k.free[:last]
			k.list[n] = of
		} else {
			n = len(k.list)
			k.list, k.refs = append(k.list, of), append(k.refs, 0)
		}
		k.of[of] = n
	}
	k.refs[n]++
	return n
}

func (k *kinds) release(n int) {
	if k.refs[n]--; k.refs[n] == 0 {
		delete(k.of, k.list[n])
		k.list[n] = kind{}
		k.free = append(k.free, n)
	}
}

// record is a parsed compact record.
type record struct {
	at, size int // its place, in bytes from the first chunk, and its length
	kind     int
	key      []byte // a slice of the chunk
	since    int64  // time at which it was closed, from compactStore.born
	packed   []byte // a slice of the chunk
}

func (c *compactStore) shard(hash uint64) *compactShard { return &c.shards[hash>>53&(compactShards-1)] }

func tag(hash uint64) uint32 { return uint32(hash>>45) << placeBits }

// put adds a record for a key. It returns false if there is no room.
func (c *compactStore) put(hash uint64, k kind, key string, closedAt quota.Time, f *packedState) bool {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(key)+maxPacked+headBytes > chunkBytes/2 || len(s.chunks) > maxChunks {
		return false
	}
	if s.used+1 > len(s.index)*5/8 {
		s.rebuild(c, nil)
	}
	s.buf = f.append(appendRecordStart(s.buf[:0], s.kinds.number(k), key, int64(closedAt-c.born)))
	s.enter(hash, s.append(s.buf))
	s.live++
	c.size.Add(1)
	return true
}

func (c *compactStore) closedAt(r *record) quota.Time { return c.born + quota.Time(r.since) }

// appendRecordStart writes a record up to the packed state. It leaves the head to append.
func appendRecordStart[K string | []byte](to []byte, kind int, key K, since int64) []byte {
	to = binary.AppendUvarint(append(to, 0, 0), uint64(kind))
	to = append(binary.AppendUvarint(to, uint64(len(key))), key...)
	return binary.AppendVarint(to, since)
}

// append adds a record, which begins with room for its head, and returns its place. A shard is full at half of the
// places that an index entry can express, so records may grow when the shard is rebuilt.
func (s *compactLog) append(rec []byte) (at int) {
	size := (len(rec) + placeUnit - 1) / placeUnit * placeUnit
	if s.end == 0 {
		s.end = 2 * placeUnit // places 0 and 1 are noPlace and lostPlace
	}
	if left := len(s.chunks)*chunkBytes - s.end; size > left {
		s.end += left
		if s.chunks = append(s.chunks, new([chunkBytes]byte)); len(s.chunks) == 1 {
			s.end = 2 * placeUnit
		}
	}
	at = s.end
	s.end += size
	to := s.bytes(at)
	copy(to, rec)
	binary.LittleEndian.PutUint16(to, uint16(size/placeUnit))
	return at
}

// bytes returns the chunk's bytes from a place on.
func (s *compactLog) bytes(at int) []byte { return s.chunks[at/chunkBytes][at%chunkBytes:] }

// next returns the first record at a place or after it that is not removed, or false.
func (s *compactLog) next(at int) (record, bool) {
	for at = max(at, 2*placeUnit); at < s.end; {
		head := int(binary.LittleEndian.Uint16(s.bytes(at)))
		switch size := head &^ goneMark * placeUnit; {
		case size == 0: // the rest of the chunk is empty
			at = (at/chunkBytes + 1) * chunkBytes
		case head&goneMark != 0:
			at += size
		default:
			return s.record(at, size), true
		}
	}
	return record{at: s.end}, false
}

func (s *compactLog) record(at, size int) record {
	b := s.bytes(at)[headBytes:size]
	kind, n := binary.Uvarint(b)
	length, m := binary.Uvarint(b[n:])
	b = b[n+m:]
	key := b[:length]
	since, n := binary.Varint(b[length:])
	return record{at, size, int(kind), key, since, b[int(length)+n:]}
}

// find returns a key's index entry and its record.
func (s *compactShard) find(hash uint64, of *limitEntry, key string) (int, record, bool) {
	mask := len(s.index) - 1
	if mask < 0 {
		return 0, record{}, false
	}
	for i := int(hash >> 2); ; i++ {
		e := s.index[i&mask]
		if e == noPlace {
			return 0, record{}, false
		}
		if e == lostPlace || e>>placeBits<<placeBits != tag(hash) {
			continue
		}
		at := int(e&(1<<placeBits-1)) * placeUnit
		r := s.record(at, int(binary.LittleEndian.Uint16(s.bytes(at)))*placeUnit)
		if s.kinds.list[r.kind].entry == of && string(r.key) == key {
			return i & mask, r, true
		}
	}
}

// enter adds a record to the index.
func (s *compactLog) enter(hash uint64, at int) {
	mask := len(s.index) - 1
	i := int(hash>>2) & mask
	for s.index[i] > lostPlace {
		i = (i + 1) & mask
	}
	if s.index[i] == noPlace {
		s.used++
	}
	s.index[i] = tag(hash) | uint32(at/placeUnit)
}

// has reports whether a key has a record.
func (c *compactStore) has(hash uint64, of *limitEntry, key string) bool {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, ok := s.find(hash, of, key)
	return ok
}

// take removes a key's record and restores it into b, which is new. It returns false without a record.
func (c *compactStore) take(hash uint64, b *bucket) bool {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, r, ok := s.find(hash, b.entry, b.key)
	if !ok {
		return false
	}
	s.restore(c, &r, b)
	c.remove(s, i, &r)
	return true
}

// restored notes a bucket that was restored and has a hot entry.
func (c *compactStore) restored(hash uint64, b *bucket) {
	s := c.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restored = append(s.restored, b)
}

// restore sets the state of b from a record.
func (s *compactShard) restore(c *compactStore, r *record, b *bucket) {
	var f packedState
	f.parse(r.packed)
	b.as = s.kinds.list[r.kind].as
	b.restore(&f, c.closedAt(r))
}

// remove marks a record as removed. i is its index entry.
func (c *compactStore) remove(s *compactShard, i int, r *record) {
	s.index[i] = lostPlace
	b := s.bytes(r.at)
	binary.LittleEndian.PutUint16(b, binary.LittleEndian.Uint16(b)|goneMark)
	s.kinds.release(r.kind)
	s.gaps += r.size
	s.live--
	c.size.Add(-1)
}

// rebuildIfSparse rebuilds the shard if gaps, or an index that is too large, take much memory.
func (s *compactShard) rebuildIfSparse(c *compactStore) {
	if s.gaps > chunkBytes && s.gaps > s.end/6 || len(s.index) > leastIndex && s.live < len(s.index)/8 {
		s.rebuild(c, nil)
	}
}

// rebuild rebuilds the shard without gaps, and with an index that has room for more. edit, if not nil, returns a
// record's replacement, and adjusts the count of its kind; if it returns nil, the record is dropped.
func (s *compactShard) rebuild(c *compactStore, edit func(r *record, rec []byte) []byte) {
	old := s.compactLog
	size := leastIndex
	for size*5/16 < old.live {
		size *= 2
	}
	s.compactLog = compactLog{index: make([]uint32, size)}
	for r, ok := old.next(old.first); ok; r, ok = old.next(r.at + r.size) {
		if old.looked == r.at {
			s.looked = s.end
		}
		rec, of := old.bytes(r.at)[:r.size], s.kinds.list[r.kind].entry
		if edit != nil {
			rec = edit(&r, rec)
		}
		if rec == nil {
			c.size.Add(-1)
			continue
		}
		s.enter(of.keys.hashBytes(r.key), s.append(rec))
		s.live++
	}
}
