package leader

import (
	"container/heap"
	"fmt"
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Ledger is the state of one range in one term. Not safe for concurrent use.
type Ledger struct {
	cfg    Config
	id     quota.RangeID
	term   quota.Term
	self   quota.NodeID
	limits *quota.Limits

	members  map[quota.NodeID]*member
	buckets  table
	rules    map[quota.LimitName]*rule
	keys     map[quota.LimitName]int64       // buckets of each limit; see quota.LimitName.Sharer
	departed map[quota.Key]listing           // see TopSince; at most maxDeparted
	lost     map[quota.LimitName]quota.Units // of keys that departed has no room for: the largest count
	live     map[quota.LimitName]*quota.LiveError
	refs     refs
	lines    Lines                     // of keys without a bucket
	linesEnd quota.Time                // when the keys of all lines are full again
	saved    map[quota.Key]*savedLevel // levels of keys without a bucket, of removed limits

	timers  timers
	expiry  expiry      // of saved; may contain entries that saved no longer has
	moved   bucketQueue // dirty buckets
	behind  bucketQueue // buckets that differ from the log's line by too little to be written yet
	counted bucketQueue // buckets with counts that TopSince has not returned
	watched bucketQueue // buckets that are not packed; and some that are, until packUnused looks at them
	changes []change    // changes that not all buckets have applied
	trimmed uint64      // number of changes dropped from the front of changes
	cursor  int         // index in refs at which the round that applies changes continues
	until   uint64      // number of changes that all buckets have applied after this round
	visits  int         // buckets visited by upkeep
	tops    tops        // result of TopSome; nil between lists
	topLeft int         // number of first entries of counted that TopSome has yet to read

	toWatch   int        // number of first entries of watched that packUnused has yet to look at
	lookedAt  quota.Time // when packUnused began to look at them
	numbers   []uint64   // buffers of packBucket and unpackInto
	packing   []byte
	peeked    *state // buffer of peek
	processes processes

	requesters map[quota.NodeID]*requester
	opened     uint64 // buckets opened so far
	fades      fades

	started  quota.Time
	first    bool // the range had no leader before
	nodes    int
	learning bool
	suspects bool // some member may be suspected

	written    quota.Seq     // number of the last checkpoint
	writing    []writing     // buckets in checkpoints that are not known to be committed, oldest first
	catchingUp bool          // while catchUp grants
	more       bool          // the last checkpoint had no room for all changed buckets
	wanted     []*bucket     // buckets whose next checkpoint members wait for, oldest first
	pushed     []quota.Grant // grants that answer no report, not sent yet

	announcing  bucketQueue // not pushed yet
	announcedAt quota.Time  // when they were pushed last
	announced   bucketQueue // the last buckets that were announced
	usedUp      []quota.Key // keys that were used up when this leader began, by the log
}

// savedLevel is a level that a bucket will start with. tier is the tier by which it was counted, if
// known: the limit may return with another.
type savedLevel struct {
	quota.KeyLevel
	tier *quota.Tier
}

// member is the state of a reporting node as a whole.
type member struct {
	inc          quota.Incarnation
	seq          quota.Seq
	completeFrom quota.Seq // no report has been missed since this one
	reported     bool      // has sent a full report in this term
	gone         bool      // known to be dead

	silent struct{ from, to quota.Time } // last period of a lease or longer without a report of a key

	lease         quota.Time // latest end of a lease granted to it
	goneAt        quota.Time
	suspect       quota.Time // when its process was suspected of having ended; 0 if it has reported since
	useKnownSince quota.Time // all use by the node since this time is known: see Report.Age
}

// cutOffSince returns the earliest time at which the member may have admitted what it now reports as
// admitted while cut off (alone): the beginning of its last silence. A member's clients report to
// it one after the other, within a lease, what they admitted during the silence, and it forwards
// that at once. gap is how long the report looks back. If that is unknown, and before is set
// because this leader is new, the silence began before this leader: only the envelope bounds it.
func (m *member) cutOffSince(now quota.Time, gap, lease time.Duration, before bool) quota.Time {
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

// New returns the ledger of a range whose leadership began at now. nodes are all nodes that may
// hold tokens of an earlier term; lines are the range's checkpoint, nil if it has no lines.
func New(cfg Config, id quota.RangeID, term quota.Term, self quota.NodeID, nodes []quota.NodeID,
	limits *quota.Limits, lines Lines, now quota.Time,
) *Ledger {
	l := &Ledger{
		cfg: cfg.WithDefaults(), id: id, term: term, self: self, limits: limits,
		members: map[quota.NodeID]*member{},
		buckets: newTable(), rules: map[quota.LimitName]*rule{}, keys: map[quota.LimitName]int64{}, departed: map[quota.Key]listing{}, lost: map[quota.LimitName]quota.Units{},
		requesters: map[quota.NodeID]*requester{},
		live:       map[quota.LimitName]*quota.LiveError{},
		saved:      map[quota.Key]*savedLevel{},
		lookedAt:   now, started: now, first: term == 1 || cfg.First, nodes: len(nodes),
	}
	l.learning = !l.first // no earlier term granted anything
	for _, n := range nodes {
		l.members[n] = &member{}
	}
	l.useLines(lines)
	return l
}

// saveLevel stores the level of a key without a bucket, until it would be full.
func (l *Ledger) saveLevel(kl *savedLevel) {
	l.saved[kl.Key] = kl
	heap.Push(&l.expiry, kl)
}

// Term returns the term that the ledger serves.
func (l *Ledger) Term() quota.Term { return l.term }

// Learning reports whether the ledger still waits for members to report what they hold.
func (l *Ledger) Learning() bool { return l.learning }

// Len returns the number of buckets.
func (l *Ledger) Len() int { return l.buckets.size }

// Report books a member's report and answers it. It returns an error, and changes nothing, for a
// report of another range or term, of an old incarnation, with a repeated sequence number, or that
// ends a list with a missing part. The member sends its cumulative counters again.
func (l *Ledger) Report(now quota.Time, r quota.Report) (quota.Grant, error) {
	return l.ReportInto(nil, now, &r)
}

// ReportInto is Report with a buffer for the entries of the grant: they are appended to buf[:0] if
// it has the capacity. The report is neither changed nor retained.
func (l *Ledger) ReportInto(buf []quota.GrantEntry, now quota.Time, r *quota.Report) (quota.Grant, error) {
	was := l.members[r.From]
	wasGone := was != nil && was.gone
	m, err := l.admit(r)
	if err != nil {
		return quota.Grant{}, err
	}
	earlier := now.Add(-r.Age)
	recovered := m.reported && (wasGone || earlier.Add(recoveredAge) < m.useKnownSince)
	if !m.reported || earlier < m.useKnownSince { // a report that arrives later than others knows no less
		m.useKnownSince = earlier
	}
	if recovered {
		l.addChange(&change{at: now, node: r.From, heard: true, known: *m})
	}
	if r.Full && !m.reported {
		m.reported = true
		l.addChange(&change{at: now, node: r.From, heard: true, known: *m})
		l.introduce(now, r.From)
	}
	g := quota.Grant{Range: l.id, Term: l.term, From: l.self, To: r.From, At: now, Incarnation: r.Incarnation}
	if buf == nil || cap(buf) < len(r.Entries) {
		buf = make([]quota.GrantEntry, 0, len(r.Entries))
	}
	buf = buf[:len(r.Entries)]
	n := 0
	l.settleLearning(now)
	for i := range r.Entries {
		if ge := &buf[n]; l.bookEntry(now, r, &r.Entries[i], ge) {
			if ge.Incarnation == 0 {
				ge.Line = uint32(i + 1)
			}
			n++
		}
	}
	g.Entries = buf[:n]
	l.pushAnnounced(now)
	return g, nil
}

// recoveredAge is by how much Report.Age rises at least when the log has what a node's journal states; by less, it may be
// a message that took less time.
const recoveredAge = time.Second

// admit checks the range, the term, the incarnation and the sequence number of a report, and returns the state of its
// sender. On an error, which Report lists, nothing of the report may be booked.
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
		m.completeFrom = r.Seq
	}
	if parts := quota.Seq(max(1, r.Parts)); r.Full && m.completeFrom > r.Seq-min(parts, r.Seq)+1 {
		m.seq = r.Seq
		return nil, fmt.Errorf("report %d of %s ends a list of %d reports; those before %d were missed", r.Seq, r.From, parts, m.completeFrom)
	}
	m.seq, m.gone, m.suspect = r.Seq, false, 0
	return m, nil
}

