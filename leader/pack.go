package leader

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Most buckets are not in use: nobody has reported them for seconds, but they are not full yet, or
// are still shown. The state of such a bucket is packed into bytes without pointers, about a
// quarter of what it takes otherwise. Ledger.current unpacks it without loss. Both together take
// about as long as a report.
//
// What reads many buckets, such as a list of keys, packs each of them again, so that it does
// not need memory for all of them.
//
// The fields of all groups form one sequence of numbers, which is packed. Most of them are 0 or
// small.

// packAfter is the time between two looks at the buckets that are in memory as a whole. A bucket
// that was not used between two of them is packed.
const packAfter = 2 * time.Second

// isPacked reports whether the state of the bucket is packed.
func (b *bucket) isPacked() bool { return b.state == nil }

// mayPack reports whether the packed form can hold the whole state. It leaves out what is rare, such as a change
// that waits for a checkpoint.
func (b *bucket) mayPack() bool {
	if b.wanted || b.queued || b.behind || b.live != nil || b.pendingAnswers() > 0 || len(b.rarely().outlived) > 0 {
		return false
	}
	return !slices.ContainsFunc(b.allocations, func(al allocation) bool {
		return al.number == 0 || al.logged != nil && len(al.logged.pending) > 0
	}) && !slices.ContainsFunc(b.rarely().outstanding, func(c outstanding) bool { return c.number == 0 })
}

// packBucket packs the state of a bucket. It returns false if the bucket must stay unpacked.
func (l *Ledger) packBucket(b *bucket) bool {
	if b.dropped || b.isPacked() || !b.mayPack() {
		return false
	}
	w := numbers{list: slices.Grow(l.numbers[:0], b.state.mostNumbers())}
	w.list = w.list[:cap(w.list)]
	b.state.numbers(&w, l)
	l.numbers, l.packing = w.list, pack(l.packing[:0], w.list[:w.n])
	b.packed, b.state = slices.Clone(l.packing), nil
	return true
}

// repackBucket packs a bucket again that was packed before a visit.
func (l *Ledger) repackBucket(b *bucket, wasPacked bool) {
	if wasPacked {
		l.packBucket(b)
	}
}

// unpackBucket restores the state of a packed bucket.
func (l *Ledger) unpackBucket(b *bucket) {
	l.unpackInto(b, &state{})
	b.packed = nil
	l.watch(b)
}

// peek restores the state of a packed bucket until the caller sets it to nil. Changes to it are lost.
func (l *Ledger) peek(b *bucket) {
	if l.peeked == nil {
		l.peeked = &state{}
	}
	l.unpackInto(b, l.peeked)
}

// readBucket calls read with the bucket as of now, unless it has been dropped. A packed bucket stays packed.
func (l *Ledger) readBucket(now quota.Time, b *bucket, read func()) {
	if b.dropped {
		return
	}
	peeks := b.isPacked() && b.seen == l.happened()
	if peeks {
		l.peek(b)
	} else if l.current(b) == nil {
		return
	}
	b.advance(now)
	read()
	if peeks {
		b.state = nil
	}
}

func (l *Ledger) unpackInto(b *bucket, s *state) {
	l.numbers = unpack(l.numbers[:0], b.packed)
	s.numbers(&numbers{list: l.numbers, restores: true}, l)
	b.state = s
}

// watch lists a bucket that is in memory as a whole.
func (l *Ledger) watch(b *bucket) {
	if !b.watched {
		b.watched = true
		l.watched.push(b)
	}
}

// packUnused packs buckets that were not used for packAfter. It looks at no more than most buckets, and
// returns most less the number of buckets that it has looked at.
func (l *Ledger) packUnused(now quota.Time, most int) int {
	if l.toWatch == 0 && now.Sub(l.lookedAt) >= packAfter {
		l.toWatch, l.lookedAt = l.watched.len(), now
	}
	for ; most > 0 && l.toWatch > 0; most, l.toWatch = most-1, l.toWatch-1 {
		l.visits++
		b := l.watched.pop()
		if b.watched = !b.dropped && !b.isPacked() && (b.used || !l.packBucket(b)); b.watched {
			b.used = false
			l.watched.push(b)
		}
	}
	return most
}

// process is a process of a member. All of its allocations share it.
type process struct {
	processID
	number uint32 // from 1, its place in processes; 0 if that is full
}

type processID struct {
	node quota.NodeID
	inc  quota.Incarnation
}

// processes lists the processes of members that this leader has learned of.
type processes struct {
	list []*process
	byID map[processID]*process
}

// maxProcesses bounds them: 16 processes of each of 256 nodes, half a megabyte. Buckets of members
// beyond that are not packed under this leader.
const maxProcesses = 4096

// of returns a process.
func (ps *processes) of(node quota.NodeID, inc quota.Incarnation) *process {
	id := processID{node, inc}
	p := ps.byID[id]
	if p != nil {
		return p
	}
	p = &process{processID: id}
	if len(ps.list) < maxProcesses {
		if ps.byID == nil {
			ps.byID = map[processID]*process{}
		}
		ps.list, ps.byID[id] = append(ps.list, p), p
		p.number = uint32(len(ps.list))
	}
	return p
}

