package leader

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const (
	// maxRequests bounds the decide requests of one member that the ledger remembers,
	// the newest: eight messages of the most that a message holds, about half a
	// megabyte. One that is forgotten can be neither repeated nor cancelled.
	maxRequests = 4096
	// keepRequests is how long those of a member that asks no more are kept: a
	// path that was broken for so long may still bring what was cancelled then.
	keepRequests = time.Hour
)

// requester is what one life of a member has asked, and what it has cancelled.
type requester struct {
	inc   quota.Incarnation
	last  quota.Time
	known map[quota.Seq]decideRequest
	order []quota.Seq // as they came; a ring when it is full
	next  int         // the oldest, when it is full
}

// decideRequest is one that has been answered, or (as a refusal, without a booking)
// cancelled.
type decideRequest struct {
	booking
	allowed     bool
	why         quota.Why
	wait, retry time.Duration
}

// booking is what an answer has changed in a bucket.
type booking struct {
	incarnation     uint64 // of the bucket; 0 without one
	at, window      quota.Time
	taken           quota.Units // out of the pool; below 0 was put in
	tried, admitted quota.Units
}

// requester returns the record of a member's life; nil if a later one is known.
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

// remember keeps a decide request in the place of the oldest.
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

// forgetRequesters drops the records of members that ask no more.
func (l *Ledger) forgetRequesters(now quota.Time) {
	for id, s := range l.requesters {
		if now.Sub(s.last) > keepRequests {
			delete(l.requesters, id)
		}
	}
}

// once answers a decide request, and books it if it has not been booked before.
func (l *Ledger) once(now quota.Time, q *quota.Ask) quota.Answer {
	if q.ID == 0 || q.Cost == 0 { // there is nothing to book twice
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
	if a.Unsaved { // it is asked again
		return a
	}
	s.remember(q.ID, decideRequest{b, a.Allowed, a.Why, a.Wait, a.RetryAfter})
	return a
}

// repeat gives an answer again, with the level of now.
func (l *Ledger) repeat(now quota.Time, q *quota.Ask, was *decideRequest) quota.Answer {
	out := quota.Answer{Allowed: was.allowed, Why: was.why, Wait: was.wait, RetryAfter: was.retry, WindowStart: was.window}
	if b := l.bucket(q.Key); b != nil {
		b.advance(now)
		out.Level, out.Aside, out.ResetAfter = b.level(), l.aside(now, b), b.resetAfter(now)
	}
	return out
}

// cancel takes back what was booked for decide requests whose answers the member has
// not used, and sees to it that those which have not arrived are not booked.
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
			b.unbook(now, &q.booking)
		}
		s.remember(id, decideRequest{why: quota.WhyNotHeld, retry: l.cfg.Sync})
	}
}

// unbook takes a booking back. The counts are as if it had never been. So is the
// level, except where that is unknown: of a window that has ended, or from
// before the key was reset or its limit changed, nothing comes back.
func (b *bucket) unbook(now quota.Time, booked *booking) {
	b.attempted = max(0, b.attempted.Plus(-booked.tried))
	b.admitted = max(0, b.admitted.Plus(-booked.admitted))
	b.dirty = true
	b.wakeBy(now.Add(linger))
	start, _ := b.pool.Bounds()
	if start != booked.window || booked.at <= b.fresh {
		return
	}
	back := booked.taken
	if back > 0 {
		back = min(back, b.rooms.since(booked.at, b.room()))
		b.rooms.fill(booked.at, back)
	}
	b.pool.Add(back)
	b.env.Add(back)
	b.advance(now)
}

// isAsked reports whether members ask about the bucket's key: always, or have done so, also by a limit that
// has changed since.
func (b *bucket) isAsked() bool { return b.limit.AsksLeader() || b.asked.at > 0 }

// room is what is missing until the bucket is full.
func (b *bucket) room() quota.Units { return max(0, b.limit.BurstUnits()-b.level()) }

// rooms remembers how little was missing until the bucket was full, over time.
// A level that is full gains no more; had a decide request not been booked, the level
// would have been full earlier, and have gained less. So no more of it is given
// back than was missing at all times since.
//
// Later entries have more room: what matters of the past are its peaks.
type rooms []room

type room struct {
	at   quota.Time
	room quota.Units // the least since the entry before
}

// maxRooms bounds the entries: at the bound two become one, which is as careful
// as the more careful of them.
const maxRooms = 64

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

// since returns the least room after t; now is that of now.
func (r rooms) since(t quota.Time, now quota.Units) quota.Units {
	for _, e := range r {
		if e.at > t {
			return min(e.room, now)
		}
	}
	return now
}

// fill takes room away after t.
func (r *rooms) fill(t quota.Time, by quota.Units) {
	old := *r
	*r = nil
	for _, e := range old {
		if e.at > t {
			e.room = max(0, e.room-by)
		}
		r.note(e.at, e.room)
	}
}
