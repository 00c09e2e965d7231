package peerproto

import (
	"math/bits"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// The fields of a packed entry of a report, one bit each, set for fields that are not 0. The first
// seven, the common ones, fit into one byte.
const (
	hasUsed = 1 << iota
	hasHeld
	hasAccruedTo
	hasApplied
	hasUnreported
	isStopped
	hasReturned

	hasName
	hasRefused
	hasWant
	hasOverdrawn
	hasWindow
	hasBefore
	isFinal

	hasLearn
	hasRefunded
	hasInFlight
	hasCharged
	hasAlone
	hasSaved
	hasIncarnation

	hasCancelled
	hasCost

	allOfReport = hasCost<<1 - 1
)

// Flags of the head of a packed report.
const (
	isFull       = 1 << iota
	otherProcess // incarnation or age differs from the previous report
)

// PackReports appends reports in the packed form. A key that its leader has numbered is not named:
// the decoded entry has Ref instead of Key. An amount outside 0 to quota.Most becomes the nearest
// amount within; times in Learn are kept as they are.
func PackReports(b []byte, reports []*quota.Report) []byte {
	p := newPacker(b)
	var last quota.Report
	var n names
	base := baseOf(reports)
	p.int(int64(base))
	p.uint(uint64(len(reports)))
	for _, r := range reports {
		p.reportHead(r, &last)
		epoch := quota.Seq(0)
		for i := range r.Entries {
			p.reportEntry(&r.Entries[i], &n, base, epoch)
			epoch = r.Entries[i].Epoch
		}
		last.Incarnation, last.Age = r.Incarnation, r.Age
	}
	return p.b
}

// baseOf returns a time close to those in the entries.
func baseOf(reports []*quota.Report) quota.Time {
	for _, r := range reports {
		for i := range r.Entries {
			if t := max(r.Entries[i].AccruedTo, r.Entries[i].Window); t != 0 {
				return t
			}
		}
	}
	return 0
}

func (p *packer) reportHead(r, last *quota.Report) {
	flags := uint64(0)
	if r.Full {
		flags |= isFull
	}
	if r.Incarnation != last.Incarnation || r.Age != last.Age {
		flags |= otherProcess
	}
	p.uint(flags)
	p.uint(uint64(r.Range))
	p.uint(uint64(r.Term))
	p.uint(uint64(r.Seq))
	if flags&otherProcess != 0 {
		p.uint(uint64(r.Incarnation))
		p.uint(uint64(max(0, r.Age)))
	}
	if r.Full {
		p.uint(uint64(r.Parts))
	}
	p.uint(uint64(len(r.Entries)))
}

func (p *packer) reportEntry(e *quota.ReportEntry, n *names, base quota.Time, epoch quota.Seq) {
	has := reportMask(e)
	p.uint(has)
	if has&hasName != 0 {
		n.pack(p, e.Key)
	} else {
		p.uint(uint64(e.Ref))
	}
	p.int(int64(e.Epoch - epoch))
	if has&hasUsed != 0 {
		p.amount(e.Used)
	}
	if has&hasHeld != 0 {
		p.amount(e.Held)
	}
	if has&hasAccruedTo != 0 {
		p.int(int64(e.AccruedTo - base))
	}
	if has&hasApplied != 0 {
		p.uint(uint64(e.Applied))
	}
	if has&hasUnreported != 0 {
		p.amount(e.Unreported)
	}
	if has&hasReturned != 0 {
		p.amount(e.Returned)
	}
	if has>>bits.Len(hasName) != 0 {
		p.rareOfReport(e, has, base)
	}
}

// rareOfReport appends the uncommon fields.
func (p *packer) rareOfReport(e *quota.ReportEntry, has uint64, base quota.Time) {
	if has&hasRefused != 0 {
		p.amount(e.Refused)
	}
	if has&hasWant != 0 {
		p.amount(e.Want)
	}
	if has&hasOverdrawn != 0 {
		p.amount(e.Overdrawn)
	}
	if has&hasBefore != 0 {
		p.amount(e.Before)
	}
	if has&hasRefunded != 0 {
		p.amount(e.Refunded)
	}
	if has&hasInFlight != 0 {
		p.amount(e.InFlight)
	}
	if has&hasCharged != 0 {
		p.amount(e.Charged)
	}
	if has&hasAlone != 0 {
		p.amount(e.Alone)
	}
	if has&hasSaved != 0 {
		p.amount(e.Saved)
	}
	if has&hasCost != 0 {
		p.amount(e.Cost)
	}
	if has&hasWindow != 0 {
		p.int(int64(e.Window - base))
	}
	if has&hasIncarnation != 0 {
		p.uint(uint64(e.Incarnation))
	}
	if has&hasCancelled != 0 {
		p.uint(uint64(len(e.Cancelled)))
		for _, id := range e.Cancelled {
			p.uint(uint64(id))
		}
	}
	if l := e.Learn; l != nil {
		told := uint64(0)
		if l.HasLevel {
			told = 1
		}
		p.uint(told)
		p.level(l.Level)
		p.uint(uint64(max(0, l.Age)))
		p.amount(l.Rate)
		p.amount(l.Cap)
		p.uint(uint64(max(0, l.LeaseLeft)))
		p.int(int64(l.WindowEnd))
	}
}

func reportMask(e *quota.ReportEntry) (has uint64) {
	set := func(bit uint64, is bool) {
		if is {
			has |= bit
		}
	}
	set(hasUsed, e.Used != 0)
	set(hasHeld, e.Held != 0)
	set(hasAccruedTo, e.AccruedTo != 0)
	set(hasApplied, e.Applied != 0)
	set(hasUnreported, e.Unreported != 0)
	set(isStopped, e.Stopped)
	set(hasReturned, e.Returned != 0)
	set(hasName, e.Ref == 0)
	set(hasRefused, e.Refused != 0)
	set(hasWant, e.Want != 0)
	set(hasOverdrawn, e.Overdrawn != 0)
	set(hasWindow, e.Window != 0)
	set(hasBefore, e.Before != 0)
	set(isFinal, e.Final)
	set(hasLearn, e.Learn != nil)
	set(hasRefunded, e.Refunded != 0)
	set(hasInFlight, e.InFlight != 0)
	set(hasCharged, e.Charged != 0)
	set(hasAlone, e.Alone != 0)
	set(hasSaved, e.Saved != 0)
	set(hasIncarnation, e.Incarnation != 0)
	set(hasCancelled, len(e.Cancelled) > 0)
	set(hasCost, e.Cost != 0)
	return has
}

// Reports is reusable memory for unpacked reports.
type Reports struct {
	reports []quota.Report
	entries []quota.ReportEntry
}

// Unpack returns the reports of a packed message, valid until the next call. A valid message has at
// most MaxPacked entries, amounts of 0 to quota.Most and no negative duration. An error rejects the
// whole message.
func (rs *Reports) Unpack(from quota.NodeID, data []byte) ([]quota.Report, error) {
	if len(data) == 0 || data[0] != PackedForm {
		return nil, errPacked
	}
	u := unpacker{b: data[1:]}
	var n names
	var last quota.Report
	base := quota.Time(u.int())
	rs.reports, rs.entries = rs.reports[:0], rs.entries[:0]
	for range u.count(MaxPacked, 5) {
		r := u.reportHead(&last)
		r.From = from
		size := u.count(MaxPacked-len(rs.entries), 3)
		first, epoch := len(rs.entries), quota.Seq(0)
		rs.entries = slices.Grow(rs.entries, size)[:first+size]
		r.Entries = rs.entries[first : first+size : first+size]
		for i := range r.Entries {
			e := &r.Entries[i]
			*e = quota.ReportEntry{}
			u.reportEntry(e, &n, base, epoch)
			epoch = e.Epoch
		}
		rs.reports = append(rs.reports, r)
		last.Incarnation, last.Age = r.Incarnation, r.Age
	}
	if u.bad || u.left() > 0 {
		return nil, errPacked
	}
	return rs.reports, nil
}

func (u *unpacker) reportHead(last *quota.Report) (r quota.Report) {
	flags := u.uint()
	if flags > isFull|otherProcess {
		u.fail()
	}
	r.Full = flags&isFull != 0
	r.Range = quota.RangeID(u.uint32())
	r.Term = quota.Term(u.uint())
	r.Seq = quota.Seq(u.uint())
	r.Incarnation, r.Age = last.Incarnation, last.Age
	if flags&otherProcess != 0 {
		r.Incarnation = quota.Incarnation(u.uint())
		r.Age = u.duration()
	}
	if r.Full {
		r.Parts = u.uint32()
	}
	return r
}

// duration reads a duration of 0 or more.
func (u *unpacker) duration() time.Duration {
	v := u.uint()
	if v > 1<<63-1 {
		u.fail()
		return 0
	}
	return time.Duration(v)
}

func (u *unpacker) reportEntry(e *quota.ReportEntry, n *names, base quota.Time, epoch quota.Seq) {
	has := u.uint()
	if has > allOfReport {
		u.fail()
		return
	}
	if has&hasName != 0 {
		e.Key = n.unpack(u)
	} else if e.Ref = u.uint32(); e.Ref == 0 {
		u.fail()
	}
	e.Epoch = epoch + quota.Seq(u.int())
	if has&hasUsed != 0 {
		e.Used = u.amount()
	}
	if has&hasHeld != 0 {
		e.Held = u.amount()
	}
	if has&hasAccruedTo != 0 {
		e.AccruedTo = base + quota.Time(u.int())
	}
	if has&hasApplied != 0 {
		e.Applied = quota.Seq(u.uint())
	}
	if has&hasUnreported != 0 {
		e.Unreported = u.amount()
	}
	if has&hasReturned != 0 {
		e.Returned = u.amount()
	}
	e.Stopped, e.Final = has&isStopped != 0, has&isFinal != 0
	if has>>bits.Len(hasName) != 0 {
		u.rareOfReport(e, has, base)
	}
}

func (u *unpacker) rareOfReport(e *quota.ReportEntry, has uint64, base quota.Time) {
	if has&hasRefused != 0 {
		e.Refused = u.amount()
	}
	if has&hasWant != 0 {
		e.Want = u.amount()
	}
	if has&hasOverdrawn != 0 {
		e.Overdrawn = u.amount()
	}
	if has&hasBefore != 0 {
		e.Before = u.amount()
	}
	if has&hasRefunded != 0 {
		e.Refunded = u.amount()
	}
	if has&hasInFlight != 0 {
		e.InFlight = u.amount()
	}
	if has&hasCharged != 0 {
		e.Charged = u.amount()
	}
	if has&hasAlone != 0 {
		e.Alone = u.amount()
	}
	if has&hasSaved != 0 {
		e.Saved = u.amount()
	}
	if has&hasCost != 0 {
		e.Cost = u.amount()
	}
	if has&hasWindow != 0 {
		e.Window = base + quota.Time(u.int())
	}
	if has&hasIncarnation != 0 {
		e.Incarnation = quota.Incarnation(u.uint())
	}
	if has&hasCancelled != 0 {
		for range u.count(quota.MaxCancelled, 1) {
			e.Cancelled = append(e.Cancelled, quota.Seq(u.uint()))
		}
	}
	if has&hasLearn != 0 {
		e.Learn = &quota.Learn{
			HasLevel: u.uint() != 0, Level: u.level(), Age: u.duration(), Rate: u.amount(), Cap: u.amount(), LeaseLeft: u.duration(), WindowEnd: quota.Time(u.int()),
		}
	}
}