// bookEntry books one key of a report, and writes the answer to g. It does not answer for keys without
// a limit (the member will learn of the change) or beyond MaxKeys.
func (l *Ledger) bookEntry(now quota.Time, r *quota.Report, e *quota.ReportEntry, g *quota.GrantEntry) (answered bool) {
	if !validEntry(e) {
		return false
	}
	if e.Incarnation != 0 {
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
	defer l.noteChanged(now, b)
	standing := b.advance(now)
	alone := len(e.Cancelled) == 0 && !b.hasOutstanding() && b.tier.Kind != quota.Concurrency // only al changes
	l.cancel(now, b, r, e.Cancelled)
	if l.finalReport(now, b, r, e) {
		return false
	}
	if b.hasOutstanding() {
		b.settleOutstanding(now, r.From, l.members[r.From])
	}
	al := b.allocationAt(now, place, r, e)
	gap := firstGap(e)
	opened := al == nil || al.epoch != e.Epoch
	if opened {
		alone = false
		al = b.admit(now, &l.processes, r, e)
		al.restored = true
	} else {
		gap = now.Sub(al.reported)
	}
	refundsSince, recorded := l.refundsSince(now, al, e, opened)
	if al.restored && e.Learn != nil {
		alone = false
		b.learn(now, al, e)
		l.recordLease(al)
	}
	others := standing - al.standing()
	was := l.liveBefore(now, b)
	d := al.settle(now, l.started, e, b.limit, b.inEndedWindow(e), b.spentBeforeWindow(e))
	if b.windowEnded(e) || al.resetSinceReport {
		d.refunded = 0
	}
	d.refunded = l.fitRefund(now, b, al, refundsSince, recorded, d.refunded)
	d.cutOffSince = now
	if gap >= l.cfg.Lease || d.alone > 0 {
		d.cutOffSince = l.members[r.From].cutOffSince(now, gap, l.cfg.Lease, d.alone > 0 && now.Sub(l.started) <= l.cfg.Lease)
	}
	b.book(al, d)
	back := l.liveAfter(now, b, gap, e.Want, was, &d)
	b.amend(back, &d)
	if d.attempted() > 0 {
		b.lastUse = now
	}
	asks := d.attempted() > 0 || e.Want > 0 || al.rarely().asked > 0
	al.updateDisplay(now, d, opened, &l.fades)
	al.observe(now, d, l.cfg.Sync, b, &l.fades)
	if e.Final {
		b.close(now, al, e, r.Seq, g)
		if !g.Closed && e.Want > 0 { // its callers wait: it closes the key only to begin a new epoch
			l.requestCheckpoint(b)
		}
		return true
	}
	if al.closed {
		b.reopen(al)
	}
	if alone {
		others = b.advanceOne(now, al, others)
	} else {
		others = b.advance(now) - al.standing()
	}
	l.grant(now, b, al, e, &d, r.Seq, asks, others, g)
	if e.Ref != b.ref {
		g.Ref = b.ref
	}
	return true
}

// validEntry reports whether all fields are in the ranges that members send.
func validEntry(e *quota.ReportEntry) bool {
	for _, u := range [...]quota.Units{
		e.Used, e.Overdrawn, e.Refused, e.Refunded, e.Held, e.InFlight, e.Want, e.Unreported, e.Before, e.Charged, e.Alone, e.Saved, e.Returned,
	} {
		if uint64(u) > uint64(quota.Most) { // rejects negative values, too
			return false
		}
	}
	if len(e.Cancelled) > quota.MaxCancelled {
		return false
	}
	l := e.Learn
	return l == nil || l.Level >= -quota.Most && l.Level <= quota.Most && l.Rate >= 0 && l.Rate <= quota.Most && l.Cap >= 0 && l.Cap <= quota.Most
}

// open returns the bucket of a key. It opens it from the checkpoint, or full. It returns nil
// without a limit or without room.
func (l *Ledger) open(now quota.Time, k quota.Key) *bucket {
	if b := l.bucket(k); b != nil {
		return b
	}
	limit, o := l.limitIn(l.limits, k)
	if limit == nil {
		return nil
	}
	if !l.fits(k.LimitName) {
		return nil
	}
	kl, saved := l.savedLevelOf(now, k, limit)
	l.forgetLine(k)
	b := newBucket(now, k.Key, l.ruleOf(k.LimitName, limit, o), kl, saved)
	l.opened++
	b.incarnation, b.seen = l.opened, l.happened()
	l.refs.add(b)
	if saved {
		b.logged = loggedLevel{kl.Level, kl.At, kl.WindowStart, true}
		if b.recordsRooms() { // it may have been full before its line
			b.rooms.note(kl.At, 0)
		}
	}
	b.env = newEnvelope(b.pool, now)
	b.env.opened(now, limit, &kl.KeyLevel, saved)
	l.keys[k.Sharer()]++
	if l.buckets.add(b); saved {
		l.restore(now, b, &kl.KeyLevel)
		b.restoreAnswers(now, &kl.KeyLevel)
	}
	l.beginImplicitGrant(now, b, kl.Implicit)
	l.watch(b)
	b.wakeBy(now.Add(linger))
	l.noteChanged(now, b)
	return b
}

// bucket returns the bucket of a key, if it is open, with all changes applied.
func (l *Ledger) bucket(k quota.Key) *bucket {
	if b := l.buckets.find(k); b != nil {
		return l.current(b)
	}
	return nil
}

// fits reports whether a limit may have one more bucket.
func (l *Ledger) fits(n quota.LimitName) bool {
	most := int64(l.cfg.MaxKeys)
	return quota.HasRoom(int64(l.buckets.size), most, l.keys[n.Sharer()], l.limits.Share(n, most))
}

// drop removes a bucket from the ledger.
func (l *Ledger) drop(b *bucket) {
	l.keepCounts(b)
	l.buckets.remove(b)
	l.releaseRule(b.rule)
	if n := b.of.Sharer(); l.keys[n] > 1 {
		l.keys[n]--
	} else {
		delete(l.keys, n)
	}
	l.refs.remove(b)
	l.timers.remove(b)
	b.dropped = true
}

// limitOf returns the limit of a key, with its override; nil if it is unknown.
func (l *Ledger) limitOf(k quota.Key) *quota.Limit {
	limit, _ := l.limitIn(l.limits, k)
	return limit
}

// limitIn returns the limit of a key out of limits, with its present override, and that override.
func (l *Ledger) limitIn(limits *quota.Limits, k quota.Key) (*quota.Limit, *quota.Override) {
	limit, ok := limits.Find(k.LimitName)
	if !ok {
		return nil, nil
	}
	o := quota.OverrideOf(limit, l.cfg.Overrides, k.Key)
	limit = o.Apply(limit)
	return limit, o
}

// savedLevelOf returns the level of a key without a bucket, on this leader's clock: from the range's log, or of a removed
// limit. It returns false if neither exists, or the key is full again.
func (l *Ledger) savedLevelOf(now quota.Time, k quota.Key, limit *quota.Limit) (savedLevel, bool) {
	var kl savedLevel
	if was := l.saved[k]; was != nil {
		kl = *was
	} else if line, ok := l.lines.Find(k); ok {
		kl.KeyLevel = line
	} else {
		return savedLevel{}, false
	}
	if onClock(now, limit, &kl.KeyLevel); max(kl.FullAt, l.learnsUntil()) <= now {
		return savedLevel{}, false
	}
	return kl, true
}

// settleLearning ends learning when each member has reported, or has probably ended, or the time
// for it is over.
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

// mayGrant reports whether tokens and new rates of the bucket may be granted. Under hard, tokens
// that an unexpired lease of an earlier term may still spend are not granted again.
func (l *Ledger) mayGrant(now quota.Time, b *bucket) bool {
	if b.limit.Ceiling == quota.Hard && !b.promises() && !b.answersLogged() && !l.first {
		lasts := max(l.cfg.Lease, b.inFlightLease()) // what an earlier leader granted, and what is in flight by it
		return l.allReported() || now.Sub(l.started) >= lasts+3*l.cfg.Sync+leaseSlack
	}
	return !l.learning
}

// MemberGone notifies the ledger that all processes of a node before that incarnation are certainly
// dead: their rates are free, and the tokens that they held count as spent. What was in flight
// there is free at once under soft. Under hard it is free after the limit's lease, because the work
// that it was acquired for may continue without the node.
func (l *Ledger) MemberGone(now quota.Time, id quota.NodeID, before quota.Incarnation) {
	l.processesDied(now, now, id, before)
}

// processesDied is MemberGone for a node whose processes last reported at died or before.
func (l *Ledger) processesDied(now, died quota.Time, id quota.NodeID, before quota.Incarnation) {
	c := change{at: now, node: id, gone: true, before: before, died: died}
	if m := l.members[id]; m == nil || m.inc < before { // otherwise a later process has reported
		if m != nil {
			m.gone, m.goneAt = true, now
		}
		delete(l.requesters, id)
		c.heard, c.known = true, member{gone: true}
	}
	l.addChange(&c)
	l.settleLearning(now)
}

// Suspect notifies the ledger that a node's process has probably ended: the ledger no longer waits
// for it. Its rates of soft limits go to others at once. Its grants of hard limits, and of windows
// that endure, stay charged until its lease is over, because it may live and be out of reach. If it
// has not reported by then, it counts as dead. A second suspicion of the same member changes
// nothing.
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
	l.addChange(&change{at: now, node: id, gone: true, before: math.MaxUint64, died: now, soft: true})
	l.settleLearning(now)
}

