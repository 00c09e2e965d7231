package clientledger

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// allocation is what is known of one client's part in one key.
//
// Invariant: allocated is what the client was handed and is not known to have used or
// given back; the sum over all allocations of a key is what the node's table has allocated.
type allocation struct {
	c      *client
	bucket *bucket
	at     int // in a.allocations
	epoch  quota.Seq

	// Counters as last reported in this epoch.
	used, over, refused, refunded, charged, alone quota.Units

	given     quota.Units           // allocated in this epoch, all together: more it cannot have used
	gen       aggregator.Generation // of allocated; void when the bucket's is another
	allocated quota.Units
	unbacked  quota.Units // part of it that no leader has granted
	lost      quota.Units // hard: booked as used for the client, which never said so
	lease     quota.Time  // when allocated is over
	held      quota.Units // as last reported
	flight    []flight    // grants of tokens that are not acknowledged
	grants    quota.Seq

	closed   bool    // the client has let go of it: it stays so that a repeated report is not counted again
	demand   float64 // attempted Units per second
	reported quota.Time
	again    time.Duration
	parked   bool        // its callers still wait: they were not told that there is nothing
	wait     quota.Units // what its callers wait for, or were refused
	waitAt   quota.Time
	queued   bool        // in a.queue
	spoken   quota.Units // of the level, what its callers are about to use
	beyond   quota.Units // what of that is booked in a.spoken
	credit   quota.Units // of the level, the most that it may overdraw by any grant that it may go by
	last     quota.Units // what it may by the last one
	recalled quota.Time
}

type flight struct {
	seq    quota.Seq
	tokens quota.Units
}

// maxFlight bounds unacknowledged grants of tokens: past it a client gets no
// tokens until it acknowledges.
const maxFlight = 8

// keysPerFree is how many keys one owner may have for each that is free: seven eighths of all
// at most, so that others find room.
const keysPerFree = 7

// open returns the allocation of an entry, making it if there is room.
func (l *Ledger) open(c *client, k quota.Key) *allocation {
	if al := c.keys[k]; al != nil {
		return al
	}
	if free := l.cfg.MaxKeys - l.allocations; free <= 0 || l.owned[c.owner] >= keysPerFree*free {
		return nil
	}
	b := l.keys[k]
	if b == nil {
		b = &bucket{key: k, level: math.Inf(1)}
		l.keys[k] = b
	}
	al := &allocation{c: c, bucket: b, at: len(b.allocations), gen: b.gen}
	b.allocations = append(b.allocations, al)
	c.keys[k] = al
	l.allocations++
	l.owned[c.owner]++
	return al
}

// drop forgets an allocation that nothing is allocated to.
func (l *Ledger) drop(al *allocation) {
	al.quiet()
	b, last := al.bucket, len(al.bucket.allocations)-1
	b.allocations[al.at] = b.allocations[last]
	b.allocations[al.at].at = al.at
	b.allocations[last] = nil
	b.allocations = b.allocations[:last]
	al.at = -1
	delete(al.c.keys, b.key)
	l.allocations--
	if l.owned[al.c.owner]--; l.owned[al.c.owner] == 0 {
		delete(l.owned, al.c.owner)
	}
	if len(b.allocations) == 0 {
		delete(l.keys, b.key)
	}
}

// quiet says that the client asks for nothing any more.
func (al *allocation) quiet() {
	al.bucket.ask(al, 0)
	al.bucket.speak(al, 0)
	al.bucket.promise(al, 0)
	al.bucket.leave(al)
}

// owe sets what is allocated.
func (al *allocation) owe(u quota.Units) {
	al.bucket.allocated += u - al.allocated
	al.allocated = u
}

// void ends what was allocated in another generation: the window is over, or the node
// has opened the key again.
func (al *allocation) void() {
	if al.gen != al.bucket.gen {
		al.owe(0)
		al.gen, al.unbacked, al.lost, al.held, al.flight = al.bucket.gen, 0, 0, 0, al.flight[:0]
	}
}

// booked is what came of an entry.
type booked struct {
	attempted quota.Units // since the last one
	back      quota.Units // given back
}

// settle compares an entry with the books and books the difference; false for an
// entry of an earlier opening.
func (l *Ledger) settle(al *allocation, e *quota.ReportEntry) (d booked, ok bool) {
	switch {
	case e.Epoch < al.epoch:
		return d, false
	case e.Epoch > al.epoch:
		l.lose(al)
		al.begin(e.Epoch)
	}
	if e.Refunded < al.refunded { // it counts from 0 in each window
		al.refunded = 0
	}
	total := min(e.Used, al.given)
	used, over := max(0, total-al.used), max(0, e.Overdrawn-al.over)
	s := aggregator.Settlement{
		Gen: al.gen, Holders: l.sharers(al.bucket), Silent: l.silent(al, e), Overdrawn: over,
		Refused: max(0, e.Refused-al.refused), Refunded: max(0, e.Refunded-al.refunded),
		Charged: min(over, max(0, e.Charged-al.charged)), Alone: min(over, max(0, e.Alone-al.alone)),
	}
	d.attempted = (used + over).Plus(s.Refused)
	if s.Late = al.late(e, used, over); al.past(e) {
		s.Refunded = 0
	}
	al.used, al.over, al.refused, al.refunded = max(al.used, total), max(al.over, e.Overdrawn), max(al.refused, e.Refused), max(al.refunded, e.Refunded)
	al.charged, al.alone = max(al.charged, e.Charged), max(al.alone, e.Alone)
	al.acknowledge(e.Applied)
	al.held = e.Held
	if e.Final { // it would ignore what is on its way
		al.held, al.flight = 0, al.flight[:0]
	}
	al.reckon(used, &s)
	d.back = max(0, s.Back-s.Void-s.Used)
	l.parent.Settle(l.clock, al.bucket.key, s)
	return d, true
}

