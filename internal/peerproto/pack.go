package peerproto

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/quorate/quorate/internal/quota"
)

// PackedForm is the newest packed form that this version writes and reads. A node says
// in its Hello which it reads; to one that says nothing messages are sent.
const PackedForm = 1

// MaxPacked bounds the entries of one packed message of either kind, over all its
// reports or grants.
const MaxPacked = 4 * MaxEntries

// errPacked says that bytes are no packed message.
var errPacked = errors.New("not a packed message of a form that is known")

// packer appends numbers. The packed form is made of unsigned varints.
type packer struct{ b []byte }

func (p *packer) uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }

func (p *packer) int(v int64) { p.uint(zigzag(v)) }

// amount appends an amount of 0 to quota.Most. Most are whole tokens: then that is told
// in the lowest bit, and only their number.
func (p *packer) amount(u quota.Units) { p.uint(scaled(uint64(max(0, min(u, quota.Most))))) }

// level appends an amount of either sign.
func (p *packer) level(u quota.Units) {
	p.uint(scaled(uint64(max(0, min(max(u, -u), quota.Most))))<<1 | uint64(u)>>63)
}

// estimate appends an amount of 0 or more that nobody counts with: its first ten bits
// and how many follow.
func (p *packer) estimate(u quota.Units) {
	v := uint64(max(0, u))
	shift := max(0, bits.Len64(v)-estimateBits)
	p.uint(v>>shift<<shiftBits | uint64(shift))
}

const (
	estimateBits = 10 // of an estimate that are told: a thousandth of it is lost at most
	shiftBits    = 6
)

func (p *packer) text(s string) {
	p.uint(uint64(len(s)))
	p.b = append(p.b, s...)
}

// scaled is twice the number of tokens, or one more than twice that of units.
func scaled(u uint64) uint64 {
	if u%uint64(quota.Token) == 0 {
		return u / uint64(quota.Token) << 1
	}
	return u<<1 | 1
}

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

// unpacker takes numbers from the front of b. After the first fault bad is set, and all
// that is taken is 0.
type unpacker struct {
	b   []byte
	bad bool
}

func (u *unpacker) uint() uint64 {
	if len(u.b) > 0 && u.b[0] < 0x80 { // most are small
		v := u.b[0]
		u.b = u.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(u.b)
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *unpacker) uint32() uint32 {
	v := u.uint()
	if v > 1<<32-1 {
		u.b, u.bad = nil, true
		return 0
	}
	return uint32(v)
}

func (u *unpacker) int() int64 {
	v := u.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (u *unpacker) amount() quota.Units { return u.unscaled(u.uint()) }

func (u *unpacker) level() quota.Units {
	v := u.uint()
	amount := u.unscaled(v >> 1)
	if v&1 != 0 {
		return -amount
	}
	return amount
}

// unscaled undoes scaled. More than quota.Most is a fault.
func (u *unpacker) unscaled(v uint64) quota.Units {
	most := uint64(quota.Most)
	if v&1 == 0 {
		most /= uint64(quota.Token)
	}
	if v >>= 1; v > most {
		u.b, u.bad = nil, true
		return 0
	}
	if most != uint64(quota.Most) {
		v *= uint64(quota.Token)
	}
	return quota.Units(v)
}

func (u *unpacker) estimate() quota.Units {
	v := u.uint()
	shift := v & (1<<shiftBits - 1)
	if v >>= shiftBits; v >= 1<<estimateBits || bits.Len64(v)+int(shift) > 63 {
		u.b, u.bad = nil, true
		return 0
	}
	return quota.Units(v << shift)
}

// text returns the bytes of a string of at most limit bytes, valid as long as the
// message is.
func (u *unpacker) text(limit int) []byte {
	n := u.uint()
	if n > uint64(limit) || n > uint64(len(u.b)) {
		u.b, u.bad = nil, true
		return nil
	}
	s := u.b[:n]
	u.b = u.b[n:]
	return s
}

// count returns how many things follow, of at least size bytes each.
func (u *unpacker) count(limit, size int) int {
	n := u.uint()
	if n > uint64(limit) || n > uint64(len(u.b)/size) {
		u.b, u.bad = nil, true
		return 0
	}
	return int(n)
}

// fail marks the message as no good.
func (u *unpacker) fail() { u.b, u.bad = nil, true }

// names writes keys: a limit is named once as long as the next key has the same.
type names struct{ last quota.LimitName }

func (n *names) pack(p *packer, k quota.Key) {
	if k.LimitName == n.last {
		p.uint(uint64(len(k.Key))<<1 | 1)
		p.b = append(p.b, k.Key...)
		return
	}
	n.last = k.LimitName
	p.uint(uint64(len(k.Key)) << 1)
	p.b = append(p.b, k.Key...)
	p.text(k.Namespace)
	p.text(k.Limit)
}

// unpack returns a key whose strings are its own; those of its limit it shares with the
// keys before it.
func (n *names) unpack(u *unpacker) quota.Key {
	v := u.uint()
	size := v >> 1
	if size > maxPackedName || size > uint64(len(u.b)) {
		u.fail()
		return quota.Key{}
	}
	key := string(u.b[:size])
	u.b = u.b[size:]
	if v&1 == 0 {
		namespace, limit := u.text(maxPackedName), u.text(maxPackedName)
		if string(namespace) != n.last.Namespace {
			n.last.Namespace = string(namespace)
		}
		if string(limit) != n.last.Limit {
			n.last.Limit = string(limit)
		}
	}
	return quota.Key{LimitName: n.last, Key: key}
}

// maxPackedName bounds a name of any part of a key in bytes: inline limits have long
// ones.
const maxPackedName = 4096
