package leader

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// MaxCheckpoint bounds the lines of one checkpoint in bytes, as KeyLevel.MaxSize counts
// them. A single line may be larger.
const MaxCheckpoint = 4 << 20

// Checkpoint returns the levels that moved since the last call, at most limit of
// them and MaxCheckpoint bytes. What members wait for goes first. More says whether some are left
// for the next call. A level that moved by so little that a failover would hardly show it comes
// later: see account.matters.
func (l *Ledger) Checkpoint(now quota.Time, limit int) []quota.KeyLevel {
	return l.checkpoint(now, limit, true)
}

// Flush has the next checkpoints say of every account what the log does not know, however little it is.
func (l *Ledger) Flush(now quota.Time) { l.flushBehind(now, 0, math.MaxInt) }

// CheckpointWanted is Checkpoint of what members wait for alone: it looks at no other account,
// and what it writes is not held up by them. Wants says whether there is any.
func (l *Ledger) CheckpointWanted(now quota.Time, limit int) []quota.KeyLevel {
	return l.checkpoint(now, limit, false)
}

func (l *Ledger) checkpoint(now quota.Time, limit int, all bool) []quota.KeyLevel {
	l.written++
	c := checkpoint{most: limit, now: now}
	if all {
		l.flushBehind(now, writeWithin, limit)
	}
	for len(l.wanted) > 0 && l.write(&c, l.wanted[0], true) {
		l.wanted[0].wanted = false
		l.wanted = l.wanted[1:]
	}
	if len(l.wanted) == 0 {
		l.wanted = nil
	}
	for n := l.moved.len(); all && n > 0 && l.write(&c, l.moved.first(), false); n-- {
		l.visits++
		a := l.moved.pop()
		if a.queued = a.dirty && !a.dropped; a.queued { // too many promises wait for the log
			l.moved.push(a)
		}
	}
	l.more = c.full
	slices.SortStableFunc(l.writing, func(x, y writing) int {
		return cmp.Or(cmp.Compare(x.seq, y.seq), x.a.key.Compare(y.a.key))
	})
	slices.SortFunc(c.out, func(x, y quota.KeyLevel) int { return x.Key.Compare(y.Key) })
	return c.out
}

// checkpoint is one that is being made.
type checkpoint struct {
	now  quota.Time
	most int // lines
	out  []quota.KeyLevel
	size int
	full bool // a line had no room
}

// write adds the line of an account, if there is anything to say: a member waits for it, or it matters.
// It returns false if there is no room for it.
func (l *Ledger) write(c *checkpoint, a *account, wanted bool) bool {
	if a.dropped || l.current(a) == nil || !a.moved() || a.tier.Kind == quota.Concurrency {
		return true
	}
	a.advance(c.now)
	if !wanted && !a.overdue && !a.matters(c.now, l.cfg.Lease) {
		a.dirty = false
		if !a.behind && a.worthALine(c.now) {
			a.behind, a.behindSince = true, c.now
			l.behind.push(a)
		}
		a.wakeBy(c.now.Add(linger)) // it may go without a line
		l.note(c.now, a)
		return true
	}
	if c.full = len(c.out) >= c.most; c.full {
		return false
	}
	kl := a.keyLevel(c.now)
	if c.size += kl.MaxSize(); c.size > MaxCheckpoint && len(c.out) > 0 {
		c.full = true
		return false
	}
	if a.endures() {
		l.promiseAll(c.now, a, &kl)
	}
	c.out = append(c.out, kl)
	a.dirty, a.overdue = false, false
	a.logged = loggedLevel{kl.Level, c.now, kl.WindowStart, true}
	if !a.saved { // it may go from now on
		a.wakeBy(c.now.Add(linger))
	}
	a.saved = true
	l.note(c.now, a)
	return true
}

// want asks for a checkpoint of the account at once: a member waits for it.
func (l *Ledger) want(a *account) {
	if a.dirty = true; !a.wanted {
		a.wanted = true
		l.wanted = append(l.wanted, a)
	}
}

// Query says which keys Rates returns.
type Query struct {
	Order  quota.RateOrder
	Top    int                        // at most so many
	Limits func(quota.LimitName) bool // of these limits
	Prefix string                     // that begin with this
	Label  string                     // that have this label, name=value; empty is any
	After  *quota.KeyRate             // that come after this one in the order; nil is all
}

func (q *Query) matches(k *quota.Key) bool {
	return q.Limits(k.LimitName) && strings.HasPrefix(k.Key, q.Prefix) && quota.HasLabel(k.Key, q.Label)
}

