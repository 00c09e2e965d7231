package clientledger

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// allocation is one client's part of one key.
//
// Invariant: allocated is the sum of the tokens that the client received and is not known to have
// used or returned. The sum over all allocations of a key is what the node's table has allocated.
type allocation struct {
	c      *client
	bucket *bucket
	at     int // index in bucket.allocations; -1 after drop
	epoch  quota.Seq

	// Counters as last reported in this epoch.
	used, over, refused, refunded, charged, alone quota.Units

	given     quota.Units           // all tokens allocated in this epoch: an upper bound of used
	gen       aggregator.Generation // generation of allocated, which is void if the bucket's differs
	allocated quota.Units
	unbacked  quota.Units // part of allocated that no leader has granted
	lost      quota.Units // hard: booked as used although the client did not report it
	lostAt    quota.Time  // end of the lease of the first of lost
	lease     quota.Time  // when allocated expires
	held      quota.Units // as last reported
	unacked   quota.Unacked
	grants    quota.Seq

	closed      bool    // the client has closed it; kept so that a repeated report is not counted again
	demand      float64 // attempted Units per second
	reported    quota.Time
	again       time.Duration
	callersWait bool        // its callers still wait: the last grant did not refuse them
	wait        quota.Units // Units that its callers wait for, or were refused
	waitAt      quota.Time
	queued      bool        // in bucket.queue
	awaited     quota.Units // part of the level that its callers are about to use
	beyond      quota.Units // part of spoken that counts in bucket.spoken: under soft, the use beyond allocated tokens
	credit      quota.Units // part of the level that it may overdraw by the last grant or any unacknowledged one
	last        quota.Units // credit of the last grant
	recalled    quota.Time
}

