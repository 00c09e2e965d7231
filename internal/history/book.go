package history

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a Book.
const (
	// MaxBehind is how many blocks a process keeps that no leader has taken: an hour.
	MaxBehind = 3600 / BlockSeconds
	// MaxSlices is how many slices it keeps in all: some 60 MB at the very most.
	MaxSlices = 100_000
	// MaxLimits is how many limits a block of a range has; those that are used less
	// count together, as Other.
	MaxLimits = 2000
)

// Other names what was counted of limits beyond MaxLimits.
var Other = quota.LimitName{Namespace: "@other", Limit: "@other"}

// Book is what a process has counted and leaders have not taken yet, by block and
// limit. At its bounds it forgets the oldest block (Forgotten), which then stays
// incomplete for ever. One goroutine at a time.
type Book struct {
	self Process
	home func(quota.LimitName) quota.RangeID

	ended Second // -1 while it goes on

	blocks    map[Block]*page
	first     Block   // the oldest that is kept
	kept      []Block // by range: its log has all before it
	told      []Block // by range: all before it have been told, and stay as they are
	slices    int
	forgotten int64
}

type page struct {
	of   map[quota.LimitName]*Vector
	seen []Process
}

// NewBook returns an empty book of a process that starts in that second. home names
// the range that keeps a limit's history, below ranges.
func NewBook(self Process, now Second, ranges int, home func(quota.LimitName) quota.RangeID) *Book {
	b := &Book{
		self: self, home: home, ended: -1,
		blocks: map[Block]*page{}, first: now.Block(), kept: make([]Block, ranges), told: make([]Block, ranges),
	}
	for r := range b.kept {
		b.kept[r], b.told[r] = b.first, b.first
	}
	return b
}

// Add counts what happened in a second. If its block has been told already (it is
// counted late, or the clock was set back) it counts in the first second that has not.
func (b *Book) Add(at Second, limit quota.LimitName, c Counts) {
	if c == (Counts{}) {
		return
	}
	at = max(at, b.told[b.home(limit)].First())
	p := b.page(at.Block())
	v := p.of[limit]
	if v == nil {
		v = &Vector{}
		p.of[limit] = v
		b.slices++
	}
	v[at.in()].Add(&c)
}

func (b *Book) page(at Block) *page {
	p := b.blocks[at]
	if p == nil {
		p = &page{of: map[quota.LimitName]*Vector{}}
		b.blocks[at] = p
	}
	return p
}

// Saw notes that a process was seen for the first time. Leaders that begin later know by
// it whom to wait for.
func (b *Book) Saw(now Second, p Process) {
	at := b.page(max(now.Block(), slices.Max(b.told)))
	i, there := slices.BinarySearchFunc(at.seen, p, compareProcesses)
	if !there {
		at.seen = slices.Insert(at.seen, i, p)
	}
}

// End says goodbye: nothing is counted any more. Due returns the block that is
// under way too from now on.
func (b *Book) End(now Second) { b.ended = now }

// Due returns what is to be told to the leader of the range: its blocks that are over
// and not kept, the oldest first, at most that many.
func (b *Book) Due(now Second, r quota.RangeID, most int) []Told {
	var out []Told
	for at := max(b.kept[r], b.first); b.over(at, now) && len(out) < most; at++ {
		out = append(out, b.tell(at, r))
		b.told[r] = max(b.told[r], at+1)
	}
	return out
}

// First returns the first block that Due returns; false if it returns none.
func (b *Book) First(now Second, r quota.RangeID) (Block, bool) {
	at := max(b.kept[r], b.first)
	return at, b.over(at, now)
}

// Last returns the last block that is over.
func (b *Book) Last(now Second) Block {
	if b.ended >= 0 {
		return b.ended.Block()
	}
	return now.Block() - 1
}

func (b *Book) over(at Block, now Second) bool {
	if b.ended >= 0 {
		return at <= b.ended.Block()
	}
	return at.End() <= now
}

func (b *Book) tell(at Block, r quota.RangeID) Told {
	out := Told{From: b.self, Block: at, Last: b.ended >= 0 && at == b.ended.Block()}
	p := b.blocks[at]
	if p == nil {
		return out
	}
	for limit, v := range p.of {
		if b.home(limit) == r {
			out.Slices = append(out.Slices, Slice{limit, *v})
		}
	}
	slices.SortFunc(out.Slices, func(a, b Slice) int { return compareLimits(a.Limit, b.Limit) })
	out.Seen, out.Slices = p.seen, few(out.Slices)
	return out
}

// few counts what is beyond MaxLimits, those that are used least, together with what others have counted
// together: there is one Other at most, and MaxLimits beside it.
func few(all []Slice) []Slice {
	if len(all) <= MaxLimits {
		return all
	}
	rest := Slice{Limit: Other}
	all = slices.DeleteFunc(all, func(s Slice) bool {
		if s.Limit == Other {
			rest.Counts.Add(&s.Counts)
		}
		return s.Limit == Other
	})
	slices.SortFunc(all, func(a, b Slice) int {
		x, y := a.Counts.Sum(), b.Counts.Sum()
		return cmp.Or(cmp.Compare(y.Attempted, x.Attempted), compareLimits(a.Limit, b.Limit))
	})
	for i := MaxLimits; i < len(all); i++ {
		rest.Counts.Add(&all[i].Counts)
	}
	all = append(all[:min(len(all), MaxLimits)], rest)
	slices.SortFunc(all, func(a, b Slice) int { return compareLimits(a.Limit, b.Limit) })
	return all
}

// compareLimits orders limits by namespace and name.
func compareLimits(a, b quota.LimitName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Limit, b.Limit))
}

// Kept notes that the log of the range has all of this process's blocks before next.
func (b *Book) Kept(r quota.RangeID, next Block) {
	b.kept[r] = max(b.kept[r], min(next, b.told[r]))
	b.forget()
}

// Turn forgets what is too old to be kept for leaders that cannot be reached.
func (b *Book) Turn(now Second) {
	oldest := now.Block() - MaxBehind
	for b.first < oldest || b.slices > MaxSlices && b.first < now.Block() {
		for r := range b.kept {
			if b.kept[r] <= b.first {
				b.kept[r], b.told[r] = b.first+1, max(b.told[r], b.first+1)
				b.forgotten++
			}
		}
		b.forget()
	}
}

// Forgotten counts blocks, one for each range, that no leader took in time.
func (b *Book) Forgotten() int64 { return b.forgotten }

// forget drops pages that all ranges have.
func (b *Book) forget() {
	for next := slices.Min(b.kept); b.first < next; b.first++ {
		if p := b.blocks[b.first]; p != nil {
			b.slices -= len(p.of)
			delete(b.blocks, b.first)
		}
	}
}
