package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

func compareProcesses(a, b Process) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Incarnation, b.Incarnation))
}

// Kept is what a replica of a range has of the last blocks: the sum of the lines of
// its log. Replicas that have applied the same lines are equal. One goroutine at a time.
type Kept struct {
	blocks map[Block]*sum
	ended  map[Process]Block // the last block of processes that stopped in order
	oldest Block             // lines of blocks before it change nothing
	newest Block
}

// sum is a block as it is known.
type sum struct {
	expected map[Process]bool
	from     map[Process]bool
	ended    map[Process]bool
	of       map[quota.LimitName][]byte // packed vectors
}

func newSum() *sum {
	return &sum{expected: map[Process]bool{}, from: map[Process]bool{}, ended: map[Process]bool{}, of: map[quota.LimitName][]byte{}}
}

// NewKept returns the state of a replica that has applied nothing.
func NewKept() *Kept { return &Kept{blocks: map[Block]*sum{}, ended: map[Process]Block{}} }

// Apply adds a line, and reports whether it changed something. A line that has a
// telling that is there already, or of a block that is no more open to
// additions, changes nothing.
func (k *Kept) Apply(l *Line) bool {
	if l.Block < k.oldest {
		return false
	}
	s := k.blocks[l.Block]
	if s == nil {
		s = newSum()
		k.blocks[l.Block] = s
	}
	for i := range l.From {
		if s.from[l.From[i]] {
			return false
		}
	}
	s.add(l)
	for _, p := range l.Ended {
		k.ended[p] = l.Block
	}
	k.newest = max(k.newest, l.Block)
	k.trim(k.newest - MaxBehind)
	return true
}

func (s *sum) add(l *Line) {
	for _, p := range l.Expected {
		s.expected[p] = true
	}
	for _, p := range l.From {
		s.from[p] = true
	}
	for _, p := range l.Ended {
		s.ended[p] = true
	}
	for i := range l.Slices {
		s.of[l.Slices[i].Limit] = appendVector(nil, s.plus(&l.Slices[i]))
	}
}

func (s *sum) plus(add *Slice) *Vector {
	out := s.vector(add.Limit)
	out.Add(&add.Counts)
	return &out
}

func (s *sum) vector(l quota.LimitName) Vector {
	packed, there := s.of[l]
	if !there {
		return Vector{}
	}
	return (&decoder{b: packed}).vector()
}

// Has reports whether the process's telling of the block is there, or can no more
// be added.
func (k *Kept) Has(p Process, b Block) bool {
	if b < k.oldest {
		return true
	}
	s := k.blocks[b]
	return s != nil && s.from[p]
}

// Open returns the first block that can still be added to.
func (k *Kept) Open() Block { return k.oldest }

// missing returns the processes that lived in the block and have not told of it,
// ordered.
func (k *Kept) missing(b Block, s *sum) []Process {
	var out []Process
	for p := range s.expected {
		if !s.from[p] && !k.over(p, b) && !k.replaced(p, b) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, compareProcesses)
	return out
}

// replaced reports whether a later process of the same node has told of the block and of the
// one before it: then this one was dead. A leader that goes by lines of before the whole cluster
// stopped expects those that lived then.
func (k *Kept) replaced(p Process, b Block) bool {
	s, before := k.blocks[b], k.blocks[b-1]
	if s == nil || before == nil {
		return false
	}
	for q := range s.from {
		if q.Node == p.Node && q.Incarnation > p.Incarnation && before.from[q] {
			return true
		}
	}
	return false
}

// MaxGrace is for how many blocks more what is no longer open to additions can be read: so
// that of an hour that is over a point can be made.
const MaxGrace = 300 / BlockSeconds

// trim closes blocks to additions, and drops those closed long enough. It goes by the log
// alone, so that replicas stay equal.
func (k *Kept) trim(oldest Block) {
	if oldest <= k.oldest {
		return
	}
	k.oldest = oldest
	maps.DeleteFunc(k.blocks, func(b Block, _ *sum) bool { return b < oldest-MaxGrace })
	maps.DeleteFunc(k.ended, func(_ Process, b Block) bool { return b < oldest-MaxGrace })
}

// Newest returns the newest block that there is a line of; false if there is none.
func (k *Kept) Newest() (Block, bool) { return k.newest, len(k.blocks) > 0 }

// First returns the block from which on nothing has been dropped; false if there is none. It is at
// the beginning of an hour where nothing was dropped of that hour, or was ever told.
func (k *Kept) First() (Block, bool) {
	if len(k.blocks) == 0 {
		return 0, false
	}
	first := k.newest
	for b := range k.blocks {
		first = min(first, b)
	}
	return max(k.oldest-MaxGrace, first-first%blocksPerHour), true
}

const blocksPerHour = 3600 / BlockSeconds

// Any reports whether there is a line of a block from from to before end.
func (k *Kept) Any(from, end Block) bool {
	for b := from; b < end; b++ {
		if k.blocks[b] != nil {
			return true
		}
	}
	return false
}

// Used reports whether something was counted in the block.
func (k *Kept) Used(b Block) bool {
	s := k.blocks[b]
	return s != nil && len(s.of) > 0
}

// Limits adds the limits that were asked for from from to before end.
func (k *Kept) Limits(from, end Block, out map[quota.LimitName]bool) {
	for b, s := range k.blocks {
		if b < from || b >= end {
			continue
		}
		for l := range s.of {
			out[l] = true
		}
	}
}

// Covered returns whether every block from from to before end is complete, and who is
// missing in them.
func (k *Kept) Covered(from, end Block) Point {
	p := Point{Start: from.First(), Seconds: int(end-from) * BlockSeconds, Complete: end > from}
	for b := from; b < end; b++ {
		if s := k.blocks[b]; s != nil {
			p.miss(k.missing(b, s))
		} else {
			p.Complete = false
		}
	}
	return p
}

// Seconds returns a point for each second from from to before end that the log reaches.
func (k *Kept) Seconds(limit quota.LimitName, from, end Second) []Point {
	var out []Point
	for b := from.Block(); b.First() < end; b++ {
		s := k.blocks[b]
		if s == nil {
			continue
		}
		v, missing := s.vector(limit), k.missing(b, s)
		for i := range v {
			at := b.First() + Second(i)
			if at < from || at >= end {
				continue
			}
			u := v[i].Attempted
			p := Point{Start: at, Seconds: 1, Counts: v[i], Peak: u, Mean: u, P50: u, P95: u, P99: u, Complete: true}
			p.miss(missing)
			out = append(out, p)
		}
	}
	return out
}

// expect adds who was expected in the block, or in the last one before it that the log
// has: of those who have not ended since, and have no later life.
func (k *Kept) expect(b Block, out map[Process]bool) {
	if s := k.blocks[b]; s != nil {
		maps.Copy(out, s.expected)
		return
	}
	for at := b - 1; at >= max(k.oldest, b-MaxBehind); at-- {
		s := k.blocks[at]
		if s == nil {
			continue
		}
		newest := map[quota.NodeID]quota.Incarnation{}
		for p := range s.expected {
			newest[p.Node] = max(newest[p.Node], p.Incarnation)
		}
		for node, life := range newest {
			if p := (Process{node, life}); !k.over(p, b) {
				out[p] = true
			}
		}
		return
	}
}

// over reports whether a process has stopped in order before the block.
func (k *Kept) over(p Process, b Block) bool {
	last, ended := k.ended[p]
	return ended && last < b
}
