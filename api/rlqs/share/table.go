package share

import (
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// MemberID names one bucket of one stream; it is never used again.
type MemberID uint64

// TokenSource is the node's own table of keys.
type TokenSource interface {
	// Draw charges up to want tokens and returns how many it got.
	Draw(k quota.Key, want int64) (got int64)
	// Miss counts demand that was refused elsewhere.
	Miss(k quota.Key, cost int64)
	// Refund gives back tokens that were drawn and not used.
	Refund(k quota.Key, cost int64)
	// Standing tells what the node knows of a key.
	Standing(k quota.Key) quota.Standing
}

// Config is how the table divides. The zero value of a field means its default.
type Config struct {
	// TTL is how long an assignment lasts, whole seconds; default 10s.
	TTL time.Duration
	// Settle is how long an assignment takes at most until it is in force; default
	// 500ms. Who has not read it by then is to be cut off.
	Settle time.Duration
	// Idle is how long a bucket without requests is kept; default 60s.
	Idle time.Duration
	// MaxBuckets bounds the members; default 100,000.
	MaxBuckets int
}

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Settle == 0 {
		c.Settle = 500 * time.Millisecond
	}
	if c.Idle == 0 {
		c.Idle = time.Minute
	}
	if c.MaxBuckets == 0 {
		c.MaxBuckets = 100_000
	}
	return c
}

// ErrTooMany says that the table is full.
var ErrTooMany = errors.New("this node has too many rate limit quota buckets")

// Table divides what a node gets of every key among its members. It is used by one
// goroutine at a time.
type Table struct {
	cfg    Config
	source TokenSource
	quotas map[quota.Key]*sharedQuota
	size   int
	// Unpaid is what members have admitted beyond all debt that is kept: tokens, since
	// the beginning.
	Unpaid float64
}

// New returns an empty table.
func New(cfg Config, source TokenSource) *Table {
	return &Table{cfg: cfg.withDefaults(), source: source, quotas: map[quota.Key]*sharedQuota{}}
}

// Len returns the number of buckets of all members.
func (t *Table) Len() int { return t.size }

// Usage is what a member says of one key since it last did.
type Usage struct {
	Key             quota.Key
	Allowed, Denied int64
	// Elapsed is the time that it says it is about; 0 is not known.
	Elapsed time.Duration
}

// Report books what a member says. Of the first one about a key the answer is to be
// sent at once: origin, if it is not empty, says that the member is who had a stream
// from there before. The error is ErrTooMany; nothing is booked then.
func (t *Table) Report(now quota.Time, id MemberID, origin string, u Usage) (Assignment, bool, error) {
	p := t.quotas[u.Key]
	if p != nil {
		if h := p.find(id); h != nil {
			p.report(now, t, h, u)
			return Assignment{}, false, nil
		}
	}
	if t.size >= t.cfg.MaxBuckets {
		return Assignment{}, false, ErrTooMany
	}
	if p == nil {
		p = &sharedQuota{key: u.Key, at: now}
		t.quotas[u.Key] = p
	}
	h := p.adopt(id, origin)
	if h == nil {
		h = &member{id: id, origin: origin, reportedAt: now, rate: unassigned}
		p.members = append(p.members, h)
		t.size++
	}
	p.update(now, t.source, 0, t.cfg.Settle)
	h.guessDemand(p)
	p.report(now, t, h, u)
	p.divide(now, t.cfg, 0)
	a, ok := p.assign(now, t, h, true)
	return a, ok, nil
}

// Gone says that a member's stream has ended. What it was assigned it may use until
// that expires, so until then it is kept for it.
func (t *Table) Gone(k quota.Key, id MemberID) {
	if p := t.quotas[k]; p != nil {
		if h := p.find(id); h != nil {
			h.gone = true
		}
	}
}

// Close gives back what nobody is assigned. The table is empty then.
func (t *Table) Close() {
	for _, k := range t.keys() {
		t.quotas[k].close(t.source)
	}
	t.quotas, t.size = map[quota.Key]*sharedQuota{}, 0
}

// Tick brings everything up to now and returns what is to be sent. It is called
// every twentieth of a second or so.
func (t *Table) Tick(now quota.Time) []Assignment {
	var out []Assignment
	for _, k := range t.keys() {
		p := t.quotas[k]
		out = p.tick(now, t, out)
		if len(p.members) == 0 {
			p.close(t.source)
			delete(t.quotas, k)
		}
	}
	return out
}

// keys in order, so that what happens does not depend on a map's.
func (t *Table) keys() []quota.Key {
	keys := make([]quota.Key, 0, len(t.quotas))
	for k := range t.quotas {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, quota.Key.Compare)
	return keys
}

// drop forgets a member.
func (t *Table) drop(p *sharedQuota, h *member) {
	p.members = slices.DeleteFunc(p.members, func(o *member) bool { return o == h })
	t.size--
}