// endSuspects declares members dead that have been suspected for a lease, and that have no later
// lease.
func (l *Ledger) endSuspects(now quota.Time) {
	for id, m := range l.members {
		if m.suspect > 0 && !m.gone && now.Sub(m.suspect) >= l.cfg.Lease+leaseSlack && now >= m.lease.Add(leaseSlack) {
			l.processesDied(now, m.suspect, id, math.MaxUint64)
			m.suspect = 0
		}
	}
	l.suspects = false
	for _, m := range l.members {
		l.suspects = l.suspects || m.suspect != 0
	}
}

// recordLease records the end of an allocation's lease at its member.
func (l *Ledger) recordLease(al *allocation) {
	if m := l.members[al.node]; m != nil {
		m.lease = max(m.lease, al.lease)
	}
}

// SetNodes sets the number of nodes of the cluster.
func (l *Ledger) SetNodes(count int) { l.nodes = count }

// SetLimits applies changed limits. No level is refilled: used tokens stay used. The level of a key
// without a limit is kept for as long as it would have mattered, in case the limit returns.
func (l *Ledger) SetLimits(now quota.Time, limits *quota.Limits) {
	l.limits = limits
	l.addChange(&change{at: now, limits: limits})
	l.dropLive()
}

// Overridden applies changed overrides of these keys of limits (not of their counters), or of all
// keys if keys is nil.
func (l *Ledger) Overridden(now quota.Time, keys []quota.Key) {
	if keys == nil {
		l.addChange(&change{at: now, limits: l.limits, overridden: true})
		l.dropLive()
	}
	for _, k := range keys {
		for _, c := range l.limits.Charges(k.LimitName) {
			own := quota.Key{LimitName: c.Limit.LimitName, Key: k.Key}
			if b := l.bucket(own); b != nil && c.Up == 0 {
				limit, o := l.limitIn(l.limits, own)
				if l.relimit(now, b, limit, o); !b.dropped {
					l.noteChanged(now, b)
				}
			}
		}
	}
}

