package leader

import (
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// Pushed returns the grants made since the last call that answer no report: recalls, tokens for
// members whose callers wanted them, and announcements of used-up keys. Send them unchanged. A lost
// recall or grant is made again when a member is short again. At most 4096 wait.
func (l *Ledger) Pushed() []quota.Grant {
	out := l.pushed
	l.pushed = nil
	return out
}

// maxPushed bounds the grants that wait to be sent. A member that is short asks again.
const maxPushed = 4096

// recall recalls from all members but al that may hold or accrue more than expected.
func (l *Ledger) recall(now quota.Time, b *bucket, al *allocation, why shortage) {
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al && !o.closed && o.hasExcess(l.cfg.Sync, why, b.batchSize()) {
			l.recallFrom(now, b, o)
		}
	}
}

// recallAll recalls from all members but al that hold or accrue anything, because the leader
// decides.
func (l *Ledger) recallAll(now quota.Time, b *bucket, al *allocation) {
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al && !o.closed && (o.standing() > 0 || o.charged > 0) {
			l.recallFrom(now, b, o)
		}
	}
}

// recallPresumed recalls, under soft, from members whose presumed use is large, if that of all is more than
// a quarter of the level that al receives: a short burst looks like the start of a surge, and only
// these members know which it was. It returns the tokens that they hold, which al may request
// again. If the level is at most the yield of the rate in three intervals, the presumed use is the
// use that is always in transit, and nothing is recalled.
func (l *Ledger) recallPresumed(now quota.Time, b *bucket, al *allocation, g *quota.GrantEntry) (held quota.Units) {
	if b.limit.Ceiling == quota.Hard || g.Level <= accrued(b.gains, 3*l.cfg.Sync) || g.Unseen.Plus(accrued(g.Others, l.cfg.Sync)) < g.Level/4 {
		return 0
	}
	part := float64(g.Level) / float64(2*max(1, l.nodes)) // what each may overdraw before it asks
	for i := range b.allocations {
		o := &b.allocations[i]
		age := now.Sub(o.reported)
		if o == al || o.closed || age >= 2*o.reportWithin(l.cfg.Sync) || float64(o.using)*(age+l.cfg.Sync).Seconds() <= part {
			continue
		}
		held = held.Plus(o.standing())
		l.recallFrom(now, b, o)
	}
	return held
}

// recallFrom recalls from one member, unless it was recalled or has reported within the last
// quarter of an interval.
func (l *Ledger) recallFrom(now quota.Time, b *bucket, o *allocation) {
	if len(l.pushed) >= maxPushed || now.Sub(max(o.rarely().recalled, o.reported)) < l.cfg.Sync/4 {
		return
	}
	o.editRare(true).recalled = now
	l.pushed = append(l.pushed, quota.Grant{
		Range: l.id, Term: l.term, From: l.self, To: o.node, At: now,
		Entries: []quota.GrantEntry{{Key: b.key(), Epoch: o.epoch, Recall: true}},
	})
}

// shortage is what a member got too little of.
type shortage uint8

const (
	ofRate   shortage = iota // its share of the rate is charged to others
	ofTokens                 // it has fewer tokens than its expected need
	inWant                   // its callers wanted tokens and were refused, or wait
)

func shortOf(want quota.Units) shortage {
	if want > 0 {
		return inWant
	}
	return ofTokens
}

// pushReturned grants the tokens that al has just returned, or left to others, to members whose callers
// wanted them, largest deficit first. These members know that nothing was left and will not ask
// again soon. Under soft the tokens wait for their next reports: pushed, they lie unused where the callers
// have left (sim.TestAccuracy, 10 nodes, on/off 3x).
func (l *Ledger) pushReturned(now quota.Time, b *bucket, al *allocation) {
	for len(l.pushed) < maxPushed && b.limit.Ceiling == quota.Hard {
		o, tokens := l.nextRecipient(now, b, al)
		if o == nil {
			return
		}
		o.rare.unmet = 0
		capped, lease := o.capped, now.Add(l.cfg.Lease)
		o.cap = max(o.cap, b.holds(o)+tokens)
		o.capped = max(o.capped, o.cap)
		if b.promises() {
			tokens, lease = l.limitToPromise(now, b, o, tokens, capped)
		}
		l.deliver(now, b, o, tokens, lease)
		entries := make([]quota.GrantEntry, 1)
		l.grantAt(now, b, o, tokens, b.level(), &entries[0])
		l.pushed = append(l.pushed, quota.Grant{Range: l.id, Term: l.term, From: l.self, To: o.node, At: now, Entries: entries})
	}
}

// nextRecipient returns the member, other than al, with the largest deficit among those whose callers wanted
// tokens, and what it gets.
func (l *Ledger) nextRecipient(now quota.Time, b *bucket, al *allocation) (next *allocation, tokens quota.Units) {
	free := b.pool.Level() - b.pool.Level()%quota.Token
	if free <= 0 {
		return nil, 0
	}
	room := capRooms{bucket: b}
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al || next != nil && o.deficit <= next.deficit {
			continue
		}
		lacks := l.unmetOf(now, o)
		if lacks == 0 {
			continue
		}
		if u := min(lacks, free, quota.RoundUnits(room.of(l, o))); u >= quota.Token {
			next, tokens = o, u
		}
	}
	return next, tokens
}

// hasExcess reports whether the member could return something. If the rate is short, every
// charged rate counts, because a member that has not reported for a while may be idle. Tokens are
// recalled beyond the member's average need if callers of others want them, else beyond its
// possible need.
func (al *allocation) hasExcess(sync time.Duration, why shortage, size float64) bool {
	if why == ofRate {
		return al.charged > 0
	}
	const token = float64(quota.Token)
	need := float64(al.live) * grantIntervals * sync.Seconds()
	if why == ofTokens {
		need = fairshare.Most(need, size) + size
	}
	return float64(al.standing()) > need || float64(al.charged) > 2*float64(al.live)+10*token
}
