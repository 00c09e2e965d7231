package peerproto

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// The fields of a packed entry of a grant, one bit each. Lease, Again, Slope, Burst and the window
// are present only where they differ from the previous entry: keys of one limit share them.
const (
	hasTokens = 1 << iota
	hasRate
	hasCap
	hasLevel
	hasFree
	hasOthers
	hasUnseen

	hasSkip // the entry's line does not follow the last answered line
	newTerms
	hasRef
	isUnknown
	noLine // answers no line of a report, so key and epoch are present
	isRecall
	isClosed

	newWindow
	otherAck
	grantSaved
	grantIncarnation
	hasCredit
	hasAside
	isCentral
	isAnnounced

	allOfGrant   = isAnnounced<<1 - 1
	ofMostGrants = hasSkip - 1
)

// PackGrants appends grants in the packed form. The form omits sender and receiver. An entry that
// answers a line of a report names neither key nor epoch, because the receiver knows what it
// reported. Lines must rise. Level and Free are rounded down to a thousandth of a token, Others and
// Unseen to within a 250th. An amount outside 0 to quota.Most becomes the nearest amount within.
func PackGrants(b []byte, grants []*quota.Grant) []byte {
	p := newPacker(b)
	var n names
	last := &quota.GrantEntry{}
	at := quota.Time(0)
	p.uint(uint64(len(grants)))
	for _, g := range grants {
		p.uint(uint64(g.Range))
		p.uint(uint64(g.Term))
		p.int(int64(g.At - at))
		p.uint(uint64(g.Incarnation))
		ack := ackOf(g)
		p.uint(uint64(ack))
		p.uint(uint64(len(g.Entries)))
		line := uint32(0)
		for i := range g.Entries {
			e := &g.Entries[i]
			p.grantEntry(e, last, &n, g.At, ack, line)
			if last = e; e.Line > 0 {
				line = e.Line
			}
		}
		at = g.At
	}
	return p.b
}

// ackOf returns the report that the first entry answers; most entries answer the same.
func ackOf(g *quota.Grant) quota.Seq {
	if len(g.Entries) == 0 {
		return 0
	}
	return g.Entries[0].Ack
}

func (p *packer) grantEntry(e, last *quota.GrantEntry, n *names, at quota.Time, ack quota.Seq, line uint32) {
	has := grantMask(e, last, ack, line)
	p.uint(has)
	if has&noLine != 0 {
		n.pack(p, e.Key)
		p.uint(uint64(e.Epoch))
	}
	if has&hasSkip != 0 {
		p.uint(uint64(e.Line - line))
	}
	p.int(int64(e.Seq - last.Seq))
	if has&hasTokens != 0 {
		p.amount(e.Tokens)
	}
	if has&hasRate != 0 {
		p.amount(e.Rate)
	}
	if has&hasCap != 0 {
		p.amount(e.Cap)
	}
	if has&hasLevel != 0 {
		p.balance(e.Level)
	}
	if has&hasFree != 0 {
		p.balance(e.Free)
	}
	if has&hasOthers != 0 {
		p.rough(e.Others)
	}
	if has&hasUnseen != 0 {
		p.rough(e.Unseen)
	}
	if has&^ofMostGrants != 0 {
		p.rareOfGrant(e, has, at)
	}
}

func (p *packer) rareOfGrant(e *quota.GrantEntry, has uint64, at quota.Time) {
	if has&newTerms != 0 {
		p.uint(uint64(max(0, e.Lease)))
		p.uint(uint64(max(0, e.Again)))
		p.amount(e.Slope)
		p.amount(e.Burst)
	}
	if has&newWindow != 0 {
		p.int(int64(e.WindowStart - at))
		p.int(int64(e.WindowEnd - at))
	}
	if has&hasRef != 0 {
		p.uint(uint64(e.Ref))
	}
	if has&otherAck != 0 {
		p.uint(uint64(e.Ack))
	}
	if has&grantSaved != 0 {
		p.amount(e.Saved)
	}
	if has&grantIncarnation != 0 {
		p.uint(uint64(e.Incarnation))
	}
	if has&hasCredit != 0 {
		p.amount(e.Credit)
	}
	if has&hasAside != 0 {
		p.amount(e.Aside)
	}
}

func grantMask(e, last *quota.GrantEntry, ack quota.Seq, line uint32) (has uint64) {
	set := func(bit uint64, is bool) {
		if is {
			has |= bit
		}
	}
	set(hasTokens, e.Tokens != 0)
	set(hasRate, e.Rate != 0)
	set(hasCap, e.Cap != 0)
	set(hasLevel, e.Level != 0)
	set(hasFree, e.Free != 0)
	set(hasOthers, e.Others != 0)
	set(hasUnseen, e.Unseen != 0)
	set(hasSkip, e.Line > 0 && e.Line != line+1)
	set(newTerms, e.Lease != last.Lease || e.Again != last.Again || e.Slope != last.Slope || e.Burst != last.Burst)
	set(hasRef, e.Ref != 0)
	set(isUnknown, e.Unknown)
	set(noLine, e.Line == 0)
	set(isRecall, e.Recall)
	set(isClosed, e.Closed)
	set(newWindow, e.WindowStart != last.WindowStart || e.WindowEnd != last.WindowEnd)
	set(otherAck, e.Ack != ack)
	set(grantSaved, e.Saved != 0)
	set(grantIncarnation, e.Incarnation != 0)
	set(hasCredit, e.Credit != 0)
	set(hasAside, e.Aside != 0)
	set(isCentral, e.Central)
	set(isAnnounced, e.Announced)
	return has
}

