package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const (
	// maxRequests bounds the decide requests of one member that the ledger remembers, the newest:
	// eight full messages, about half a megabyte. A forgotten one can be neither repeated nor
	// cancelled.
	maxRequests = 4096
	// keepRequests is how long the requests of a member are kept after its last one: a path that
	// was broken for that long may still deliver what was cancelled then.
	keepRequests = time.Hour
)

// requester holds the decide requests of one incarnation of a member, and those that it cancelled.
type requester struct {
	inc   quota.Incarnation
	last  quota.Time
	known map[quota.Seq]decideRequest
	order []quota.Seq // in order of arrival; a ring when full
	next  int         // index of the oldest, when full
}

// decideRequest is a request that has been answered, or cancelled: then it is a refusal without a
// booking.
type decideRequest struct {
	booking
	allowed     bool
	why         quota.Why
	wait, retry time.Duration
}

// booking is the change that an answer made to a bucket.
type booking struct {
	incarnation     uint64 // of the bucket; 0 if nothing was booked
	at, window      quota.Time
	taken           quota.Units // taken from the pool; below 0 is added to it
	tried, admitted quota.Units
	report          bool // the member reports it: see allocation.answered
}

// requester returns the record of a member's incarnation; nil if a later one is known.
func (l *Ledger) requester(now quota.Time, id quota.NodeID, inc quota.Incarnation) *requester {
	s := l.requesters[id]
	if m := l.members[id]; s != nil && inc < s.inc || m != nil && inc < m.inc {
		return nil
	}
	if s == nil || inc > s.inc {
		s = &requester{inc: inc, known: map[quota.Seq]decideRequest{}}
		l.requesters[id] = s
	}
	s.last = now
	return s
}

// remember stores a decide request, in place of the oldest if full.
func (s *requester) remember(id quota.Seq, q decideRequest) {
	if _, known := s.known[id]; !known {
		if len(s.order) < maxRequests {
			s.order = append(s.order, id)
		} else {
			delete(s.known, s.order[s.next])
			s.order[s.next] = id
			s.next = (s.next + 1) % maxRequests
		}
	}
	s.known[id] = q
}

// forgetRequesters drops the records of members that have stopped asking.
func (l *Ledger) forgetRequesters(now quota.Time) {
	for id, s := range l.requesters {
		if now.Sub(s.last) > keepRequests {
			delete(l.requesters, id)
		}
	}
}

// answerOnce answers a decide request, and books it unless it was booked before.
func (l *Ledger) answerOnce(now quota.Time, q *quota.Ask) quota.Answer {
	if q.ID == 0 || q.Cost == 0 { // nothing can be booked twice
		a, _ := l.answer(now, q)
		return a
	}
	s := l.requester(now, q.From, q.Incarnation)
	if s == nil {
		return quota.Answer{Why: quota.WhyNotHeld, RetryAfter: l.cfg.Sync}
	}
	if was, ok := s.known[q.ID]; ok {
		return l.repeat(now, q, &was)
	}
	a, b := l.answer(now, q)
	if a.Unsaved { // the caller asks again
		return a
	}
	s.remember(q.ID, decideRequest{b, a.Allowed, a.Why, a.Wait, a.RetryAfter})
	return a
}

// repeat returns the same answer, with the present level.
func (l *Ledger) repeat(now quota.Time, q *quota.Ask, was *decideRequest) quota.Answer {
	out := quota.Answer{Allowed: was.allowed, Why: was.why, Wait: was.wait, RetryAfter: was.retry, WindowStart: was.window, Report: was.report}
	if b := l.bucket(q.Key); b != nil {
		b.advance(now)
		l.addLevel(now, b, q, &out)
	}
	return out
}

// cancel reverses the bookings of decide requests whose answers the member has not used. Those that
// have not arrived yet will not be booked.
func (l *Ledger) cancel(now quota.Time, b *bucket, r *quota.Report, ids []quota.Seq) {
	if len(ids) == 0 {
		return
	}
	s := l.requester(now, r.From, r.Incarnation)
	if s == nil {
		return
	}
	for _, id := range ids {
		if q, ok := s.known[id]; ok && q.incarnation == b.incarnation {
			b.unbook(now, &q.booking, b.allocationOfProcess(r.From, r.Incarnation))
		}
		s.remember(id, decideRequest{why: quota.WhyNotHeld, retry: l.cfg.Sync})
	}
}

// unbook reverses a booking. The counts become as if it had not happened. The level does too,
// except for a window that has ended, and for a booking before the key was reset or its limit
// changed in another way than resizesWindow: there nothing returns, because the level would be
// unknown.
func (b *bucket) unbook(now quota.Time, booked *booking, al *allocation) {
	start, _ := b.pool.Bounds()
	tried, admitted, back := booked.tried, booked.admitted, booked.taken
	switch {
	case booked.report && al == nil:
		back = 0
	case booked.report: // what was dropped when the key closed does not count any more
		u := min(back, al.unreported())
		tried, admitted, back = u, u, al.reverseAnswered(u, start == booked.window)
	}
	b.attempted = max(0, b.attempted.Plus(-tried))
	b.admitted = max(0, b.admitted.Plus(-admitted))
	b.dirty = true
	b.wakeBy(now.Add(linger))
	if start != booked.window || booked.at <= b.fresh {
		return
	}
	if back > 0 {
		back = min(back, b.rooms.since(booked.at, b.room()))
		b.rooms.reduceAfter(booked.at, back)
		b.editDecided().reversed = now
	}
	b.pool.Add(back)
	b.env.Add(back)
	b.advance(now)
}

