package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Pushed returns the grants made since the last call that answer no report, for
// other members than the one that reported: recalls of what a member holds and
// does not need, and tokens for those whose callers wanted them. Send them as
// they are; a lost one is made again when a member is short again. At most 4096
// wait.
func (l *Ledger) Pushed() []quota.Grant {
	out := l.pushed
	l.pushed = nil
	return out
}

// maxPushed bounds what waits to be sent; a member that is short asks again.
const maxPushed = 4096

// recall asks all members but h that may hold or accrue more than is foreseen.
func (l *Ledger) recall(now quota.Time, b *bucket, al *allocation, why shortage) {
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al && !o.closed && o.overstocked(l.cfg.Sync, why, b.batchSize()) {
			l.recallFrom(now, b, o)
		}
	}
}

// recallAll asks everybody but h who holds or accrues anything: the leader decides.
func (l *Ledger) recallAll(now quota.Time, b *bucket, al *allocation) {
	for i := range b.allocations {
		if o := &b.allocations[i]; o != al && !o.closed && (o.standing() > 0 || o.charged > 0) {
			l.recallFrom(now, b, o)
		}
	}
}

// doubt recalls, under soft, those whose presumed use stands against more than a quarter of the level
// that h receives: a short burst looks like the start of a surge, and only they know which it was. It
// returns what they hold, which h may ask for again. Where no more is left than the rate yields in
// three intervals, what is presumed is what is on its way all the time, and nobody is asked.
func (l *Ledger) doubt(now quota.Time, b *bucket, al *allocation, g *quota.GrantEntry) (held quota.Units) {
	if b.limit.Ceiling == quota.Hard || g.Level <= perSecond(b.gains, 3*l.cfg.Sync) || g.Unseen.Plus(perSecond(g.Others, l.cfg.Sync)) < g.Level/4 {
		return 0
	}
	part := float64(g.Level) / float64(2*max(1, l.nodes)) // what each may overdraw before it asks
	for i := range b.allocations {
		o := &b.allocations[i]
		age := now.Sub(o.reported)
		if o == al || o.closed || age >= 2*o.again || o.using*(age+l.cfg.Sync).Seconds() <= part {
			continue
		}
		held = held.Plus(o.standing())
		l.recallFrom(now, b, o)
	}
	return held
}

// recallFrom asks one member, unless it has just been asked, or has just reported.
func (l *Ledger) recallFrom(now quota.Time, b *bucket, o *allocation) {
	if len(l.pushed) >= maxPushed || now.Sub(max(o.recalled, o.reported)) < l.cfg.Sync/4 {
		return
	}
	o.recalled = now
	l.pushed = append(l.pushed, quota.Grant{
		Range: l.id, Term: l.term, From: l.self, To: o.node, At: now,
		Entries: []quota.GrantEntry{{Key: b.key, Epoch: o.epoch, Recall: true}},
	})
}

// shortage is what a member got less of than its part.
type shortage uint8

const (
	ofRate   shortage = iota // others accrue, or are charged, what would be its part
	ofTokens                 // it has fewer than it is foreseen to need
	inWant                   // its callers wanted them and were refused, or wait
)

func shortOf(want quota.Units) shortage {
	if want > 0 {
		return inWant
	}
	return ofTokens
}

// serve gives what h has just given back, or left to others, to those whose
// callers wanted it, by turns: they have heard that nothing was left, and will not
// ask again so soon.
func (l *Ledger) serve(now quota.Time, b *bucket, al *allocation) {
	for len(l.pushed) < maxPushed {
		o, tokens := l.next(now, b, al)
		if o == nil {
			return
		}
		o.unmet = 0
		capped, lease := o.capped, now.Add(l.cfg.Lease)
		o.cap = max(o.cap, b.holds(o)+tokens)
		o.capped = max(o.capped, o.cap)
		if b.promises() {
			tokens, lease = l.promised(now, b, o, tokens, capped)
		}
		l.deliver(now, b, o, tokens, lease)
		entries := make([]quota.GrantEntry, 1)
		l.grantAt(now, b, o, tokens, b.level(), &entries[0])
		l.pushed = append(l.pushed, quota.Grant{Range: l.id, Term: l.term, From: l.self, To: o.node, At: now, Entries: entries})
	}
}

// next returns the member other than h that is due most among those whose callers wanted tokens, and
// what it gets.
func (l *Ledger) next(now quota.Time, b *bucket, al *allocation) (next *allocation, tokens quota.Units) {
	free := b.pool.Level() - b.pool.Level()%quota.Token
	if free <= 0 {
		return nil, 0
	}
	room := spaces{bucket: b}
	for i := range b.allocations {
		o := &b.allocations[i]
		if o == al || next != nil && o.deficit <= next.deficit {
			continue
		}
		lacks := l.lacks(now, o)
		if lacks == 0 {
			continue
		}
		if u := min(lacks, free, quota.RoundUnits(room.of(l, o))); u >= quota.Token {
			next, tokens = o, u
		}
	}
	return next, tokens
}

// overstocked reports whether the member could do with less. A member that has a
// rate and has said nothing for a while may have gone silent since. Tokens are
// called back beyond what it will need on average when others are in want, else
// beyond what it may need.
func (al *allocation) overstocked(sync time.Duration, why shortage, size float64) bool {
	if why == ofRate {
		return al.charged > 0
	}
	const token = float64(quota.Token)
	need := al.live * ahead * sync.Seconds()
	if why == ofTokens {
		need += deviations*math.Sqrt(need*size) + size
	}
	return float64(al.standing()) > need || float64(al.charged) > 2*al.live+10*token
}