// sharers is how many clients may have overdrawn a key that knew nothing of each other: those
// that have it open, and a few that have begun a new session since. a may be nil.
func (l *Ledger) sharers(b *bucket) int {
	if b == nil {
		return newlyAttached
	}
	return newlyAttached + len(b.allocations)
}

const newlyAttached = 4

// silent is how long a client has said nothing of a key: if it never did, a lease if it was cut off in that
// time, and else no more than its report was on its way.
func (l *Ledger) silent(al *allocation, e *quota.ReportEntry) time.Duration {
	switch {
	case al.reported == 0 && e.Alone > 0:
		return l.cfg.Lease
	case al.reported == 0:
		return 0
	}
	return min(l.now.Sub(al.reported), remember)
}

// begin starts an epoch: its counters are from 0.
func (al *allocation) begin(epoch quota.Seq) {
	al.epoch = epoch
	al.bucket.promise(al, 0)
	al.used, al.over, al.refused, al.refunded, al.charged, al.alone = 0, 0, 0, 0, 0, 0
	al.grants, al.flight, al.given, al.lost, al.held = 0, al.flight[:0], 0, 0, 0
}

// reckon says what of the allocation is over now that so much more was used.
func (al *allocation) reckon(used quota.Units, s *aggregator.Settlement) {
	live := used // of what is allocated now: allocations end with the window, but for a sliding one
	if l := al.bucket.limit; l == nil || l.Kind != quota.SlidingWindow {
		live -= min(live, s.Late)
	}
	known := min(al.lost, max(0, live-al.allocated)) // it has been booked
	al.lost -= known
	s.Used = used - known
	out := min(live-known, al.allocated)
	stands := min(al.held.Plus(al.flying()), al.allocated-out)
	s.Back = al.allocated - stands
	mine := min(al.unbacked, out)
	s.Void = min(al.unbacked, s.Back)
	s.Used, s.Overdrawn, s.Alone = s.Used-mine, s.Overdrawn+mine, s.Alone+mine
	al.unbacked -= s.Void
	al.owe(stands)
	// What was taken for lost, and neither was used nor is there, was not used.
	if back := al.lost - min(al.lost, al.held.Plus(al.flying())); back > 0 {
		al.lost -= back
		s.Refunded += back
	}
}

// past reports whether the window that an entry is about has ended.
func (al *allocation) past(e *quota.ReportEntry) bool {
	ends := e.Window
	if l := al.bucket.limit; l != nil && l.Kind == quota.PeriodicRefill { // it begins again, unnoticed, as long as nothing is used
		ends = ends.Add(l.Rate.Per - 1)
	}
	return e.Window != 0 && ends < al.bucket.win
}

// late is the part of what was spent that was for a window that has ended.
func (al *allocation) late(e *quota.ReportEntry, used, over quota.Units) quota.Units {
	before := min(max(0, e.Before-al.used-al.over), used+over)
	switch win := al.bucket.win; {
	case e.Window == 0 || win == 0:
		return 0
	case e.Window < win:
		return used + over
	case e.Window == win:
		return before
	case al.bucket.limit != nil && al.bucket.limit.Kind == quota.PeriodicRefill && e.Window < win.Add(al.bucket.limit.Rate.Per):
		// The client ended its window later than this node, which voided the allocations of it, and
		// so began the same one later; or it ended it earlier: then its allocations continue.
		return min(before, max(0, used-al.allocated-al.lost))
	}
	return 0
}

// lose ends what was allocated to a client that has not said what became of it: under
// hard it counts as used until the client says otherwise, under soft it comes back.
func (l *Ledger) lose(al *allocation) {
	al.void()
	s := aggregator.Settlement{Gen: al.gen, Back: al.allocated, Void: al.unbacked}
	if limit := al.bucket.limit; limit == nil || limit.Ceiling == quota.Hard {
		s.Used = al.allocated - al.unbacked
		al.lost += s.Used
	}
	al.owe(0)
	al.unbacked, al.flight = 0, al.flight[:0]
	l.parent.Settle(l.clock, al.bucket.key, s)
}

// flying is what is on its way to the client.
func (al *allocation) flying() (sum quota.Units) {
	for _, f := range al.flight {
		sum = sum.Plus(f.tokens)
	}
	return sum
}

// acknowledge forgets the grants that the client has applied or will never apply.
func (al *allocation) acknowledge(applied quota.Seq) {
	kept := al.flight[:0]
	for _, f := range al.flight {
		if f.seq > applied {
			kept = append(kept, f)
		}
	}
	al.flight = kept
}