// open returns the allocation of an entry, adding it if there is room.
func (l *Ledger) open(c *client, k quota.Key) *allocation {
	if al := c.keys[k]; al != nil {
		return al
	}
	if l.places.TryAcquire(c.owner, 1) != fairshare.NotFull {
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
	return al
}

// drop removes an allocation that has no tokens.
func (l *Ledger) drop(al *allocation) {
	al.quiet()
	b, last := al.bucket, len(al.bucket.allocations)-1
	b.allocations[al.at] = b.allocations[last]
	b.allocations[al.at].at = al.at
	b.allocations[last] = nil
	b.allocations = b.allocations[:last]
	al.at = -1
	delete(al.c.keys, b.key)
	l.places.Release(al.c.owner, 1)
	if len(b.allocations) == 0 {
		delete(l.keys, b.key)
	}
}

// quiet removes the client's demand, credit and waiting callers from the sums of the key.
func (al *allocation) quiet() {
	al.bucket.ask(al, 0)
	al.bucket.setAwaited(al, 0)
	al.bucket.promise(al, 0)
	al.bucket.leave(al)
}

// setAllocated sets what is allocated.
func (al *allocation) setAllocated(u quota.Units) {
	al.bucket.allocated += u - al.allocated
	al.allocated = u
}

// void drops the tokens of another generation: the window has ended, or the node has opened the key
// again.
func (al *allocation) void() {
	if al.gen != al.bucket.gen {
		al.setAllocated(0)
		al.gen, al.unbacked, al.lost, al.held = al.bucket.gen, 0, 0, 0
		al.unacked.Clear()
	}
}

// booked is the result of an entry.
type booked struct {
	attempted quota.Units // since the last entry
	back      quota.Units // tokens that the client returned
}

// settle compares an entry with the allocation and books the difference. It returns false for an
// entry of an earlier epoch.
func (l *Ledger) settle(al *allocation, e *quota.ReportEntry) (d booked, ok bool) {
	switch {
	case e.Epoch < al.epoch:
		return d, false
	case e.Epoch > al.epoch:
		l.expire(al)
		al.begin(e.Epoch)
	}
	if e.Refunded < al.refunded { // Refunded restarts from 0 in each window
		al.refunded = 0
	}
	total := min(e.Used, al.given)
	used, over := max(0, total-al.used), max(0, e.Overdrawn-al.over)
	s := aggregator.Settlement{
		Gen: al.gen, Holders: al.bucket.clients(), Silent: l.silent(al, e), Overdrawn: over,
		Refused: max(0, e.Refused-al.refused), Refunded: max(0, e.Refunded-al.refunded),
		Charged: min(over, max(0, e.Charged-al.charged)), Alone: min(over, max(0, e.Alone-al.alone)),
	}
	d.attempted = (used + over).Plus(s.Refused)
	if s.Late = al.late(e, used, over); al.past(e) {
		s.Refunded = 0
	}
	al.used, al.over, al.refused, al.refunded = max(al.used, total), max(al.over, e.Overdrawn), max(al.refused, e.Refused), max(al.refunded, e.Refunded)
	al.charged, al.alone = max(al.charged, e.Charged), max(al.alone, e.Alone)
	al.unacked.Acknowledge(e.Applied)
	al.held = e.Held
	if e.Final { // it would ignore grants on their way
		al.held = 0
		al.unacked.Clear()
	}
	l.settleTokens(al, used, &s)
	d.back = max(0, s.Back-s.Void-s.Used)
	l.parent.Settle(l.clock, al.bucket.key, s)
	return d, true
}

// silent is how long a client may have used the key unreported: since its last report of the key,
// at most remember. For the first report it is a lease if the client was cut off, else 0.
func (l *Ledger) silent(al *allocation, e *quota.ReportEntry) time.Duration {
	switch {
	case al.reported == 0 && e.Alone > 0:
		return l.cfg.Lease
	case al.reported == 0:
		return 0
	}
	return min(l.now.Sub(al.reported), remember)
}

// begin starts an epoch: its counters start from 0.
func (al *allocation) begin(epoch quota.Seq) {
	al.epoch = epoch
	al.bucket.promise(al, 0)
	al.used, al.over, al.refused, al.refunded, al.charged, al.alone = 0, 0, 0, 0, 0, 0
	al.grants, al.given, al.lost, al.held = 0, 0, 0, 0
	al.unacked.Clear()
}

// settleTokens sets in s which tokens are used and which return, now that used more were used, and
// reduces the allocation to what the client may still hold.
func (l *Ledger) settleTokens(al *allocation, used quota.Units, s *aggregator.Settlement) {
	live := used // of the present allocation, which ends with the window, except for a sliding one
	if l := al.bucket.limit; l == nil || l.Kind != quota.SlidingWindow {
		live -= min(live, s.Late)
	}
	known := min(al.lost, max(0, live-al.allocated)) // booked before, by lose
	al.lost -= known
	s.Used = used - known
	out := min(live-known, al.allocated)
	standing := min(al.held.Plus(al.unacked.Tokens()), al.allocated-out)
	s.Back = al.allocated - standing
	mine := min(al.unbacked, out)
	s.Void = min(al.unbacked, s.Back)
	s.Used, s.Overdrawn, s.Alone = s.Used-mine, s.Overdrawn+mine, s.Alone+mine
	al.unbacked -= s.Void
	al.setAllocated(standing)
	// What was booked as lost, and neither was used nor is held, was not used.
	if back := al.lost - min(al.lost, al.held.Plus(al.unacked.Tokens())); back > 0 {
		al.lost -= back
		s.Refunded += l.regained(al, back)
	}
}

// regained is the part of lost tokens, which were not used after all, that the key gains. They counted as used since
// lostAt, so a bucket may have refilled as much as it has gained since.
func (l *Ledger) regained(al *allocation, lost quota.Units) quota.Units {
	limit := al.bucket.limit
	if limit == nil || limit.Kind != quota.TokenBucket {
		return lost
	}
	gained := quota.MulDivCeil(int64(quota.FromTokens(limit.Rate.Tokens)), int64(max(0, l.now.Sub(al.lostAt))), int64(limit.Rate.Per))
	return max(0, lost-quota.Units(gained))
}

// past reports whether the window of an entry has ended.
func (al *allocation) past(e *quota.ReportEntry) bool {
	ends := e.Window
	if l := al.bucket.limit; l != nil && l.Kind == quota.PeriodicRefill { // an unused window restarts without notice
		ends = ends.Add(l.Rate.Per - 1)
	}
	return e.Window != 0 && ends < al.bucket.win
}

// late is the part of the new use that belongs to a window that has ended.
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
		// Either the client ended its window later than this node, which voided its allocations,
		// and so began the same window later. Or it ended it earlier, and its allocations continue.
		return min(before, max(0, used-al.allocated-al.lost))
	}
	return 0
}

// expire ends the allocation of a client that has not reported its use: under hard it counts as used
// until the client reports otherwise; under soft it returns.
func (l *Ledger) expire(al *allocation) {
	al.void()
	s := aggregator.Settlement{Gen: al.gen, Back: al.allocated, Void: al.unbacked}
	if limit := al.bucket.limit; limit == nil || limit.Ceiling == quota.Hard {
		s.Used = al.allocated - al.unbacked
		if al.lost == 0 {
			al.lostAt = al.lease
		}
		al.lost += s.Used
	}
	al.setAllocated(0)
	al.unbacked = 0
	al.unacked.Clear()
	l.parent.Settle(l.clock, al.bucket.key, s)
}
