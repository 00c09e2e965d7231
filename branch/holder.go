package branch

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// holder is what is known of one client's part in one key.
//
// Invariant: lent is what the client was handed and is not known to have used or
// given back; the sum over all holders of a key is what the node's table has lent.
type holder struct {
	c     *client
	a     *account
	at    int // in a.holders
	epoch quota.Seq

	// Counters as last reported in this epoch.
	used, over, refused, refunded, charged, alone quota.Units

	given    quota.Units           // lent in this epoch, all together: more it cannot have used
	gen      aggregator.Generation // of lent; void when the account's is another
	lent     quota.Units
	unbacked quota.Units // part of it that no leader has granted
	lost     quota.Units // hard: booked as used for the client, which never said so
	lease    quota.Time  // when lent is over
	held     quota.Units // as last reported
	flight   []flight    // grants of tokens that are not acknowledged
	grants   quota.Seq

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

// open returns the holder of an entry, making it if there is room.
func (b *Branch) open(c *client, k quota.Key) *holder {
	if h := c.keys[k]; h != nil {
		return h
	}
	if free := b.cfg.MaxKeys - b.holders; free <= 0 || b.owned[c.owner] >= keysPerFree*free {
		return nil
	}
	a := b.keys[k]
	if a == nil {
		a = &account{key: k, level: math.Inf(1)}
		b.keys[k] = a
	}
	h := &holder{c: c, a: a, at: len(a.holders), gen: a.gen}
	a.holders = append(a.holders, h)
	c.keys[k] = h
	b.holders++
	b.owned[c.owner]++
	return h
}

// drop forgets a holder that nothing is lent to.
func (b *Branch) drop(h *holder) {
	h.quiet()
	a, last := h.a, len(h.a.holders)-1
	a.holders[h.at] = a.holders[last]
	a.holders[h.at].at = h.at
	a.holders[last] = nil
	a.holders = a.holders[:last]
	h.at = -1
	delete(h.c.keys, a.key)
	b.holders--
	if b.owned[h.c.owner]--; b.owned[h.c.owner] == 0 {
		delete(b.owned, h.c.owner)
	}
	if len(a.holders) == 0 {
		delete(b.keys, a.key)
	}
}

// quiet says that the client asks for nothing any more.
func (h *holder) quiet() {
	h.a.ask(h, 0)
	h.a.speak(h, 0)
	h.a.promise(h, 0)
	h.a.leave(h)
}

// owe sets what is lent.
func (h *holder) owe(u quota.Units) {
	h.a.lent += u - h.lent
	h.lent = u
}

// void ends what was lent in another generation: the window is over, or the node
// has opened the key again.
func (h *holder) void() {
	if h.gen != h.a.gen {
		h.owe(0)
		h.gen, h.unbacked, h.lost, h.held, h.flight = h.a.gen, 0, 0, 0, h.flight[:0]
	}
}

// booked is what came of an entry.
type booked struct {
	attempted quota.Units // since the last one
	back      quota.Units // given back
}

// settle compares an entry with the books and books the difference; false for an
// entry of an earlier opening.
func (b *Branch) settle(h *holder, e *quota.ReportEntry) (d booked, ok bool) {
	switch {
	case e.Epoch < h.epoch:
		return d, false
	case e.Epoch > h.epoch:
		b.lose(h)
		h.begin(e.Epoch)
	}
	if e.Refunded < h.refunded { // it counts from 0 in each window
		h.refunded = 0
	}
	total := min(e.Used, h.given)
	used, over := max(0, total-h.used), max(0, e.Overdrawn-h.over)
	s := aggregator.Settlement{
		Gen: h.gen, Holders: b.sharers(h.a), Silent: b.silent(h, e), Overdrawn: over,
		Refused: max(0, e.Refused-h.refused), Refunded: max(0, e.Refunded-h.refunded),
		Charged: min(over, max(0, e.Charged-h.charged)), Alone: min(over, max(0, e.Alone-h.alone)),
	}
	d.attempted = (used + over).Plus(s.Refused)
	if s.Late = h.late(e, used, over); h.past(e) {
		s.Refunded = 0
	}
	h.used, h.over, h.refused, h.refunded = max(h.used, total), max(h.over, e.Overdrawn), max(h.refused, e.Refused), max(h.refunded, e.Refunded)
	h.charged, h.alone = max(h.charged, e.Charged), max(h.alone, e.Alone)
	h.acknowledge(e.Applied)
	h.held = e.Held
	if e.Final { // it would ignore what is on its way
		h.held, h.flight = 0, h.flight[:0]
	}
	h.reckon(used, &s)
	d.back = max(0, s.Back-s.Void-s.Used)
	b.trunk.Settle(b.clock, h.a.key, s)
	return d, true
}

// sharers is how many clients may have overdrawn a key that knew nothing of each other: those
// that have it open, and a few that have begun a new attachment since. a may be nil.
func (b *Branch) sharers(a *account) int {
	if a == nil {
		return newlyAttached
	}
	return newlyAttached + len(a.holders)
}

const newlyAttached = 4

// silent is how long a client has said nothing of a key: if it never did, a lease if it was cut off in that
// time, and else no more than its report was on its way.
func (b *Branch) silent(h *holder, e *quota.ReportEntry) time.Duration {
	switch {
	case h.reported == 0 && e.Alone > 0:
		return b.cfg.Lease
	case h.reported == 0:
		return 0
	}
	return min(b.now.Sub(h.reported), remember)
}

// begin starts an epoch: its counters are from 0.
func (h *holder) begin(epoch quota.Seq) {
	h.epoch = epoch
	h.a.promise(h, 0)
	h.used, h.over, h.refused, h.refunded, h.charged, h.alone = 0, 0, 0, 0, 0, 0
	h.grants, h.flight, h.given, h.lost, h.held = 0, h.flight[:0], 0, 0, 0
}

// reckon says what of the loan is over now that so much more was used.
func (h *holder) reckon(used quota.Units, s *aggregator.Settlement) {
	live := used // of what is lent now: loans end with the window, but for a sliding one
	if l := h.a.limit; l == nil || l.Kind != quota.SlidingWindow {
		live -= min(live, s.Late)
	}
	known := min(h.lost, max(0, live-h.lent)) // it has been booked
	h.lost -= known
	s.Used = used - known
	out := min(live-known, h.lent)
	stands := min(h.held.Plus(h.flying()), h.lent-out)
	s.Back = h.lent - stands
	mine := min(h.unbacked, out)
	s.Void = min(h.unbacked, s.Back)
	s.Used, s.Overdrawn, s.Alone = s.Used-mine, s.Overdrawn+mine, s.Alone+mine
	h.unbacked -= s.Void
	h.owe(stands)
	// What was taken for lost, and neither was used nor is there, was not used.
	if back := h.lost - min(h.lost, h.held.Plus(h.flying())); back > 0 {
		h.lost -= back
		s.Refunded += back
	}
}

// past reports whether the window that an entry is about has ended.
func (h *holder) past(e *quota.ReportEntry) bool {
	ends := e.Window
	if l := h.a.limit; l != nil && l.Kind == quota.PeriodicRefill { // it begins again, unnoticed, as long as nothing is used
		ends = ends.Add(l.Rate.Per - 1)
	}
	return e.Window != 0 && ends < h.a.win
}

// late is the part of what was spent that was for a window that has ended.
func (h *holder) late(e *quota.ReportEntry, used, over quota.Units) quota.Units {
	before := min(max(0, e.Before-h.used-h.over), used+over)
	switch win := h.a.win; {
	case e.Window == 0 || win == 0:
		return 0
	case e.Window < win:
		return used + over
	case e.Window == win:
		return before
	case h.a.limit != nil && h.a.limit.Kind == quota.PeriodicRefill && e.Window < win.Add(h.a.limit.Rate.Per):
		// The client ended its window later than this node, which voided the loans of it, and
		// so began the same one later; or it ended it earlier: then its loans continue.
		return min(before, max(0, used-h.lent-h.lost))
	}
	return 0
}

// lose ends what was lent to a client that has not said what became of it: under
// hard it counts as used until the client says otherwise, under soft it comes back.
func (b *Branch) lose(h *holder) {
	h.void()
	s := aggregator.Settlement{Gen: h.gen, Back: h.lent, Void: h.unbacked}
	if l := h.a.limit; l == nil || l.Ceiling == quota.Hard {
		s.Used = h.lent - h.unbacked
		h.lost += s.Used
	}
	h.owe(0)
	h.unbacked, h.flight = 0, h.flight[:0]
	b.trunk.Settle(b.clock, h.a.key, s)
}

// flying is what is on its way to the client.
func (h *holder) flying() (sum quota.Units) {
	for _, f := range h.flight {
		sum = sum.Plus(f.tokens)
	}
	return sum
}

// acknowledge forgets the grants that the client has applied or will never apply.
func (h *holder) acknowledge(applied quota.Seq) {
	kept := h.flight[:0]
	for _, f := range h.flight {
		if f.seq > applied {
			kept = append(kept, f)
		}
	}
	h.flight = kept
}