// relimit gives a bucket a limit, which contains the override o or none. It drops the bucket if the limit is nil.
func (l *Ledger) relimit(now quota.Time, b *bucket, limit *quota.Limit, o *quota.Override) {
	switch limit {
	case nil:
		b.advance(now)
		tier := b.tier
		kl := b.keyLevel(now)
		kl.Applied = now
		l.saveLevel(&savedLevel{kl, &tier})
		l.drop(b)
		return
	case b.limit:
	default:
		was := b.rule
		if r := l.ruleOf(b.of, limit, o); limit.Equal(b.limit) {
			b.rule = r
		} else {
			b.relimit(now, r)
			b.wakeBy(now)
		}
		l.releaseRule(was)
	}
	b.implicit = min(b.implicit, l.implicitGrant(b))
}

// Reset returns a key to its initial state: full, without debt. Members keep the tokens that they
// hold. Under soft, the use in their next reports counts as use before the reset; under hard it
// counts, because it may be of tokens that were held at the reset. The refunds in these reports
// raise no level; later ones do, also of what was taken before the reset. A leader that follows
// before these reports does not know of the reset: it counts what they report, mostly the use and
// the refunds of one sync interval of each member.
func (l *Ledger) Reset(now quota.Time, k quota.Key) {
	l.forgetLine(k)
	b := l.open(now, k)
	if b == nil {
		return
	}
	b.advance(now)
	b.pool.Fill(b.limit.BurstUnits().Plus(-b.standing()))
	b.fresh = now
	for i := range b.allocations {
		b.allocations[i].resetSinceReport = true
	}
	b.env = newEnvelope(b.unusedMeter(), now)
	b.dirty = true
	b.announced = now + 1 // an earlier leader may have announced it
	b.advance(now)
	b.wakeBy(now.Add(linger))
	l.noteChanged(now, b)
}

// lastHeard is when the key was last used or reported. A member repeats its final report until it
// is answered.
func (b *bucket) lastHeard() quota.Time {
	last := b.lastUse
	for i := range b.allocations {
		last = max(last, b.allocations[i].reported)
	}
	return last
}

// linger is how long a key that is full again keeps its counts for display, where there is room.
const linger = 10 * time.Second
