package leader

import (
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// Ledger is the book of one range in one term. Not safe for concurrent use.
type Ledger struct {
	cfg    Config
	id     quota.RangeID
	term   quota.Term
	self   quota.NodeID
	limits *quota.Limits

	members  map[quota.NodeID]*member
	buckets  map[quota.Key]*bucket
	keys     map[quota.LimitName]int64       // how many of them each limit has; see quota.LimitName.Sharer
	departed map[quota.Key]listing           // see TopSince; at most maxDeparted
	lost     map[quota.LimitName]quota.Units // the most of one that is not there
	live     map[quota.LimitName]*quota.LiveError
	refs     refs
	saved    map[quota.Key]*savedLevel // levels from the range's log or of removed limits, not yet opened

	timers  timers
	expiry  expiry      // of saved; of one that is not there any more, too
	moved   bucketQueue // buckets that are dirty
	behind  bucketQueue // buckets that have moved since the log's line by too little to matter yet
	counted bucketQueue // buckets with counts that TopSince has not returned
	changes []change    // that not all buckets have applied
	trimmed uint64      // number of changes before those
	cursor  int         // in refs: where the round that applies them continues
	until   uint64      // number of changes that this round brings to all
	visits  int         // buckets that upkeep has looked at
	tops    tops        // what TopSome has found; nil between lists
	topLeft int         // first so many of counted that TopSome has to look at

	requesters map[quota.NodeID]*requester
	lives      uint64 // buckets opened so far
	fades      fades

	started  quota.Time
	first    bool // nobody has led before
	nodes    int
	learning bool
	suspects bool // some member may be suspect

	written  quota.Seq     // checkpoints made
	writing  []writing     // buckets in those that are not known to be committed, oldest first
	catching bool          // answering those that waited for it
	more     bool          // the last checkpoint had no room for all that moved
	wanted   []*bucket     // a checkpoint of them would let members have what they wait for; oldest first
	pushed   []quota.Grant // for others than who reported, to be sent
}

// savedLevel is a level that a bucket begins with. tier is what it was counted
// by if that is known: the limit may come back as another.
type savedLevel struct {
	quota.KeyLevel
	tier *quota.Tier
}

// member is what the ledger knows of a reporter as a whole.
type member struct {
	inc      quota.Incarnation
	seq      quota.Seq
	whole    quota.Seq // no report was missed from this one on
	reported bool      // has told all that it holds, in this term
	gone     bool      // known to be dead

	silent struct{ from, to quota.Time } // the last time that it said nothing of a key for a lease or longer

	lease   quota.Time // the latest that it was granted anything until
	goneAt  quota.Time
	suspect quota.Time // since when its process has probably ended; 0 if it has spoken since
	since   quota.Time // its process is no older
}

// away returns since when a member may have admitted what it reports now as admitted alone:
// since it was heard before its last silence. Its clients report to it one after the other,
// within a lease, what they admitted during the silence, and it forwards that at once. gap is
// how long the report looks back. Where it does not say so, it was before this leader if that is
// new: only the envelope bounds it.
func (m *member) away(now quota.Time, gap, lease time.Duration, before bool) quota.Time {
	switch {
	case gap != unknownGap && gap >= lease:
		m.silent.from, m.silent.to = now.Add(-gap), now
	case gap == unknownGap && before:
		m.silent.from, m.silent.to = 0, now
	}
	if m.silent.to == 0 || now.Sub(m.silent.to) > lease {
		return now
	}
	return m.silent.from
}

// New returns the ledger of a range whose leadership began at now. nodes are
// all nodes that may hold tokens of an earlier term; levels are the range's
// checkpoint.
func New(cfg Config, id quota.RangeID, term quota.Term, self quota.NodeID, nodes []quota.NodeID,
	limits *quota.Limits, levels []quota.KeyLevel, now quota.Time,
) *Ledger {
	l := &Ledger{
		cfg: cfg.WithDefaults(), id: id, term: term, self: self, limits: limits,
		members: map[quota.NodeID]*member{},
		buckets: map[quota.Key]*bucket{}, keys: map[quota.LimitName]int64{}, departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{},
		requesters: map[quota.NodeID]*requester{},
		live:       map[quota.LimitName]*quota.LiveError{},
		saved:      make(map[quota.Key]*savedLevel, len(levels)),
		started:    now, first: term == 1 || cfg.First, nodes: len(nodes),
	}
	l.learning = !l.first // nobody was granted anything before
	for _, n := range nodes {
		l.members[n] = &member{}
	}
	for _, kl := range levels {
		l.keep(&savedLevel{KeyLevel: kl})
	}
	return l
}

// keep remembers the level of a key that has no bucket, until it is full.
func (l *Ledger) keep(kl *savedLevel) {
	l.saved[kl.Key] = kl
	l.expiry.push(kl)
}

// Term returns the term that the ledger serves.
func (l *Ledger) Term() quota.Term { return l.term }

// Learning reports whether the ledger still waits for members to report what they hold.
func (l *Ledger) Learning() bool { return l.learning }

// Len returns the number of buckets.
func (l *Ledger) Len() int { return len(l.buckets) }

// Report books a member's report and answers it. A report of another range or
// term, an old incarnation, a repeated sequence number, or the end of a list with a
// missing part changes nothing and gets an error; the member sends its cumulative
// counters again.
func (l *Ledger) Report(now quota.Time, r quota.Report) (quota.Grant, error) {
	return l.ReportInto(nil, now, &r)
}

// ReportInto is Report with room for the entries of the grant: they are appended to
// room[:0] as far as that has the capacity. The report is not changed, and not kept.
func (l *Ledger) ReportInto(room []quota.GrantEntry, now quota.Time, r *quota.Report) (quota.Grant, error) {
	m, err := l.admit(r)
	if err != nil {
		return quota.Grant{}, err
	}
	m.since = now.Add(-r.Age)
	if r.Full && !m.reported {
		m.reported = true
		l.happens(&change{at: now, node: r.From, heard: true, known: *m})
	}
	g := quota.Grant{Range: l.id, Term: l.term, From: l.self, To: r.From, At: now, Incarnation: r.Incarnation}
	if room == nil || cap(room) < len(r.Entries) {
		room = make([]quota.GrantEntry, 0, len(r.Entries))
	}
	room = room[:len(r.Entries)]
	n := 0
	l.settleLearning(now)
	for i := range r.Entries {
		if ge := &room[n]; l.entry(now, r, &r.Entries[i], ge) {
			if ge.Life == 0 {
				ge.Line = uint32(i + 1)
			}
			n++
		}
	}
	g.Entries = room[:n]
	return g, nil
}

func (l *Ledger) admit(r *quota.Report) (*member, error) {
	if r.Range != l.id || r.Term != l.term {
		return nil, fmt.Errorf("report of range %d term %d; this is range %d term %d", r.Range, r.Term, l.id, l.term)
	}
	m := l.members[r.From]
	if m == nil {
		m = &member{}
		l.members[r.From] = m
	}
	if r.Incarnation < m.inc {
		return nil, fmt.Errorf("report of incarnation %d of %s; it has been restarted as %d", r.Incarnation, r.From, m.inc)
	}
	if r.Incarnation > m.inc {
		*m = member{inc: r.Incarnation, lease: m.lease}
	}
	if r.Seq <= m.seq {
		return nil, fmt.Errorf("report %d of %s is old; %d is known", r.Seq, r.From, m.seq)
	}
	if r.Seq != m.seq+1 {
		m.whole = r.Seq
	}
	if parts := quota.Seq(max(1, r.Parts)); r.Full && m.whole > r.Seq-min(parts, r.Seq)+1 {
		m.seq = r.Seq
		return nil, fmt.Errorf("report %d of %s ends a list of %d reports; those before %d were missed", r.Seq, r.From, parts, m.whole)
	}
	m.seq, m.gone, m.suspect = r.Seq, false, 0
	return m, nil
}

// entry books one key of a report, and answers into g. It answers nothing for keys
// without a limit (the member will learn of the change) and beyond MaxKeys.
func (l *Ledger) entry(now quota.Time, r *quota.Report, e *quota.ReportEntry, g *quota.GrantEntry) (answered bool) {
	if !sane(e) {
		return false
	}
	if e.Life != 0 {
		*g, answered = l.bookRecovered(now, r, e)
		return answered
	}
	b, place := l.find(r, e)
	if b == nil {
		if e.Key.Key == "" {
			*g = quota.GrantEntry{Epoch: e.Epoch, Ack: r.Seq, Unknown: true}
			return true
		}
		if b = l.open(now, e.Key); b == nil {
			return false
		}
	}
	defer l.note(now, b)
	stands := b.advance(now)
	alone := len(e.Cancelled) == 0 && len(b.outstanding) == 0 && b.tier.Kind != quota.Concurrency // only h changes
	l.cancel(now, b, r, e.Cancelled)
	if b.finalReport(now, l.cfg.Lease, r, e) {
		return false
	}
	if len(b.outstanding) > 0 {
		b.hear(now, r.From, l.members[r.From])
	}
	al := b.allocationAt(now, place, r, e)
	gap := firstGap(e)
	if al == nil || al.epoch != e.Epoch {
		alone = false
		al = b.admit(now, r, e)
		al.restored = true
	} else {
		gap = now.Sub(al.reported)
	}
	if al.restored && e.Learn != nil {
		alone = false
		b.learn(now, al, e)
		l.leased(al)
	}
	others := stands - al.standing()
	was := l.liveBefore(now, b)
	d := al.settle(now, l.started, e, b.limit, b.past(e), b.before(e))
	if b.windowOver(e) {
		d.refunded = 0
	}
	d.away = now
	if gap >= l.cfg.Lease || d.alone > 0 {
		d.away = l.members[r.From].away(now, gap, l.cfg.Lease, d.alone > 0 && now.Sub(l.started) <= l.cfg.Lease)
	}
	b.book(al, d)
	back := l.liveAfter(now, b, gap, e.Want, was, &d)
	b.amend(back, &d)
	if d.attempted() > 0 {
		b.lastUse = now
	}
	asks := d.attempted() > 0 || e.Want > 0 || al.asked > 0
	al.observe(now, d, l.cfg.Sync, b, &l.fades)
	if e.Final {
		b.close(now, al, e, r.Seq, g)
		if !g.Closed && e.Want > 0 { // its callers wait: it closes only to begin a new epoch
			l.want(b)
		}
		return true
	}
	al.closed = false
	if alone {
		others = b.advanceOne(now, al, others)
	} else {
		others = b.advance(now) - al.standing()
	}
	l.grant(now, b, al, e, r.Seq, asks, others, g)
	if e.Ref != b.ref {
		g.Ref = b.ref
	}
	return true
}

// sane rejects entries that no member would send.
func sane(e *quota.ReportEntry) bool {
	for _, u := range [...]quota.Units{
		e.Used, e.Overdrawn, e.Refused, e.Refunded, e.Held, e.InFlight, e.Want, e.Unreported, e.Before, e.Charged, e.Alone, e.Saved, e.Returned,
	} {
		if uint64(u) > uint64(quota.Most) { // below 0, too
			return false
		}
	}
	if len(e.Cancelled) > quota.MaxCancelled {
		return false
	}
	l := e.Learn
	return l == nil || l.Level >= -quota.Most && l.Level <= quota.Most && l.Rate >= 0 && l.Rate <= quota.Most && l.Cap >= 0 && l.Cap <= quota.Most
}

// open returns the bucket of a key, opening it from the checkpoint or full.
func (l *Ledger) open(now quota.Time, k quota.Key) *bucket {
	if b := l.bucket(k); b != nil {
		return b
	}
	limit := l.limitOf(k)
	if limit == nil {
		return nil
	}
	if !l.fits(k.LimitName) {
		return nil
	}
	kl, saved := l.line(now, k, limit)
	delete(l.saved, k)
	b := newBucket(k, limit, poolOf(now, limit, kl, saved))
	l.lives++
	b.incarnation, b.seen = l.lives, l.happened()
	l.refs.add(b)
	if saved {
		b.logged = loggedLevel{kl.Level, kl.At, kl.WindowStart, true}
	}
	b.sums = l.liveOf(k.LimitName)
	b.env = newEnvelope(b.pool, now)
	b.env.opened(now, limit, &kl.KeyLevel, saved)
	l.keys[k.Sharer()]++
	if l.buckets[k] = b; saved {
		l.restore(now, b, &kl.KeyLevel)
		b.restoreAnswers(now, &kl.KeyLevel)
	}
	l.beginImplicitGrant(now, b, kl.Implicit)
	b.wakeBy(now.Add(linger))
	l.note(now, b)
	return b
}

// bucket returns the bucket of a key, if it is open, with all changes applied.
func (l *Ledger) bucket(k quota.Key) *bucket {
	if b := l.buckets[k]; b != nil {
		return l.current(b)
	}
	return nil
}

// fits reports whether a limit may have one more bucket.
func (l *Ledger) fits(n quota.LimitName) bool {
	most := int64(l.cfg.MaxKeys)
	return quota.HasRoom(int64(len(l.buckets)), most, l.keys[n.Sharer()], l.limits.Share(n, most))
}

// drop forgets a bucket.
func (l *Ledger) drop(b *bucket) {
	l.departs(b)
	delete(l.buckets, b.key)
	if n := b.key.Sharer(); l.keys[n] > 1 {
		l.keys[n]--
	} else {
		delete(l.keys, n)
	}
	l.refs.remove(b)
	l.timers.remove(b)
	b.dropped = true
}

// limitOf returns what counts for a key; nil if the limit is unknown.
func (l *Ledger) limitOf(k quota.Key) *quota.Limit { return l.limitIn(l.limits, k) }

func (l *Ledger) limitIn(limits *quota.Limits, k quota.Key) *quota.Limit {
	limit, ok := limits.Find(k.LimitName)
	if !ok {
		return nil
	}
	return quota.Effective(limit, l.cfg.Overrides, k.Key)
}

// line returns what the range's log says of a key, on this leader's clock.
func (l *Ledger) line(now quota.Time, k quota.Key, limit *quota.Limit) (savedLevel, bool) {
	was := l.saved[k]
	if was == nil {
		return savedLevel{}, false
	}
	kl := *was
	onClock(now, limit, &kl.KeyLevel)
	return kl, true
}

// poolOf returns what a key starts with: everything, unless the range's log
// remembers less.
func poolOf(now quota.Time, limit *quota.Limit, kl savedLevel, saved bool) limiter.Meter {
	tier := limit.First()
	if !saved || tier.Kind == quota.Concurrency {
		return limiter.NewMeter(&tier, now)
	}
	was := &tier
	switch {
	case kl.tier != nil:
		was = kl.tier
	case kl.Full > 0:
		before := tier
		before.Burst = kl.Full.Tokens()
		if before.Kind.Windowed() {
			before.Rate.Tokens = before.Burst
		}
		was = &before
	}
	m := limiter.RestoreMeter(was, kl.Level, kl.At, kl.WindowStart, kl.Slope, now)
	m.Retier(now, was, &tier)
	return m
}

// settleLearning ends learning when all members have spoken, or have probably ended, or
// the time for it is over.
func (l *Ledger) settleLearning(now quota.Time) {
	if !l.learning {
		return
	}
	for _, m := range l.members {
		if !m.reported && !m.gone && m.suspect == 0 && now.Sub(l.started) < l.cfg.Learn {
			return
		}
	}
	l.learning = false
}

func (l *Ledger) allReported() bool {
	for _, m := range l.members {
		if !m.reported && !m.gone {
			return false
		}
	}
	return true
}

// mayGrant reports whether tokens and new rates may be given for the bucket.
// Under hard, nothing that an unexpired lease of an earlier term might still
// spend is given again.
func (l *Ledger) mayGrant(now quota.Time, b *bucket) bool {
	if b.limit.Ceiling == quota.Hard && !b.promises() && !b.answersLogged() && !l.first {
		return l.allReported() || now.Sub(l.started) >= l.cfg.Lease+3*l.cfg.Sync+leaseSlack
	}
	return !l.learning
}

// MemberGone notifies the ledger that all processes of a node before that incarnation
// are certainly dead: their rates are free, and what they held counts as spent. What
// was in flight there is free at once under soft; under hard after the limit's lease,
// because the work that it was acquired for may continue without the node.
func (l *Ledger) MemberGone(now quota.Time, id quota.NodeID, before quota.Incarnation) {
	l.gone(now, now, id, before)
}

// gone is MemberGone of one whose processes spoke for the last time at died or before.
func (l *Ledger) gone(now, died quota.Time, id quota.NodeID, before quota.Incarnation) {
	c := change{at: now, node: id, gone: true, before: before, died: died}
	if m := l.members[id]; m == nil || m.inc < before { // else the process after them has spoken
		if m != nil {
			m.gone, m.goneAt = true, now
		}
		delete(l.requesters, id)
		c.heard, c.known = true, member{gone: true}
	}
	l.happens(&c)
	l.settleLearning(now)
}

// Suspect notifies the ledger that a node's process has probably ended: the ledger does not
// wait for it. Its rates of soft limits go to the others at once. What it has been granted of
// hard limits, and of windows that endure, stays charged to it until its lease is over,
// because it may live and be out of reach; after that, if it has not spoken, it counts as
// dead. A second suspicion of the same member changes nothing.
func (l *Ledger) Suspect(now quota.Time, id quota.NodeID) {
	m := l.members[id]
	if m == nil {
		m = &member{}
		l.members[id] = m
	}
	if m.suspect != 0 || m.gone {
		return
	}
	m.suspect, l.suspects = now, true
	l.happens(&change{at: now, node: id, gone: true, before: math.MaxUint64, died: now, soft: true})
	l.settleLearning(now)
}

// endSuspects takes those for dead that have been suspected for a lease, and have no
// later one.
func (l *Ledger) endSuspects(now quota.Time) {
	for id, m := range l.members {
		if m.suspect > 0 && !m.gone && now.Sub(m.suspect) >= l.cfg.Lease+leaseSlack && now >= m.lease.Add(leaseSlack) {
			l.gone(now, m.suspect, id, math.MaxUint64)
			m.suspect = 0
		}
	}
	l.suspects = false
	for _, m := range l.members {
		l.suspects = l.suspects || m.suspect != 0
	}
}

// leased notes until when a member holds what it was granted.
func (l *Ledger) leased(al *allocation) {
	if m := l.members[al.node]; m != nil {
		m.lease = max(m.lease, al.lease)
	}
}

// SetNodes says how many nodes the cluster has now.
func (l *Ledger) SetNodes(count int) { l.nodes = count }

// SetLimits applies changed limits. No level is refilled: what was used stays
// used. The level of a key without a limit is remembered for as long as it would
// have mattered, should the limit come back.
func (l *Ledger) SetLimits(now quota.Time, limits *quota.Limits) {
	l.limits = limits
	l.happens(&change{at: now, limits: limits})
	l.dropLive()
}

// Overridden applies changed overrides of these keys of limits (not of their
// counters); of all keys if keys is nil.
func (l *Ledger) Overridden(now quota.Time, keys []quota.Key) {
	if keys == nil {
		l.SetLimits(now, l.limits)
	}
	for _, k := range keys {
		for _, c := range l.limits.Charges(k.LimitName) {
			own := quota.Key{LimitName: c.Limit.LimitName, Key: k.Key}
			if b := l.bucket(own); b != nil && c.Up == 0 {
				if l.relimit(now, b, l.limits); !b.dropped {
					l.note(now, b)
				}
			}
		}
	}
}

// relimit gives a bucket its limit among these. One that has none any more goes.
func (l *Ledger) relimit(now quota.Time, b *bucket, limits *quota.Limits) {
	limit := l.limitIn(limits, b.key)
	switch {
	case limit == nil:
		b.advance(now)
		tier := b.tier
		kl := b.keyLevel(now)
		kl.Applied = now
		l.keep(&savedLevel{kl, &tier})
		l.drop(b)
		return
	case limit.Equal(b.limit):
		b.limit = limit
	default:
		b.relimit(now, limit)
		b.wakeBy(now)
	}
	b.implicit = min(b.implicit, l.implicitGrant(b))
}

// Reset returns a key to its initial state: full, without debt. What members hold of it stays
// with them, and the use that they report next counts as use before the reset.
func (l *Ledger) Reset(now quota.Time, k quota.Key) {
	delete(l.saved, k)
	b := l.open(now, k)
	if b == nil {
		return
	}
	b.advance(now)
	b.pool.Add(b.limit.BurstUnits() - b.level())
	b.fresh = now
	for i := range b.allocations {
		b.allocations[i].pardon = true
	}
	b.env = newEnvelope(b.whole(), now)
	b.dirty = true
	b.advance(now)
	b.wakeBy(now.Add(linger))
	l.note(now, b)
}

// lastHeard is when the key was last used, or a member last told of it: one that has
// not heard that its last words were booked says them again.
func (b *bucket) lastHeard() quota.Time {
	last := b.lastUse
	for i := range b.allocations {
		last = max(last, b.allocations[i].reported)
	}
	return last
}

// linger is how long a key that is full again keeps its counts for people,
// where there is room.
const linger = 10 * time.Second
