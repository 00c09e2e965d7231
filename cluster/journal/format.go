package journal

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"unsafe"

	"github.com/quorate/quorate/internal/quota"
)

const (
	magic      = 0x3130_4c4e_524a_5251 // "QRJRNL01" in little-endian order
	version    = 1
	headerSize = 4096
	slotSize   = 512
	stepSlots  = 1024
	stepSize   = stepSlots * slotSize
	maxText    = 368
	// MaxSlots is the maximum number of keys in a journal.
	MaxSlots = 65_536
	maxSteps = MaxSlots / stepSlots
)

// header is the first page of the file. The fields before check never change once the file is
// created.
type header struct {
	magic, version, slotSize, stepSlots uint64
	cluster, node                       [quota.MaxNameLen]byte // padded with 0
	check                               uint64

	incarnation uint64 // of the last process that opened the file
	steps       uint64 // allocated steps

	boot   uint64 // boot ID of the machine when that process opened it; 0 is unknown
	clean  uint64 // 1: that process closed and synced it
	missed uint64 // 1: it counted on a key without a slot
	broken int64  // when counts were last missing, wall clock in ns; 0 is never
	_      [headerSize - 11*8 - 2*quota.MaxNameLen]byte
}

// slot holds the counts of one key in one process.
type slot struct {
	id                 uint64 // hash of the owner; 0 is free
	incarnation, epoch uint64
	lens               [4]uint16 // of namespace, limit and key in text; the last is 0
	halves             [2]half
	text               [maxText]byte
}

// half is one state of the counts.
type half struct {
	total, saved, before, back, window int64
	seq, check                         uint64
}

// The sizes are part of the format.
var (
	_ [headerSize]byte = [unsafe.Sizeof(header{})]byte{}
	_ [slotSize]byte   = [unsafe.Sizeof(slot{})]byte{}
)

// newHeader returns the header of a file without slots.
func newHeader(cluster string, node quota.NodeID) *header {
	h := &header{magic: magic, version: version, slotSize: slotSize, stepSlots: stepSlots}
	copy(h.cluster[:], cluster)
	copy(h.node[:], node)
	h.check = h.sum()
	return h
}

func (h *header) sum() uint64 {
	f := fnv.New64a()
	_, _ = f.Write(bytesOf(h)[:unsafe.Offsetof(h.check)]) // a hash never fails
	return f.Sum64()
}

// bytesOf returns the memory of a header or slot.
func bytesOf[T header | slot](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
}