// behind reports whether a key comes after what has been seen.
func (q *Query) behind(k *quota.KeyRate) bool {
	return q.After == nil || q.Order.Compare(q.After, k) < 0
}

// Rates returns the first keys in an order, in memory for these alone. Keys that only
// the range's log remembers, since nobody has used them under this leader, come after
// those that are used, as far as there is room.
func (l *Ledger) Rates(now quota.Time, q Query) []quota.KeyRate {
	s := l.ScanRates(q)
	for s.Some(now, math.MaxInt) {
	}
	return s.Take(now)
}

// RateScan is a Rates in steps. A key whose account is opened between two of them may be missing.
type RateScan struct {
	ledger *Ledger
	query  Query
	top    quota.TopRates
	at     int
}

// ScanRates begins to read the rates of the first keys in an order.
func (l *Ledger) ScanRates(q Query) *RateScan {
	return &RateScan{ledger: l, query: q, top: quota.TopRates{Order: q.Order, Most: q.Top}}
}

// Some reads so many keys, and returns true if some are left.
func (s *RateScan) Some(now quota.Time, most int) (more bool) {
	l := s.ledger
	for ; s.at < len(l.refs.accounts) && most > 0; s.at, most = s.at+1, most-1 {
		a := l.refs.accounts[s.at]
		if a == nil || !s.query.matches(&a.key) || l.current(a) == nil {
			continue
		}
		a.advance(now)
		if k := a.keyRate(now); s.query.behind(&k) {
			s.top.Add(&k)
		}
	}
	return s.at < len(l.refs.accounts)
}

// Take returns what was read.
func (s *RateScan) Take(now quota.Time) []quota.KeyRate {
	return s.ledger.withSaved(now, s.top.Take(), s.query)
}

// withSaved fills the rates up with keys of the log, in the order of their names.
func (l *Ledger) withSaved(now quota.Time, out []quota.KeyRate, q Query) []quota.KeyRate {
	room := quota.TopRates{Most: q.Top - len(out)}
	if room.Most == 0 {
		return out
	}
	for k, kl := range l.saved {
		if r := (quota.KeyRate{Key: k}); now < kl.FullAt && q.matches(&k) && q.behind(&r) {
			room.Add(&r)
		}
	}
	for _, k := range room.Take() {
		if r, ok := l.Key(now, k.Key); ok {
			out = append(out, r)
		}
	}
	return out
}

// Key returns what the ledger knows of one key; false if it has no limit.
// Looking at a key does not open it.
func (l *Ledger) Key(now quota.Time, k quota.Key) (quota.KeyRate, bool) {
	a := l.account(k)
	if a == nil {
		limit := l.limitOf(k)
		if limit == nil {
			return quota.KeyRate{}, false
		}
		kl, saved := l.line(now, k, limit)
		a = newAccount(k, limit, poolOf(now, limit, kl, saved))
	}
	a.advance(now)
	return a.keyRate(now), true
}

func (a *account) keyRate(now quota.Time) quota.KeyRate {
	k := quota.KeyRate{
		Key: a.key, Limit: a.limit,
		Attempted: a.attempted.Tokens(), Admitted: a.admitted.Tokens(),
		Refused:   (a.attempted - a.admitted).Tokens(),
		Remaining: max(0, a.level().Tokens()), OverAdmitted: a.over,
		Needless: a.needless, NeedlessAtMost: max(a.needless, a.needlessAtMost),
	}
	tried, admit := a.asked.showing(now)
	k.Demand, k.Rate = tried/float64(quota.Token), admit/float64(quota.Token)
	for i := range a.holders {
		h := &a.holders[i]
		tried, admit := h.showing(now)
		k.Demand += tried / float64(quota.Token)
		k.Rate += admit / float64(quota.Token)
		if !h.closed {
			k.Members++
		}
	}
	k.Utilisation = a.utilisation(k.Demand)
	return k
}

// utilisation is demand, in tokens per second, as a part of what the tier refills; of
// what is in flight, the part that is.
func (a *account) utilisation(demand float64) float64 {
	full := float64(a.tier.Burst)
	if a.tier.Kind == quota.Concurrency {
		return (full - float64(max(0, a.level()))/float64(quota.Token)) / max(full, 1)
	}
	refills := float64(a.tier.Rate.Tokens) * float64(time.Second) / float64(max(a.tier.Rate.Per, 1))
	if refills == 0 { // nothing is admitted
		return demand
	}
	return demand / refills
}
