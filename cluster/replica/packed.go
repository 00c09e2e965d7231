package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
	"unique"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Levels are packed in log entries, and in the memory of replicas. All numbers are varints.
//
// A checkpoint is a version byte (packedVersion), the number of its levels, and these:
//
//	limit    0 and two strings, namespace and limit, where it is new; else its number, from 1 on, in the
//	         order in which limits appear
//	key      string: its length, and its bytes
//	at       time of the level after that of the checkpoint, in ns, signed
//	body     see below
//
// A body begins with flags that say which of the optional fields follow: a field that is 0 is left out.
// Times are relative to the level's own, signed. An amount is a number of tokens, times two, where it is a
// whole number of them, or else a number of micro-tokens, times two, plus one; signed.
//
// A mark begins with the process that it is about: 0, node (string) and incarnation where that is new; else its
// number, as with limits. In memory, processes are numbered for the whole range (packer).
const packedVersion = 1

// Flags of a body.
const (
	hasWindow = 1 << iota // its start, slope
	hasFull
	hasImplicit
	hasAnswers // amount, end
	hasMarks   // their number, and they
	hasSlope   // of a bucket
	hasPeriod  // of a window
)

// Flags of a mark.
const (
	markOverdrawn = 1 << iota
	markRefunded
	markOut
	markRate
	markCap
	markUntil
	markDead
)

// process is one process of a node.
type process struct {
	node        quota.NodeID
	incarnation quota.Incarnation
}

// packer numbers limits and processes. Those of a checkpoint are written into it where they first appear; those
// of a replica's memory stay in it until levels.renumber: at most twice as many as levels name, and minPrune.
type packer struct {
	limits    []quota.LimitName
	limitOf   map[quota.LimitName]uint64
	processes []process
	processOf map[process]uint64
	inline    bool // names and processes are written where they first appear
}

func newPacker(inline bool) *packer {
	return &packer{limitOf: map[quota.LimitName]uint64{}, processOf: map[process]uint64{}, inline: inline}
}

// reader returns a packer that unpacks what has been packed so far, while p packs more.
func (p *packer) reader() *packer { return &packer{processes: p.processes} }

func (p *packer) names() int { return len(p.limits) + len(p.processes) }

func (p *packer) limit(b []byte, n quota.LimitName) []byte {
	if i := p.limitOf[n]; i > 0 {
		return binary.AppendUvarint(b, i)
	}
	p.limits = append(p.limits, n)
	p.limitOf[n] = uint64(len(p.limits))
	return appendString(appendString(append(b, 0), n.Namespace), n.Limit)
}

