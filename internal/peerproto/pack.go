package peerproto

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/quorate/quorate/internal/quota"
)

// PackedForm is the packed form that this version writes and reads, and the first byte of each
// message. A node's Hello names the newest form that it reads; see docs/reference/formats.md.
const PackedForm = 1

// MaxPacked bounds the entries of one packed message of either kind, summed over its reports or
// grants.
const MaxPacked = 4 * MaxEntries

// errPacked reports bytes that are not a packed message.
var errPacked = errors.New("not a packed message of a form that is known")

// packer appends numbers as unsigned varints.
type packer struct{ b []byte }

func newPacker(b []byte) packer { return packer{append(b, PackedForm)} }

func (p *packer) uint(v uint64) { p.b = binary.AppendUvarint(p.b, v) }

func (p *packer) int(v int64) { p.uint(zigzag(v)) }

// amount appends an amount of 0 to quota.Most. Most amounts are whole tokens; the lowest bit marks
// these, and only their number of tokens follows.
func (p *packer) amount(u quota.Units) { p.uint(scaled(uint64(max(0, min(u, quota.Most))))) }

// level appends an amount of either sign, exactly.
func (p *packer) level(u quota.Units) {
	p.uint(scaled(uint64(max(0, min(max(u, -u), quota.Most))))<<1 | uint64(u)>>63)
}

// rough appends an amount of 0 or more that no decision counts on, in two bytes: its first eight or
// nine bits, rounded, and the number of bit pairs that follow them.
func (p *packer) rough(u quota.Units) {
	v := uint64(max(0, min(u, quota.Most)))
	pairs := (max(0, bits.Len64(v)-roughBits) + 1) / 2
	if pairs > 0 {
		v += 1 << (2*pairs - 1)
	}
	if v >>= 2 * pairs; v>>roughBits != 0 { // rounding carried into one more bit
		v, pairs = v>>2, pairs+1
	}
	p.uint(v<<pairBits | uint64(pairs))
}

const (
	roughBits = 9 // precision of rough: within a 250th
	pairBits  = 5
)

// balance appends an amount of either sign, rounded down to a thousandth of a token.
func (p *packer) balance(u quota.Units) {
	u = max(-quota.Most, min(u, quota.Most))
	m := int64(u) / thousandth
	if int64(u)%thousandth < 0 {
		m--
	}
	v := uint64(max(m, -m))
	if v%1000 == 0 {
		v = v / 1000 << 1
	} else {
		v = v<<1 | 1
	}
	p.uint(v<<1 | uint64(m)>>63)
}

// thousandth is a thousandth of a token, in units.
const thousandth = int64(quota.Token) / 1000

func (p *packer) text(s string) {
	p.uint(uint64(len(s)))
	p.b = append(p.b, s...)
}

// scaled returns twice the number of tokens, or twice the number of units plus one.
func scaled(u uint64) uint64 {
	if u%uint64(quota.Token) == 0 {
		return u / uint64(quota.Token) << 1
	}
	return u<<1 | 1
}

func zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

// unpacker reads numbers from b, starting at at. After the first fault, bad is set and every read
// returns 0.
type unpacker struct {
	b   []byte
	at  int
	bad bool
}

func (u *unpacker) uint() uint64 {
	if u.at < len(u.b) && u.b[u.at] < 0x80 { // most values are small
		u.at++
		return uint64(u.b[u.at-1])
	}
	return u.long()
}

// long is uint for values of several bytes.
func (u *unpacker) long() (v uint64) {
	rest := u.b[u.at:]
	for i, c := range rest[:min(len(rest), binary.MaxVarintLen64)] {
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if i == binary.MaxVarintLen64-1 && c > 1 {
				break // more than 64 bits
			}
			u.at += i + 1
			return v
		}
	}
	u.fail()
	return 0
}

// left returns how many bytes follow.
func (u *unpacker) left() int { return len(u.b) - u.at }

// bytes reads the next n bytes. The caller has checked that n bytes are left.
func (u *unpacker) bytes(n int) []byte {
	u.at += n
	return u.b[u.at-n : u.at]
}

func (u *unpacker) uint32() uint32 {
	v := u.uint()
	if v > 1<<32-1 {
		u.fail()
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

// unscaled reverses scaled. A value above quota.Most is a fault.
func (u *unpacker) unscaled(v uint64) quota.Units {
	most := uint64(quota.Most)
	if v&1 == 0 {
		most /= uint64(quota.Token)
	}
	if v >>= 1; v > most {
		u.fail()
		return 0
	}
	if most != uint64(quota.Most) {
		v *= uint64(quota.Token)
	}
	return quota.Units(v)
}

func (u *unpacker) rough() quota.Units {
	v := u.uint()
	shift := v & (1<<pairBits - 1) * 2
	return u.shifted(v>>pairBits, roughBits, shift)
}

// shifted returns an amount from its first bits and the number of bits that follow. A value above
// quota.Most is a fault: no packer writes it, and packing it again would give another amount.
func (u *unpacker) shifted(v uint64, most int, follow uint64) quota.Units {
	if v >= 1<<most || bits.Len64(v)+int(follow) > 63 || v<<follow > uint64(quota.Most) {
		u.fail()
		return 0
	}
	return quota.Units(v << follow)
}

func (u *unpacker) balance() quota.Units {
	v := u.uint()
	negative, most := v&1 != 0, uint64(quota.Most)/uint64(thousandth)
	fraction := v&2 != 0
	if v >>= 2; !fraction {
		if v > most/1000 {
			u.fail()
			return 0
		}
		v *= 1000
	}
	if v > most {
		u.fail()
		return 0
	}
	if negative {
		return -quota.Units(v) * quota.Units(thousandth)
	}
	return quota.Units(v) * quota.Units(thousandth)
}

// text returns the bytes of a string of at most limit bytes. They alias the message.
func (u *unpacker) text(limit int) []byte {
	n := u.uint()
	if n > uint64(limit) || n > uint64(u.left()) {
		u.fail()
		return nil
	}
	return u.bytes(int(n))
}

// count reads the number of items that follow, of at least size bytes each and at most limit.
func (u *unpacker) count(limit, size int) int {
	n := u.uint()
	if n > uint64(limit) || n > uint64(u.left()/size) {
		u.fail()
		return 0
	}
	return int(n)
}

// fail marks the message as invalid.
func (u *unpacker) fail() { u.b, u.at, u.bad = nil, 0, true }

// names encodes keys. It omits the name of a limit if the previous key has the same.
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

// unpack returns a key that does not alias the message. Keys of the same limit share its strings.
func (n *names) unpack(u *unpacker) quota.Key {
	v := u.uint()
	size := v >> 1
	if size > maxPackedName || size > uint64(u.left()) {
		u.fail()
		return quota.Key{}
	}
	key := string(u.bytes(int(size)))
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

// maxPackedName bounds each part of a key, in bytes. Inline limits have long names.
const maxPackedName = 4096
