package share

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// MemberID identifies one bucket of one stream. It is never reused.
type MemberID uint64

// TokenSource is the node's own table of keys, from which the table draws tokens.
type TokenSource interface {
	// Draw charges up to want tokens and returns how many it charged.
	Draw(k quota.Key, want int64) (got int64)
	// Miss counts demand that a member refused.
	Miss(k quota.Key, cost int64)
	// Refund returns tokens that were drawn and not used.
	Refund(k quota.Key, cost int64)
	// Standing returns what the node knows about a key.
	Standing(k quota.Key) quota.Standing
}

// Config configures a Table. The zero value of a field means its default.
type Config struct {
	// TTL is the time to live of an assignment in whole seconds; default 10s.
	TTL time.Duration
	// Settle is the longest time until an assignment takes effect; default 500ms. The caller
	// must end the stream of a proxy that has not read the assignment by then.
	Settle time.Duration
	// Idle is how long the table keeps a bucket without requests; default 60s.
	Idle time.Duration
	// MaxBuckets is the highest number of members, shared among their owners by
	// fairshare.PerFree; default 100,000.
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

// ErrTooMany is the error of Report when the table has MaxBuckets members, or the owner its share of
// them.
var ErrTooMany = errors.New("this node has too many rate limit quota buckets")

// Table divides the node's tokens of every key among the key's members. Only one goroutine
// may use it at a time.
type Table struct {
	cfg    Config
	source TokenSource
	quotas map[quota.Key]*sharedQuota
	places *fairshare.Pool // one for each member
	// Unpaid is the number of tokens that members have admitted beyond the debt that keys may
	// owe, since New.
	Unpaid float64
}

// New returns an empty table.
func New(cfg Config, source TokenSource) *Table {
	t := &Table{cfg: cfg.withDefaults(), source: source}
	t.clear()
	return t
}

// clear forgets all members.
func (t *Table) clear() {
	t.quotas = map[quota.Key]*sharedQuota{}
	t.places = fairshare.NewPerFree(int64(t.cfg.MaxBuckets))
}

// Len returns the number of buckets of all members.
func (t *Table) Len() int { return int(t.places.Held()) }

// Origin is where the stream of a member comes from.
type Origin struct {
	// Owner is the caller that the member's place in the table is charged to; empty if unknown.
	Owner string
	// Proxy identifies the proxy beyond the lifetime of its stream; empty if nothing does.
	Proxy string
}

// Usage is a member's report on one key since its last report.
type Usage struct {
	Key             quota.Key
	Allowed, Denied int64
	// Elapsed is the time that the report covers, as the member states it; 0 if unknown.
	Elapsed time.Duration
}

// Report books a member's usage. For the first report on a key it returns the assignment to
// send at once, and true. If the origin has a proxy, the member takes over the state of an ended
// stream from the same origin. The only error is ErrTooMany, and then nothing is booked.
func (t *Table) Report(now quota.Time, id MemberID, from Origin, u Usage) (Assignment, bool, error) {
	p := t.quotas[u.Key]
	if p != nil {
		if h := p.find(id); h != nil {
			p.report(now, t, h, u)
			return Assignment{}, false, nil
		}
	}
	h := p.adopt(id, from)
	if h == nil {
		if t.places.TryAcquire(from.Owner, 1) != fairshare.NotFull {
			return Assignment{}, false, ErrTooMany
		}
		if p == nil {
			p = &sharedQuota{key: u.Key, at: now}
			t.quotas[u.Key] = p
		}
		h = &member{id: id, origin: from, reportedAt: now, rate: unassigned}
		p.members = append(p.members, h)
	}
	p.update(now, t.source, t.cfg.Settle)
	h.guessDemand(p.limit)
	p.report(now, t, h, u)
	p.divide(now, t.cfg, 0)
	a, ok := p.assign(now, t, h, true)
	return a, ok, nil
}

// Gone marks a member whose stream has ended. The proxy may use its assignment until that
// expires, so the table keeps the member's part until then.
func (t *Table) Gone(k quota.Key, id MemberID) {
	if p := t.quotas[k]; p != nil {
		if h := p.find(id); h != nil {
			h.gone = true
		}
	}
}

// Close refunds the reserves of all keys and empties the table.
func (t *Table) Close() {
	for _, k := range t.keys() {
		t.quotas[k].close(t.source)
	}
	t.clear()
}

// Tick advances all keys to now and returns the assignments to send. Call it about every
// 50ms.
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

// keys returns the keys in order, so that results do not depend on map order.
func (t *Table) keys() []quota.Key { return slices.SortedFunc(maps.Keys(t.quotas), quota.Key.Compare) }

// drop removes a member from a key.
func (t *Table) drop(p *sharedQuota, h *member) {
	p.members = slices.DeleteFunc(p.members, func(o *member) bool { return o == h })
	t.places.Release(h.origin.Owner, 1)
}