// maxLine bounds the number of a line.
const maxLine = 1 << 30

// Grants is reusable memory for unpacked grants.
type Grants struct {
	grants  []quota.Grant
	entries []quota.GrantEntry
}

// Unpack returns the grants of a packed message, valid until the next call. A valid message has at
// most MaxPacked entries, amounts within quota.Most and no negative duration. An error rejects the
// whole message.
func (gs *Grants) Unpack(from, to quota.NodeID, data []byte) ([]quota.Grant, error) {
	if len(data) == 0 || data[0] != PackedForm {
		return nil, errPacked
	}
	u := unpacker{b: data[1:]}
	var n names
	last := &quota.GrantEntry{}
	at := quota.Time(0)
	gs.grants, gs.entries = gs.grants[:0], gs.entries[:0]
	for range u.count(MaxPacked, 6) {
		g := quota.Grant{From: from, To: to, Range: quota.RangeID(u.uint32()), Term: quota.Term(u.uint())}
		g.At = at + quota.Time(u.int())
		g.Incarnation = quota.Incarnation(u.uint())
		ack := quota.Seq(u.uint())
		size := u.count(MaxPacked-len(gs.entries), 2)
		first, line := len(gs.entries), uint32(0)
		gs.entries = slices.Grow(gs.entries, size)[:first+size]
		g.Entries = gs.entries[first : first+size : first+size]
		for i := range g.Entries {
			e := &g.Entries[i]
			*e = quota.GrantEntry{}
			u.grantEntry(e, last, &n, g.At, ack, line)
			if last = e; e.Line > 0 {
				line = e.Line
			}
		}
		gs.grants = append(gs.grants, g)
		at = g.At
	}
	if u.bad || u.left() > 0 {
		return nil, errPacked
	}
	return gs.grants, nil
}

func (u *unpacker) grantEntry(e, last *quota.GrantEntry, n *names, at quota.Time, ack quota.Seq, line uint32) {
	has := u.uint()
	if has > allOfGrant || has&noLine != 0 && has&hasSkip != 0 {
		u.fail()
		return
	}
	if has&noLine != 0 {
		e.Key = n.unpack(u)
		e.Epoch = quota.Seq(u.uint())
	} else {
		e.Line = line + 1
	}
	if has&hasSkip != 0 {
		if skip := u.uint32(); skip < 2 || skip > maxLine-line {
			u.fail()
		} else {
			e.Line = line + skip
		}
	}
	e.Seq = last.Seq + quota.Seq(u.int())
	if has&hasTokens != 0 {
		e.Tokens = u.amount()
	}
	if has&hasRate != 0 {
		e.Rate = u.amount()
	}
	if has&hasCap != 0 {
		e.Cap = u.amount()
	}
	if has&hasLevel != 0 {
		e.Level = u.balance()
	}
	if has&hasFree != 0 {
		e.Free = u.balance()
	}
	if has&hasOthers != 0 {
		e.Others = u.rough()
	}
	if has&hasUnseen != 0 {
		e.Unseen = u.rough()
	}
	e.Unknown, e.Recall, e.Closed = has&isUnknown != 0, has&isRecall != 0, has&isClosed != 0
	e.Central, e.Announced = has&isCentral != 0, has&isAnnounced != 0
	e.Lease, e.Again, e.Slope, e.Burst = last.Lease, last.Again, last.Slope, last.Burst
	e.WindowStart, e.WindowEnd, e.Ack = last.WindowStart, last.WindowEnd, ack
	if has&^ofMostGrants != 0 {
		u.rareOfGrant(e, has, at)
	}
}

func (u *unpacker) rareOfGrant(e *quota.GrantEntry, has uint64, at quota.Time) {
	if has&newTerms != 0 {
		e.Lease, e.Again = u.duration(), u.duration()
		e.Slope, e.Burst = u.amount(), u.amount()
	}
	if has&newWindow != 0 {
		e.WindowStart, e.WindowEnd = at+quota.Time(u.int()), at+quota.Time(u.int())
	}
	if has&hasRef != 0 {
		e.Ref = u.uint32()
	}
	if has&otherAck != 0 {
		e.Ack = quota.Seq(u.uint())
	}
	if has&grantSaved != 0 {
		e.Saved = u.amount()
	}
	if has&grantIncarnation != 0 {
		e.Incarnation = quota.Incarnation(u.uint())
	}
	if has&hasCredit != 0 {
		e.Credit = u.amount()
	}
	if has&hasAside != 0 {
		e.Aside = u.amount()
	}
}