func (p *packer) process(b []byte, m *quota.Mark) []byte {
	id := process{m.Node, m.Incarnation}
	i := p.processOf[id]
	if i == 0 {
		id.node = quota.NodeID(unique.Make(string(id.node)).Value())
		p.processes = append(p.processes, id)
		i = uint64(len(p.processes))
		p.processOf[id] = i
		if p.inline {
			return binary.AppendUvarint(appendString(append(b, 0), string(m.Node)), uint64(m.Incarnation))
		}
	}
	return binary.AppendUvarint(b, i)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendAmount(b []byte, u quota.Units) []byte {
	if whole := u / quota.Token; whole*quota.Token == u {
		return binary.AppendVarint(b, int64(whole)*2)
	}
	if u > math.MaxInt64/2 || u < math.MinInt64/2 { // no sum of tokens comes near it
		u = min(max(u, math.MinInt64/2), math.MaxInt64/2)
	}
	return binary.AppendVarint(b, int64(u)*2+1)
}

// body packs everything of a level but its key and time.
func (p *packer) body(b []byte, kl *quota.KeyLevel) []byte {
	flags := uint64(0)
	set := func(is bool, flag uint64) {
		if is {
			flags |= flag
		}
	}
	set(kl.WindowStart != 0, hasWindow)
	set(kl.WindowStart == 0 && kl.Slope != 0, hasSlope)
	set(kl.Period != 0, hasPeriod)
	set(kl.Full != 0, hasFull)
	set(kl.Implicit != 0, hasImplicit)
	set(kl.Answers != 0 || kl.AnswersUntil != 0, hasAnswers)
	set(len(kl.Marks) > 0, hasMarks)
	since := func(b []byte, t quota.Time) []byte { return binary.AppendVarint(b, int64(t-kl.At)) }
	b = binary.AppendUvarint(b, flags)
	b = since(appendAmount(b, kl.Level), kl.FullAt)
	if flags&hasWindow != 0 {
		b = appendAmount(since(b, kl.WindowStart), kl.Slope)
	}
	if flags&hasSlope != 0 {
		b = appendAmount(b, kl.Slope)
	}
	if flags&hasPeriod != 0 {
		b = binary.AppendVarint(b, int64(kl.Period))
	}
	if flags&hasFull != 0 {
		b = appendAmount(b, kl.Full)
	}
	if flags&hasImplicit != 0 {
		b = appendAmount(b, kl.Implicit)
	}
	if flags&hasAnswers != 0 {
		b = since(appendAmount(b, kl.Answers), kl.AnswersUntil)
	}
	if flags&hasMarks == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(kl.Marks)))
	for i := range kl.Marks {
		m := &kl.Marks[i]
		b = p.process(b, m)
		flags = 0
		set(m.Overdrawn != 0, markOverdrawn)
		set(m.Refunded != 0, markRefunded)
		set(m.Out != 0, markOut)
		set(m.Rate != 0, markRate)
		set(m.Cap != 0, markCap)
		set(m.Until != 0, markUntil)
		set(m.Dead, markDead)
		b = binary.AppendUvarint(binary.AppendUvarint(b, flags), uint64(m.Epoch))
		b = appendAmount(b, m.Used)
		for _, f := range [...]struct {
			flag  uint64
			value quota.Units
		}{{markOverdrawn, m.Overdrawn}, {markRefunded, m.Refunded}, {markOut, m.Out}, {markRate, m.Rate}, {markCap, m.Cap}} {
			if flags&f.flag != 0 {
				b = appendAmount(b, f.value)
			}
		}
		if flags&markUntil != 0 {
			b = since(b, m.Until)
		}
	}
	return b
}

// unpacker reads what a packer has written. After an error it reads zeros.
type unpacker struct {
	packer *packer
	b      []byte
	err    error
}

var errPacked = errors.New("packed levels: cut off, or damaged")

func (u *unpacker) fail() {
	u.err, u.b = errPacked, nil
}

