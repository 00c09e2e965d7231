package aggregator

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// maxCancelled bounds the cancelled decide requests of one key: as many as can wait for one range. Further ones are
// not remembered, and the leader keeps what it booked for them. The oldest are kept, because they are the most likely
// to have arrived: they were sent before the path was known to be broken.
const maxCancelled = 4096

// cancelled holds decide requests about one key whose answers were not used, until a leader has acknowledged that;
// nil means empty. Held by bucket.mu.
type cancelled struct {
	ids  []quota.Seq
	sent int // the first ones, named in the last report
}

func (q *cancelled) any() bool { return q != nil && len(q.ids) > 0 }

// send returns the requests to name in a report that leaves now.
func (q *cancelled) send() []quota.Seq {
	if !q.any() {
		return nil
	}
	q.sent = min(len(q.ids), quota.MaxCancelled)
	return slices.Clone(q.ids[:q.sent])
}

// unsend notes that an answer to the last report will be ignored.
func (q *cancelled) unsend() {
	if q != nil {
		q.sent = 0
	}
}

// acknowledge forgets the requests that the last report named.
func (q *cancelled) acknowledge() {
	if q != nil {
		q.ids, q.sent = slices.Delete(q.ids, 0, q.sent), 0
	}
}

// Cancel notes that a decide request of a Call may have reached its leader, and that the Call will not receive the
// answer: it came too late, or never. Reports name the request until they are answered, so that the leader takes back
// what it booked, or books nothing if the request arrives later. Cancel returns false if it could not note that:
// there is no room for the key, 4096 requests about it are cancelled already, or the request has no ID.
func (a *Aggregator) Cancel(clock Clock, q quota.Ask) bool {
	if q.Cost == 0 {
		return true // nothing was booked
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

// cancel returns false if the bucket has just been dropped from the table.
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
		b.rare().cancelled = &cancelled{}
	}
	q := b.cancelled
	if len(q.ids) >= maxCancelled {
		return true, false
	}
	q.ids = append(q.ids, id)
	a.markUrgent(b)
	return true, true
}