func padded(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// verify returns an error if a file with this header is damaged, has another version, or belongs to another node or
// cluster.
func (h *header) verify(cluster string, node quota.NodeID) error {
	switch {
	case h.magic != magic:
		return fmt.Errorf("is not a journal: begins with %#x, not %#x", h.magic, uint64(magic))
	case h.version != version:
		return fmt.Errorf("has version %d; this node reads %d", h.version, version)
	case h.check != h.sum():
		return errors.New("its header is damaged: the check does not match")
	case h.slotSize != slotSize || h.stepSlots != stepSlots:
		return fmt.Errorf("has slots of %d bytes in steps of %d; must be %d and %d", h.slotSize, h.stepSlots, slotSize, stepSlots)
	case padded(h.cluster[:]) != cluster:
		return fmt.Errorf("belongs to cluster %q, not %q", padded(h.cluster[:]), cluster)
	case padded(h.node[:]) != string(node):
		return fmt.Errorf("belongs to node %q, not %q", padded(h.node[:]), node)
	case h.steps > maxSteps:
		return fmt.Errorf("claims %d steps; at most %d", h.steps, maxSteps)
	}
	return nil
}

// found is a slot in use and its index.
type found struct {
	at    int
	entry quota.RecoveredCounts
}

// content is the content of a file.
type content struct {
	steps int
	used  []found
}

// decode reads a whole file. The error lists all faults; the returned content is valid even then.
// A power failure can keep a slot and lose the header's number of steps, so decode also reads the
// slots beyond those steps.
func decode(data []byte, cluster string, node quota.NodeID) (content, error) {
	var h header
	if len(data) < headerSize {
		return content{}, fmt.Errorf("is truncated: %d bytes, less than its header of %d", len(data), headerSize)
	}
	copy(bytesOf(&h), data)
	if err := h.verify(cluster, node); err != nil {
		return content{}, err
	}
	c := content{steps: int(h.steps)}
	seen := map[quota.Opening]int{}
	var errs []error
	if want := headerSize + c.steps*stepSize; len(data) < want {
		errs = append(errs, fmt.Errorf("is truncated: %d bytes; must be %d", len(data), want))
	}
	bad := 0
	for i := 0; headerSize+i*slotSize < len(data); i++ {
		from := headerSize + i*slotSize
		var s slot
		copy(bytesOf(&s), data[from:])
		if s.id == 0 {
			continue
		}
		e, err := s.read()
		if first, twice := seen[e.Opening]; err == nil && twice {
			err = fmt.Errorf("duplicates slot %d: %v", first, e.Key)
		}
		if err == nil {
			seen[e.Opening] = i
			c.used = append(c.used, found{i, e})
			c.steps = max(c.steps, i/stepSlots+1)
			continue
		}
		if bad++; bad <= maxNamed {
			errs = append(errs, fmt.Errorf("slot %d, at byte %d: %w", i, from, err))
		}
	}
	if bad > maxNamed {
		errs = append(errs, fmt.Errorf("and %d more slots", bad-maxNamed))
	}
	return c, errors.Join(errs...)
}

// maxNamed bounds the slots that an error names.
const maxNamed = 4

// write records the owner of s. The slot must be free.
func (s *slot) write(o quota.Opening) {
	k := &o.Key
	s.incarnation, s.epoch = uint64(o.Incarnation), uint64(o.Epoch)
	s.lens = [4]uint16{uint16(len(k.Namespace)), uint16(len(k.Limit)), uint16(len(k.Key))}
	n := copy(s.text[:], k.Namespace)
	n += copy(s.text[n:], k.Limit)
	copy(s.text[n:], k.Key)
}

// hash returns the ID for the slot's owner; it is never 0.
func (s *slot) hash() uint64 {
	f := fnv.New64a()
	end := unsafe.Offsetof(s.text) + uintptr(s.textLen())
	_, _ = f.Write(bytesOf(s)[unsafe.Offsetof(s.incarnation):unsafe.Offsetof(s.halves)]) // a hash never fails
	_, _ = f.Write(bytesOf(s)[unsafe.Offsetof(s.text):end])
	return max(f.Sum64(), 1)
}

func (s *slot) textLen() int { return int(s.lens[0]) + int(s.lens[1]) + int(s.lens[2]) }

// read decodes a slot in use. It returns an error if a check fails.
func (s *slot) read() (quota.RecoveredCounts, error) {
	e := quota.RecoveredCounts{Opening: quota.Opening{Incarnation: quota.Incarnation(s.incarnation), Epoch: quota.Seq(s.epoch)}}
	if n := s.textLen(); n > maxText || s.lens[3] != 0 {
		return e, fmt.Errorf("its texts are %d bytes long; at most %d", n, maxText)
	}
	if s.id != s.hash() {
		return e, errors.New("the check of its key does not match")
	}
	a, b := int(s.lens[0]), int(s.lens[0])+int(s.lens[1])
	e.Key = quota.Key{LimitName: quota.LimitName{Namespace: string(s.text[:a]), Limit: string(s.text[a:b])}, Key: string(s.text[b:s.textLen()])}
	h := s.newest()
	if h == nil {
		return e, errors.New("the checks of its counts do not match")
	}
	e.Counts = quota.Counts{
		Total: quota.Units(h.total), Saved: quota.Units(h.saved), Before: quota.Units(h.before), Back: quota.Units(h.back),
		Window: quota.Time(h.window),
	}
	return e, nil
}

// newest returns the newest whole half, or nil.
func (s *slot) newest() *half {
	var out *half
	for i := range s.halves {
		if h := &s.halves[i]; h.check == h.sum(s.id) && (out == nil || h.seq > out.seq) {
			out = h
		}
	}
	return out
}

// sum returns the check of a half. Every write computes it; it takes four multiplications.
func (h *half) sum(id uint64) uint64 {
	a := fold(uint64(h.total)^0x9e37_79b9_7f4a_7c15, uint64(h.before)^id)
	b := fold(uint64(h.back)^0xd1b5_4a32_d192_ed03, uint64(h.window)^bits.RotateLeft64(id, 32))
	c := fold(uint64(h.saved)^0xaef1_7502_b3e5_a90b, h.seq^^id)
	return max(fold(a^c, b^0x8cb9_2ba7_2f3d_8dd7), 1)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
