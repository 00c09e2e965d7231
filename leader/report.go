package leader

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// MaxCheckpoint bounds the lines of one checkpoint in bytes, as counted by KeyLevel.MaxSize. A
// single line may be larger.
const MaxCheckpoint = 4 << 20

// Checkpoint returns the levels that changed since the last call, at most limit of them and
// MaxCheckpoint bytes. Those that members wait for come first. More reports whether some are left
// for the next call. A level that changed so little that a failover would hardly show it comes
// later: see bucket.needsLine.
func (l *Ledger) Checkpoint(now quota.Time, limit int) []quota.KeyLevel {
	return l.checkpoint(now, limit, true)
}

// Flush makes the next checkpoints write every difference from the log, however small, of at most
// this many keys. It returns true if some are left.
func (l *Ledger) Flush(now quota.Time, most int) (more bool) {
	l.flushBehind(now, 0, most)
	return l.behind.len() > 0
}

// CheckpointWanted is Checkpoint for the buckets that members wait for only. It reads no other
// bucket, so these lines wait for no others. Wants reports whether there are any.
func (l *Ledger) CheckpointWanted(now quota.Time, limit int) []quota.KeyLevel {
	return l.checkpoint(now, limit, false)
}

// checkpoint is Checkpoint if all is set, else CheckpointWanted.
func (l *Ledger) checkpoint(now quota.Time, limit int, all bool) []quota.KeyLevel {
	l.written++
	c := checkpoint{most: limit, now: now}
	if all {
		l.flushBehind(now, writeWithin, limit)
	}
	for len(l.wanted) > 0 && l.writeLine(&c, l.wanted[0], true) {
		l.wanted[0].wanted = false
		l.wanted = l.wanted[1:]
	}
	if len(l.wanted) == 0 {
		l.wanted = nil
	}
	for n := l.moved.len(); all && n > 0 && l.writeLine(&c, l.moved.first(), false); n-- {
		l.visits++
		b := l.moved.pop()
		if b.queued = b.dirty && !b.dropped; b.queued { // it was skipped: too many promises wait for the log
			l.moved.push(b)
		}
	}
	l.more = c.full
	slices.SortStableFunc(l.writing, func(x, y writing) int {
		return cmp.Or(cmp.Compare(x.seq, y.seq), x.bucket.key().Compare(y.bucket.key()))
	})
	slices.SortFunc(c.out, func(x, y quota.KeyLevel) int { return x.Key.Compare(y.Key) })
	return c.out
}

// checkpoint is a checkpoint that is being made.
type checkpoint struct {
	now  quota.Time
	most int // lines
	out  []quota.KeyLevel
	size int
	full bool // a line did not fit
}

// writeLine adds the line of a bucket if it is needed: a member waits for it, or needsLine says so. It returns
// false if the line does not fit.
func (l *Ledger) writeLine(c *checkpoint, b *bucket, wanted bool) bool {
	if b.dropped || l.current(b) == nil || !b.mayNeedLine() || b.tier.Kind == quota.Concurrency {
		return true
	}
	b.advance(c.now)
	if !wanted && !b.overdue && !b.needsLine(c.now, l.cfg.Lease) {
		b.dirty = false
		if !b.behind && b.worthWriting(c.now) {
			b.behind, b.behindSince = true, c.now
			l.behind.push(b)
		}
		b.wakeBy(c.now.Add(linger)) // it may be dropped without a line
		l.noteChanged(c.now, b)
		return true
	}
	if c.full = len(c.out) >= c.most; c.full {
		return false
	}
	kl := b.keyLevel(c.now)
	if c.size += kl.MaxSize(); c.size > MaxCheckpoint && len(c.out) > 0 {
		c.full = true
		return false
	}
	if b.endures() {
		l.promiseAll(c.now, b, &kl)
	}
	c.out = append(c.out, kl)
	b.dirty, b.overdue = false, false
	b.logged = loggedLevel{kl.Level, c.now, kl.WindowStart, true}
	if !b.saved { // it may be dropped from now on
		b.wakeBy(c.now.Add(linger))
	}
	b.saved = true
	l.noteChanged(c.now, b)
	return true
}

// requestCheckpoint requests a checkpoint of the bucket at once, because a member waits for it.
func (l *Ledger) requestCheckpoint(b *bucket) {
	if b.dirty = true; !b.wanted {
		b.wanted = true
		l.wanted = append(l.wanted, b)
	}
}

// Query selects the keys that Rates returns.
type Query struct {
	Order  quota.RateOrder
	Top    int                        // at most this many
	Limits func(quota.LimitName) bool // only of these limits
	Prefix string                     // only keys with this prefix
	Label  string                     // only keys with this label, name=value; empty is any
	After  *quota.KeyRate             // only keys after this one in the order; nil is all
}

func (q *Query) matches(k quota.Key) bool {
	return q.Limits(k.LimitName) && strings.HasPrefix(k.Key, q.Prefix) && quota.HasLabel(k.Key, q.Label)
}

// behind reports whether a key comes after q.After.
func (q *Query) behind(k *quota.KeyRate) bool {
	return q.After == nil || q.Order.Compare(q.After, k) < 0
}

