package replica

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// levels holds the levels of keys that are not full, as of the last checkpoint. A new leader builds its
// ledger from them.
type levels struct {
	mono func() time.Duration // time since the process started

	mu     sync.Mutex
	byKey  map[quota.Key]appliedLevel
	packer *packer // of the levels
	room   []byte  // to pack one
	// now is the log's own clock. It advances by the time between two checkpoints of one leader, as
	// measured by that leader's clock. So no clock can set it: it excludes the offset between the
	// clocks of two leaders, and the time while the range had no leader.
	now    quota.Time
	term   uint64     // term of the newest checkpoint
	lastAt quota.Time // time of the newest checkpoint, by its leader's clock
	terms  int        // number of terms begun; all terms before a restored snapshot count as one
	prune  int        // size at which full keys are dropped next
	forget int        // number of names in packer at which unused ones are dropped next
}

// appliedLevel is a packed level with the time at which this process learned it. For a level from a
// snapshot that is when the snapshot was read.
type appliedLevel struct {
	body    string     // without the key; see packed.go
	at      quota.Time // of the level
	applied time.Duration
	until   quota.Time // when the key is full again, by the log's clock
}

// put stores a level. The caller holds ls.mu.
func (ls *levels) put(kl *quota.KeyLevel, applied time.Duration, until quota.Time) {
	k := kl.Key
	if i := ls.packer.limitOf[k.LimitName]; i > 0 {
		k.LimitName = ls.packer.limits[i-1] // all keys of a limit share its name
	} else {
		ls.packer.limit(nil, k.LimitName)
	}
	ls.room = ls.packer.body(ls.room[:0], kl)
	ls.byKey[k] = appliedLevel{string(ls.room), kl.At, applied, until}
}

// unpack returns a stored level, but for the time Applied.
func (p *packer) unpack(k quota.Key, l *appliedLevel) quota.KeyLevel {
	kl := quota.KeyLevel{Key: k, At: l.at}
	u := unpacker{packer: p, b: []byte(l.body)}
	u.body(&kl)
	return kl
}

func newLevels(mono func() time.Duration) *levels {
	return &levels{mono: mono, byKey: map[quota.Key]appliedLevel{}, packer: newPacker(false)}
}

// lines implements leader.Lines with the levels of a moment.
type lines struct {
	byKey  map[quota.Key]appliedLevel
	packer *packer
	now    quota.Time // the log's clock
	began  quota.Time // when the process started, by the ledger's clock
}

// lines returns the levels of keys that are not full by the log's clock. It copies them in their packed form. It converts
// the time at which each was applied to a clock that reads now when the process has been running for mono.
func (ls *levels) lines(now quota.Time, mono time.Duration) *lines {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return &lines{maps.Clone(ls.byKey), ls.packer.reader(), ls.now, now.Add(-mono)}
}

// Find implements leader.Lines.
func (ls *lines) Find(k quota.Key) (quota.KeyLevel, bool) {
	l, ok := ls.byKey[k]
	if !ok || l.until <= ls.now {
		return quota.KeyLevel{}, false
	}
	kl := ls.packer.unpack(k, &l)
	kl.Applied = ls.began.Add(l.applied)
	return kl, true
}

// Drop implements leader.Lines.
func (ls *lines) Drop(k quota.Key) { delete(ls.byKey, k) }

// All implements leader.Lines.
func (ls *lines) All() iter.Seq[quota.KeyLevel] {
	return func(yield func(quota.KeyLevel) bool) {
		for k, l := range ls.byKey {
			if l.until <= ls.now {
				continue
			}
			kl := quota.KeyLevel{Key: k, At: l.at}
			u := unpacker{packer: ls.packer, b: []byte(l.body)}
			if u.head(&kl); !yield(kl) {
				return
			}
		}
	}
}

// all returns the levels of keys that are not full by the log's clock, but for the times Applied.
func (ls *levels) all() []quota.KeyLevel {
	var out []quota.KeyLevel
	now := ls.lines(0, 0)
	for k := range now.byKey {
		if kl, ok := now.Find(k); ok {
			kl.Applied = 0
			out = append(out, kl)
		}
	}
	return out
}

// first reports whether no term has begun before the current one.
func (ls *levels) first() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.terms <= 1
}

// begin counts a new term.
func (ls *levels) begin() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.terms++
}

// checkpoint applies a checkpoint. One that cannot be read changes nothing.
func (ls *levels) checkpoint(term uint64, cp *raftlogv1.Checkpoint) error {
	list, err := DecodeCheckpoint(cp)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	at, applied := quota.Time(cp.AtUnixNanos), ls.mono()
	switch {
	case ls.now == 0:
		ls.now = at
	case term == ls.term:
		ls.now += max(0, at-ls.lastAt)
	}
	ls.term, ls.lastAt = term, at
	for i := range list {
		kl := &list[i]
		ls.put(kl, applied, ls.now+max(0, kl.FullAt-at))
	}
	if len(ls.byKey) >= ls.prune {
		maps.DeleteFunc(ls.byKey, func(_ quota.Key, l appliedLevel) bool { return l.until <= ls.now })
		ls.prune = 2*len(ls.byKey) + minPrune
	}
	if ls.packer.names() >= ls.forget {
		ls.renumber()
		ls.forget = 2*ls.packer.names() + minPrune
	}
	return nil
}

// renumber forgets the limits and processes that no level names: limits that arrive with requests have
// any number of names, and every restart of a node is a new process. The caller holds ls.mu.
func (ls *levels) renumber() {
	before := ls.packer
	ls.packer = newPacker(false)
	for k, l := range ls.byKey {
		kl := before.unpack(k, &l)
		ls.put(&kl, l.applied, l.until)
	}
}

