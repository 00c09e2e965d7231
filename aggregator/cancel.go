package aggregator

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// maxCancelled bounds the cancelled decide requests of one key: as many as can wait
// for one range. Beyond it further ones are not remembered, and what the leader
// has booked for them stays booked. The oldest are kept, because they are the
// likeliest to have arrived: what is asked when a path breaks, before it is
// known to be broken.
const maxCancelled = 4096

// cancelled holds decide requests about one key that came to nothing, and of which no
// leader is known to have heard; nil if empty. Held by bucket.mu.
type cancelled struct {
	ids  []quota.Seq
	sent int // so many of them, the first ones, are in the last report
}

func (q *cancelled) any() bool { return q != nil && len(q.ids) > 0 }

// send returns what to name in a report that leaves now.
func (q *cancelled) send() []quota.Seq {
	if !q.any() {
		return nil
	}
	q.sent = min(len(q.ids), quota.MaxCancelled)
	return slices.Clone(q.ids[:q.sent])
}

// unsend says that an answer to the last report will not be noticed.
func (q *cancelled) unsend() {
	if q != nil {
		q.sent = 0
	}
}

// acknowledge forgets what the last report named.
func (q *cancelled) acknowledge() {
	if q != nil {
		q.ids, q.sent = slices.Delete(q.ids, 0, q.sent), 0
	}
}

// Cancel says that a decide request that a Call needed to ask may have reached its
// leader, and that no answer to it will be given to the Call: it came too late,
// or never. Reports name the decide request until they are answered, so that the
// leader takes back what it has booked, or does not book it if it arrives later.
// It returns false if that was not noted: there is no room for the key, 4096
// decide requests about it are cancelled already, or the decide request has no name.
func (a *Aggregator) Cancel(clock Clock, q quota.Ask) bool {
	if q.Cost == 0 {
		return true // there is nothing to take back
	}
	s := a.table.find(q.Key.LimitName)
	for s != nil && q.ID != 0 && !s.gone.Load() {
		b := a.table.bucket(s, q.Key.Key)
		if b == nil {
			return false
		}
		if there, noted := a.cancel(clock, b, q.ID); there {
			return noted
		}
	}
	return false
}

// cancel returns false when the bucket has just been dropped from the table.
func (a *Aggregator) cancel(clock Clock, b *bucket, id quota.Seq) (there, noted bool) {
	b.lock()
	defer b.unlock()
	if b.dead {
		return false, false
	}
	if b.phase == closed {
		a.openBucket(clock(), b, b.limit())
	}
	if b.cancelled == nil {
		b.cancelled = &cancelled{}
	}
	q := b.cancelled
	if len(q.ids) >= maxCancelled {
		return true, false
	}
	q.ids = append(q.ids, id)
	a.urgent.push(b)
	return true, true
}