// Rates returns the first keys in an order, with memory for these only. Keys that are only in the
// range's log, because they were not used under this leader, follow the used ones, as far as there
// is room.
func (l *Ledger) Rates(now quota.Time, q Query) []quota.KeyRate {
	s := l.ScanRates(q)
	defer s.Close()
	for s.Some(now, math.MaxInt) {
	}
	return s.Take(now)
}

// RateScan is Rates in steps. A key whose bucket is opened between two steps may be missing. Close it
// when it is no longer needed.
type RateScan struct {
	ledger *Ledger
	query  Query
	top    quota.TopRates
	at     int // the next bucket

	used  []quota.KeyRate // the result of the buckets, once all are read
	saved quota.TopRates  // keys that are only in the log, in the order of their names
	next  func() (quota.KeyLevel, bool)
	stop  func()
}

// ScanRates begins to read the rates of the first keys in an order.
func (l *Ledger) ScanRates(q Query) *RateScan {
	return &RateScan{ledger: l, query: q, top: quota.TopRates{Order: q.Order, Most: q.Top}}
}

// Some reads at most this many keys, and returns true if some are left.
func (s *RateScan) Some(now quota.Time, most int) (more bool) {
	l := s.ledger
	for ; s.at < l.refs.buckets.len() && most > 0; s.at, most = s.at+1, most-1 {
		b := *l.refs.buckets.at(s.at)
		if b == nil || !s.query.matches(b.key()) {
			continue
		}
		l.readBucket(now, b, func() {
			if k := b.keyRate(now); s.query.behind(&k) {
				s.top.Add(&k)
			}
		})
	}
	return s.at < l.refs.buckets.len() || s.someSaved(now, most)
}

// someSaved is Some for the keys of the log, which fill up what the buckets leave of the result.
func (s *RateScan) someSaved(now quota.Time, most int) (more bool) {
	if s.next == nil {
		s.used = s.top.Take()
		s.saved.Most = s.query.Top - len(s.used)
		s.next, s.stop = iter.Pull(s.ledger.unopenedLevels())
	}
	if s.saved.Most == 0 {
		return false
	}
	for ; most > 0; most-- {
		kl, ok := s.next()
		if !ok {
			return false
		}
		if r := (quota.KeyRate{Key: kl.Key}); now < kl.FullAt && s.query.matches(kl.Key) && s.query.behind(&r) {
			s.saved.Add(&r)
		}
	}
	return true
}

// Take returns the result, once Some has returned false.
func (s *RateScan) Take(now quota.Time) []quota.KeyRate {
	out := s.used
	for _, k := range s.saved.Take() {
		if r, ok := s.ledger.Key(now, k.Key); ok {
			out = append(out, r)
		}
	}
	return out
}

// Close ends the scan, if there is one.
func (s *RateScan) Close() {
	if s != nil && s.stop != nil {
		s.stop()
	}
}

// Key returns the state of one key; false if it has no limit. It does not open the key.
func (l *Ledger) Key(now quota.Time, k quota.Key) (quota.KeyRate, bool) {
	b := l.bucket(k)
	if b == nil {
		limit := l.limitOf(k)
		if limit == nil {
			return quota.KeyRate{}, false
		}
		kl, saved := l.savedLevelOf(now, k, limit)
		b = newBucket(now, k.Key, newRule(k.LimitName, limit, l.cfg.Sync), kl, saved)
	}
	b.advance(now)
	return b.keyRate(now), true
}

func (b *bucket) keyRate(now quota.Time) quota.KeyRate {
	rare := b.rarely()
	k := quota.KeyRate{
		Key: b.key(), Limit: b.limit,
		Attempted: b.attempted.Tokens(), Admitted: b.admitted.Tokens(),
		Refused:   (b.attempted - b.admitted).Tokens(),
		Remaining: max(0, b.level().Tokens()), OverAdmitted: rare.over,
		Needless: rare.needless, NeedlessAtMost: max(rare.needless, rare.needlessAtMost),
	}
	tried, admit := b.decided.displayRates(now)
	k.Demand, k.Rate = tried/float64(quota.Token), admit/float64(quota.Token)
	for i := range b.allocations {
		al := &b.allocations[i]
		tried, admit := al.displayRates(now, b.sync)
		k.Demand += tried / float64(quota.Token)
		k.Rate += admit / float64(quota.Token)
		if !al.closed {
			k.Members++
		}
	}
	k.Utilisation = b.utilisation(k.Demand)
	return k
}

// utilisation is demand, in tokens per second, as a part of the tier's refill; for Concurrency, the
// part that is in flight.
func (b *bucket) utilisation(demand float64) float64 {
	full := float64(b.tier.Burst)
	if b.tier.Kind == quota.Concurrency {
		return (full - float64(max(0, b.level()))/float64(quota.Token)) / max(full, 1)
	}
	refills := float64(b.tier.Rate.Tokens) * float64(time.Second) / float64(max(b.tier.Rate.Per, 1))
	if refills == 0 { // nothing is admitted
		return demand
	}
	return demand / refills
}