// numbers turns fields into a sequence of numbers, or restores them: one list of fields serves both.
type numbers struct {
	list     []uint64
	n        int // index of the next one
	restores bool
	last     quota.Time // the last time that is not 0
}

func (w *numbers) number(v *uint64) {
	if w.restores {
		*v = w.list[w.n]
	} else {
		w.list[w.n] = *v
	}
	w.n++
}

// pack appends numbers in groups of eight: a byte that says which of them are not 0, and those as
// varints.
func pack(packed []byte, list []uint64) []byte {
	for group := range slices.Chunk(list, 8) {
		at := len(packed)
		packed = append(packed, 0)
		for i, v := range group {
			if v != 0 {
				packed[at] |= 1 << i
				packed = binary.AppendUvarint(packed, v)
			}
		}
	}
	return packed
}

// unpack appends the numbers of whole groups.
func unpack(list []uint64, packed []byte) []uint64 {
	for len(packed) > 0 {
		first := len(list)
		list = append(list, 0, 0, 0, 0, 0, 0, 0, 0)
		group := packed[0]
		packed = packed[1:]
		for ; group != 0; group &= group - 1 {
			v, size := binary.Uvarint(packed)
			list[first+bits.TrailingZeros8(group)] = v
			packed = packed[size:]
		}
	}
	return list
}

// whole adds integers.
func whole[T ~int64 | ~uint64 | ~uint32 | ~uint8](w *numbers, fields ...*T) {
	for _, f := range fields {
		v := zigzag(int64(*f))
		w.number(&v)
		*f = T(unzigzag(v))
	}
}