func (u *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) varint() int64 {
	v, n := binary.Varint(u.b)
	if n <= 0 {
		u.fail()
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) str() string {
	n := u.uvarint()
	if n > uint64(len(u.b)) {
		u.fail()
		return ""
	}
	s := string(u.b[:n])
	u.b = u.b[n:]
	return s
}

func (u *unpacker) amount() quota.Units {
	v := u.varint()
	if v&1 != 0 {
		return quota.Units(v >> 1)
	}
	if v/2 > math.MaxInt64/int64(quota.Token) || v/2 < math.MinInt64/int64(quota.Token) {
		u.fail()
		return 0
	}
	return quota.Units(v/2) * quota.Token
}

// count reads a number of things that take at least so many bytes each.
func (u *unpacker) count(each int) int {
	n := u.uvarint()
	if n > uint64(len(u.b)/each) {
		u.fail()
		return 0
	}
	return int(n)
}

func (u *unpacker) limit() quota.LimitName {
	i := u.uvarint()
	if i == 0 {
		n := quota.LimitName{Namespace: u.str(), Limit: u.str()}
		u.packer.limits = append(u.packer.limits, n)
		return n
	}
	if i > uint64(len(u.packer.limits)) {
		u.fail()
		return quota.LimitName{}
	}
	return u.packer.limits[i-1]
}

func (u *unpacker) process() process {
	i := u.uvarint()
	if i == 0 && u.packer.inline {
		p := process{quota.NodeID(u.str()), quota.Incarnation(u.uvarint())}
		u.packer.processes = append(u.packer.processes, p)
		return p
	}
	if i == 0 || i > uint64(len(u.packer.processes)) {
		u.fail()
		return process{}
	}
	return u.packer.processes[i-1]
}

// body reads a body. kl.At must be set.
func (u *unpacker) body(kl *quota.KeyLevel) { u.marks(kl, u.head(kl)) }

// head reads a body up to its marks, and returns its flags.
func (u *unpacker) head(kl *quota.KeyLevel) (flags uint64) {
	since := func() quota.Time { return kl.At + quota.Time(u.varint()) }
	flags = u.uvarint()
	kl.Level, kl.FullAt = u.amount(), since()
	if flags&hasWindow != 0 {
		kl.WindowStart, kl.Slope = since(), u.amount()
	}
	if flags&hasSlope != 0 {
		kl.Slope = u.amount()
	}
	if flags&hasPeriod != 0 {
		kl.Period = time.Duration(u.varint())
	}
	if flags&hasFull != 0 {
		kl.Full = u.amount()
	}
	if flags&hasImplicit != 0 {
		kl.Implicit = u.amount()
	}
	if flags&hasAnswers != 0 {
		kl.Answers, kl.AnswersUntil = u.amount(), since()
	}
	return flags
}

// marks reads the rest of a body.
func (u *unpacker) marks(kl *quota.KeyLevel, flags uint64) {
	if flags&hasMarks == 0 {
		return
	}
	since := func() quota.Time { return kl.At + quota.Time(u.varint()) }
	const least = 4 // bytes of a mark
	kl.Marks = make([]quota.Mark, u.count(least))
	for i := range kl.Marks {
		m := &kl.Marks[i]
		p := u.process()
		m.Node, m.Incarnation = p.node, p.incarnation
		flags := u.uvarint()
		m.Epoch, m.Used = quota.Seq(u.uvarint()), u.amount()
		m.Dead = flags&markDead != 0
		for _, f := range [...]struct {
			flag uint64
			to   *quota.Units
		}{{markOverdrawn, &m.Overdrawn}, {markRefunded, &m.Refunded}, {markOut, &m.Out}, {markRate, &m.Rate}, {markCap, &m.Cap}} {
			if flags&f.flag != 0 {
				*f.to = u.amount()
			}
		}
		if flags&markUntil != 0 {
			m.Until = since()
		}
	}
}

// EncodeCheckpoint returns the log entry's form of levels. Their time At is at or later.
func EncodeCheckpoint(at quota.Time, levels []quota.KeyLevel) *raftlogv1.Checkpoint {
	p := newPacker(true)
	b := binary.AppendUvarint([]byte{packedVersion}, uint64(len(levels)))
	for i := range levels {
		kl := &levels[i]
		b = appendString(p.limit(b, kl.Key.LimitName), kl.Key.Key)
		b = binary.AppendVarint(b, int64(kl.At-at))
		b = p.body(b, kl)
	}
	return &raftlogv1.Checkpoint{AtUnixNanos: int64(at), Packed: b}
}

// DecodeCheckpoint reads the output of EncodeCheckpoint.
func DecodeCheckpoint(cp *raftlogv1.Checkpoint) ([]quota.KeyLevel, error) {
	if len(cp.Packed) == 0 {
		return nil, nil
	}
	if v := cp.Packed[0]; v != packedVersion {
		return nil, fmt.Errorf("packed levels: version %d; this version of quorate reads %d", v, packedVersion)
	}
	u := unpacker{packer: &packer{inline: true}, b: cp.Packed[1:]}
	const least = 6 // bytes of a level
	levels := make([]quota.KeyLevel, u.count(least))
	for i := range levels {
		kl := &levels[i]
		kl.Key.LimitName = u.limit()
		kl.Key.Key = u.str()
		kl.At = quota.Time(cp.AtUnixNanos) + quota.Time(u.varint())
		u.body(kl)
	}
	if u.err == nil && len(u.b) > 0 {
		u.fail()
	}
	return levels, u.err
}