// recordsRooms reports whether rooms are recorded: where decide requests are made for the key, always
// for limits of its kind, or earlier, possibly under a limit that has changed since; and of a hard
// bucket, for refunds. A window gains nothing before it ends, so it needs no rooms; a sliding one does.
func (b *bucket) recordsRooms() bool {
	if b.tier.Kind.Windowed() && b.tier.Kind != quota.SlidingWindow {
		return false
	}
	return b.limit.AsksLeader() || b.decided != nil && b.decided.asked.at > 0 || b.limit.Ceiling == quota.Hard && b.tier.Kind == quota.TokenBucket
}

// refundsSince returns a time before which callers gave the member none of the refunds of a report: by its own statement
// (AccruedTo before it has a grant), when it wrote its report before, or received its last level from an earlier leader; 0
// if nothing is known. recorded reports whether rooms covers all time since.
func (l *Ledger) refundsSince(now quota.Time, al *allocation, e *quota.ReportEntry, opened bool) (since quota.Time, recorded bool) {
	switch gap := firstGap(e); {
	case e.Applied == 0 && e.AccruedTo > 0:
		return e.AccruedTo, e.AccruedTo >= l.started
	case !opened:
		since, recorded = al.lastWritten(), !al.restored
	case gap != unknownGap:
		since = now.Add(-gap)
	default: // with a grant, its refunds may have been booked before its allocation was forgotten
		return 0, false
	}
	if since = since.Add(-inheritMargin); !recorded { // the last report was on its way
		since = since.Add(-l.cfg.Lease)
	}
	return since, recorded
}

// fitRefund returns the part of the refund u of a member that raises the level of a hard bucket: a full bucket gains
// nothing, and it may have been full since the member booked the refund. Callers gave the tokens back later than since. If
// recorded is set, rooms covers the time from then on. Otherwise, what overflowed in it is at most what the bucket
// gained: the refill, unless others gave tokens back too.
func (l *Ledger) fitRefund(now quota.Time, b *bucket, al *allocation, since quota.Time, recorded bool, u quota.Units) quota.Units {
	if u == 0 || b.limit.Ceiling == quota.Soft || b.tier.Kind != quota.TokenBucket {
		return u
	}
	if b.fresh >= max(since, 1) {
		return 0
	}
	fits := quota.Units(0)
	if !b.raisedByOthers(al, since) {
		fits = max(0, u-refill(b.limit.Rate, now.Sub(since)))
	}
	if recorded {
		fits = max(fits, min(u, b.rooms.since(since, b.room())))
		b.rooms.reduceAfter(since, fits)
	}
	if fits > 0 {
		al.editRare(true).regained = now
	}
	return fits
}

// raisedByOthers reports whether the level has risen since then by other refunds than those of al.
func (b *bucket) raisedByOthers(al *allocation, since quota.Time) bool {
	return b.decided != nil && b.decided.reversed >= since || slices.ContainsFunc(b.allocations, func(o allocation) bool {
		return o.rarely().regained >= since && o.process != al.process
	})
}

// room is what is missing until the bucket is full.
func (b *bucket) room() quota.Units { return max(0, b.limit.BurstUnits()-b.level()) }

// rooms records the least room of the bucket over time. A full level gains nothing: had a decide
// request not been booked, the level would have been full earlier and have gained less. So no more
// of the booking is returned than the least room since.
//
// Rooms increase along the list: of the past, only the minima up to now matter.
type rooms []room

type room struct {
	at   quota.Time
	room quota.Units // least room since the previous entry
}

// maxRooms bounds the entries. At the bound two become one, with the smaller room of the two.
const maxRooms = 64

// note adds the present room, and drops earlier entries that are not below it.
func (r *rooms) note(at quota.Time, left quota.Units) {
	s := *r
	n := len(s)
	if n > 0 && s[n-1].at == at && s[n-1].room <= left {
		return
	}
	for n > 0 && s[n-1].room >= left {
		n--
	}
	if s = s[:n]; n >= maxRooms {
		for i := range n / 2 {
			s[i].at, s[i].room = s[2*i+1].at, s[2*i].room
		}
		s = s[:n/2]
	}
	s = append(s, room{at, left})
	*r = s
}

// since returns the least room after t; now is the present room.
func (r rooms) since(t quota.Time, now quota.Units) quota.Units {
	for _, e := range r {
		if e.at > t {
			return min(e.room, now)
		}
	}
	return now
}

// reduceAfter reduces the room after t.
func (r *rooms) reduceAfter(t quota.Time, by quota.Units) {
	old := *r
	*r = nil
	for _, e := range old {
		if e.at > t {
			e.room = max(0, e.room-by)
		}
		r.note(e.at, e.room)
	}
}