// zigzag encodes a number so that values near 0, also negative ones, become small.
func zigzag(i int64) uint64   { return uint64(i<<1) ^ uint64(i>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// amounts adds Units: whole tokens, which most of them are, as even numbers, others as odd ones.
func (w *numbers) amounts(fields ...*quota.Units) {
	const beyond = 1 // stands for 0 Units otherwise, which are whole tokens
	for _, f := range fields {
		i := int64(*f)
		v := zigzag(i/int64(quota.Token)) << 1
		switch {
		case i%int64(quota.Token) == 0:
		case zigzag(i) < 1<<63:
			v = zigzag(i)<<1 | 1
		default:
			v = beyond
		}
		w.number(&v)
		switch {
		case v == beyond:
			whole(w, f)
		case v&1 == 0:
			*f = quota.Units(unzigzag(v>>1)) * quota.Token
		default:
			*f = quota.Units(unzigzag(v >> 1))
		}
	}
}

// times adds times, each as the difference to the last one that is not 0. 0 stays 0.
func (w *numbers) times(fields ...*quota.Time) {
	for _, f := range fields {
		d := *f - w.last
		if d >= 0 {
			d++ // leaves 0
		}
		if *f == 0 {
			d = 0
		}
		if whole(w, &d); d == 0 {
			*f = 0
			continue
		}
		if d > 0 {
			d--
		}
		w.last += d
		*f = w.last
	}
}

// floats adds floats, with their bytes reversed: a float with few significant bits becomes a small number.
func floats[T ~float64 | ~float32](w *numbers, fields ...*T) {
	for _, f := range fields {
		v := bits.ReverseBytes64(math.Float64bits(float64(*f)))
		w.number(&v)
		*f = T(math.Float64frombits(bits.ReverseBytes64(v)))
	}
}

func (w *numbers) flags(fields ...*bool) {
	var v uint64
	for i, f := range fields {
		if *f {
			v |= 1 << i
		}
	}
	w.number(&v)
	for i, f := range fields {
		*f = v&(1<<i) != 0
	}
}

// elements adds the length of a list, and makes the list when it is restored.
func elements[T any](w *numbers, l *[]T) []T {
	n := uint64(len(*l))
	w.number(&n)
	switch {
	case !w.restores:
	case n <= uint64(cap(*l)):
		*l = (*l)[:n]
	default:
		*l = make([]T, n)
	}
	return *l
}

// present returns a part of the state that is there or not.
func present[T any](part *T, there bool) *T {
	switch {
	case !there:
		return nil
	case part == nil:
		return new(T)
	}
	return part
}

// process adds the number of a process and returns the process.
func (w *numbers) process(p *process, l *Ledger) *process {
	var n uint32
	if !w.restores {
		n = p.number
	}
	whole(w, &n)
	return l.processes.list[n-1]
}

func (w *numbers) meter(m *limiter.Meter) {
	s := m.State()
	w.amounts(&s.Level, &s.Returns)
	whole(w, &s.Rem)
	w.times(&s.At, &s.Start, &s.End)
	*m = s.Meter()
}

// mostNumbers returns an upper bound of the number of values that numbers adds.
func (s *state) mostNumbers() int {
	n := 100 + 2*len(s.rooms)
	if s.unusual != nil {
		n += 6 * len(s.unusual.outstanding)
	}
	for i := range s.allocations {
		n += 75
		if u := s.allocations[i].unacked; u != nil {
			n += 2 * len(u.Grants)
		}
	}
	return n
}

// numbers adds all fields of the state but those that follow from the limit, and those that mayPack
// excludes.
func (s *state) numbers(w *numbers, l *Ledger) {
	w.times(&s.overflowAt) // the last advance, as a rule
	w.meter(&s.pool)

	w.amounts(&s.attempted, &s.admitted, &s.listed.attempted, &s.listed.admitted)
	w.times(&s.lastUse, &s.fresh, &s.keep, &s.announced)
	whole(w, &s.ref)
	whole(w, &s.incarnation)

	for i, r := range elements(w, (*[]room)(&s.rooms)) {
		w.times(&r.at)
		w.amounts(&r.room)
		s.rooms[i] = r
	}
	w.times(&s.ended)
	w.amounts(&s.left, &s.overflowed, &s.implicit)

	w.meter(&s.env.Meter)
	w.times(&s.env.at, &s.env.from, &s.env.to)

	floats(w, &s.batchSizes.variance, &s.batchSizes.mean, &s.batchSizes.typical)
	floats(w, &s.waterLevel)
	w.times(&s.shared, &s.logged.at, &s.logged.window, &s.behindSince)
	w.amounts(&s.logged.level)
	hasDecided, isUnusual := s.decided != nil, s.unusual != nil
	w.flags(&hasDecided, &isUnusual, &s.mayOwe, &s.central, &s.logged.there, &s.dirty, &s.saved, &s.overdue)

	if s.decided = present(s.decided, hasDecided); hasDecided {
		d := s.decided
		w.times(&d.asked.at, &d.reversed)
		floats(w, &d.asked.tried, &d.asked.admit)
		w.amounts(&d.own.given, &d.own.short, &d.own.earlier, &d.own.promised.high)
		whole(w, &d.own.promised.seq)
		w.times(&d.own.promised.until, &d.own.until)
		w.flags(&d.own.unwritten)
	}
	if s.unusual = present(s.unusual, isUnusual); isUnusual {
		w.amounts(&s.unusual.forgiven, &s.unusual.over, &s.unusual.needless, &s.unusual.needlessAtMost)
		for i, c := range elements(w, &s.unusual.outstanding) {
			c.process = w.process(c.process, l)
			w.times(&c.since, &c.until)
			w.amounts(&c.tokens)
			w.flags(&c.heard)
			s.unusual.outstanding[i] = c
		}
	}

	elements(w, &s.allocations)
	for i := range s.allocations {
		s.allocations[i].numbers(w, l)
	}
}

func (al *allocation) numbers(w *numbers, l *Ledger) {
	al.process = w.process(al.process, l)
	whole(w, &al.epoch, &al.grants)
	hasLog, hasRare := al.logged != nil, al.rare != nil && *al.rare != (rareState{})
	hasUnacked := al.unacked != nil && len(al.unacked.Grants) > 0
	w.flags(&al.closed, &al.resetSinceReport, &al.restored, &al.carriedOver, &al.settlesEarlier, &al.final, &al.dead, &hasLog, &hasRare, &hasUnacked)

	w.amounts(&al.out, &al.returnable, &al.held, &al.capped, &al.rate, &al.charged, &al.cap)

	w.times(&al.from, &al.reported, &al.granted, &al.counts.from, &al.lease)
	whole(w, &al.within)
	floats(w, &al.demand, &al.live, &al.using, &al.deficit, &al.counts.n, &al.counts.a, &al.counts.b, &al.counts.took, &al.tried, &al.admit)
	w.amounts(&al.used, &al.over, &al.refused, &al.returned)

	if al.rare = present(al.rare, hasRare); hasRare {
		r := al.rare
		w.amounts(&r.owed, &r.alone, &r.refunded, &r.inFlight, &r.overflowed, &r.awaited, &r.unmet, &r.asked)
		w.times(&r.unmetAt, &r.recalled, &r.regained)
	}
	if al.unacked = present(al.unacked, hasUnacked); hasUnacked {
		w.amounts(&al.unacked.Sum)
		for i, u := range elements(w, &al.unacked.Grants) {
			whole(w, &u.Seq)
			w.amounts(&u.Tokens)
			al.unacked.Grants[i] = u
		}
	}
	if al.logged = present(al.logged, hasLog); !hasLog {
		return
	}
	g := al.logged
	p := &g.promised
	whole(w, &p.seq)
	w.times(&p.at, &p.until, &g.diedAt, &g.lapsedUntil, &g.accruedTo)
	w.amounts(&p.total, &p.high, &p.rate, &p.cap, &p.back, &g.saved, &g.want, &g.answered, &g.ended, &g.lapsed, &g.planned.tokens, &g.planned.rate, &g.planned.cap)
	w.flags(&p.final, &p.beyondLog, &g.planned.short)
}