// minPrune keeps small maps and packers from being pruned at every checkpoint.
const minPrune = 1024

// parts returns the current levels, sorted by key, in messages of at most count levels and most bytes,
// as KeyLevel.MaxSize counts them. A single level may exceed most. The sequence ends with the first
// message that has fewer than count levels and More unset. parts copies the levels at once, and does
// the rest of the work while the sequence is read.
func (ls *levels) parts(count, most int) iter.Seq[*raftlogv1.RangeSnapshot] {
	ls.mu.Lock()
	head := &raftlogv1.RangeSnapshot{NowUnixNanos: int64(ls.now), Term: ls.term, LastUnixNanos: int64(ls.lastAt)}
	levels := make([]keyed, 0, len(ls.byKey))
	for k, l := range ls.byKey {
		if l.until > ls.now {
			levels = append(levels, keyed{k, l})
		}
	}
	packer := ls.packer.reader()
	ls.mu.Unlock()
	return func(yield func(*raftlogv1.RangeSnapshot) bool) {
		slices.SortFunc(levels, func(a, b keyed) int { return a.key.Compare(b.key) })
		for {
			part := &raftlogv1.RangeSnapshot{NowUnixNanos: head.NowUnixNanos, Term: head.Term, LastUnixNanos: head.LastUnixNanos}
			size, n := 0, 0
			for ; n < min(count, len(levels)); n++ {
				kl := packer.unpack(levels[n].key, &levels[n].appliedLevel)
				if size += kl.MaxSize(); size > most && n > 0 {
					part.More = true
					break
				}
				l := EncodeLevel(kl)
				l.AtUnixNanos, l.KeepNanos = int64(kl.At), int64(levels[n].until)-head.NowUnixNanos
				part.Levels = append(part.Levels, l)
			}
			levels = levels[n:]
			if !yield(part) || partEnds(part) {
				return
			}
		}
	}
}

type keyed struct {
	key quota.Key
	appliedLevel
}

// partEnds reports whether this is the last part of a range's snapshot.
func partEnds(part *raftlogv1.RangeSnapshot) bool {
	return len(part.Levels) < levelsPerPart && !part.More
}

// set replaces the state with a snapshot.
func (ls *levels) set(snap *raftlogv1.RangeSnapshot) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.terms = 1
	ls.byKey, ls.now = make(map[quota.Key]appliedLevel, len(snap.Levels)), quota.Time(snap.NowUnixNanos)
	ls.term, ls.lastAt = snap.Term, quota.Time(snap.LastUnixNanos)
	ls.packer = newPacker(false)
	applied := ls.mono()
	for _, l := range snap.Levels {
		kl := DecodeLevel(l)
		kl.At = quota.Time(l.AtUnixNanos)
		ls.put(&kl, applied, ls.now+quota.Time(l.KeepNanos))
	}
}

// EncodeLevel returns the stored form of a level.
func EncodeLevel(kl quota.KeyLevel) *raftlogv1.KeyLevel {
	out := &raftlogv1.KeyLevel{
		Namespace: kl.Key.Namespace, Limit: kl.Key.Limit, Key: kl.Key.Key,
		LevelMicroTokens: int64(kl.Level), FullAtUnixNanos: int64(kl.FullAt),
		WindowStartUnixNanos: int64(kl.WindowStart), SlopeMicroTokens: int64(kl.Slope), PeriodNanos: int64(kl.Period), FullMicroTokens: int64(kl.Full), ImplicitMicroTokens: int64(kl.Implicit),
		AnswersMicroTokens: int64(kl.Answers), AnswersUntilUnixNanos: int64(kl.AnswersUntil),
	}
	for i := range kl.Marks {
		m := &kl.Marks[i]
		out.Marks = append(out.Marks, &raftlogv1.Mark{
			Node: string(m.Node), Life: uint64(m.Incarnation), Epoch: uint64(m.Epoch),
			Used: int64(m.Used), Overdrawn: int64(m.Overdrawn), Refunded: int64(m.Refunded),
			Out: int64(m.Out), Rate: int64(m.Rate), Cap: int64(m.Cap), UntilUnixNanos: int64(m.Until), Dead: m.Dead,
		})
	}
	return out
}

// DecodeLevel decodes the output of EncodeLevel.
func DecodeLevel(l *raftlogv1.KeyLevel) quota.KeyLevel {
	out := quota.KeyLevel{
		Key:   quota.Key{LimitName: quota.LimitName{Namespace: l.Namespace, Limit: l.Limit}, Key: l.Key},
		Level: quota.Units(l.LevelMicroTokens), FullAt: quota.Time(l.FullAtUnixNanos),
		WindowStart: quota.Time(l.WindowStartUnixNanos), Slope: quota.Units(l.SlopeMicroTokens), Period: time.Duration(l.PeriodNanos), Full: quota.Units(l.FullMicroTokens), Implicit: quota.Units(l.ImplicitMicroTokens),
		Answers: quota.Units(l.AnswersMicroTokens), AnswersUntil: quota.Time(l.AnswersUntilUnixNanos),
	}
	for _, m := range l.Marks {
		out.Marks = append(out.Marks, quota.Mark{
			Node: quota.NodeID(m.Node), Incarnation: quota.Incarnation(m.Life), Epoch: quota.Seq(m.Epoch),
			Used: quota.Units(m.Used), Overdrawn: quota.Units(m.Overdrawn), Refunded: quota.Units(m.Refunded),
			Out: quota.Units(m.Out), Rate: quota.Units(m.Rate), Cap: quota.Units(m.Cap), Until: quota.Time(m.UntilUnixNanos), Dead: m.Dead,
		})
	}
	return out
}
