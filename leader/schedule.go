package leader

import (
	"math"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// The cost of upkeep depends on what is due, not on the number of accounts: no method that is called
// periodically visits all accounts.
//
//   - Sweep visits an account when its alarm goes off (timers). The alarm is never later than the
//     next moment at which time alone changes something that others can see: see Ledger.nextAlarm.
//     It may be earlier: then the visit sets it again.
//   - Checkpoint reads the list of accounts that have moved since the last one (Ledger.moved), and
//     TopSince that of accounts with new counts (Ledger.counted).
//   - What concerns all accounts at once (the death of a member, changed limits) is a change that
//     each account applies at its own moment before it is used for anything else: see change.

// never is the alarm of an account that only a report or a request can change.
const never = quota.Time(math.MaxInt64)

const (
	// sweepEvery is the shortest time between two visits to an account that time has changed.
	sweepEvery = 500 * time.Millisecond
	// maxEarly bounds the accounts that one Sweep visits before their time, to make room.
	maxEarly = 4096
)

// wakeBy asks for a visit at a moment, or earlier. The ledger learns of it in note.
func (a *account) wakeBy(t quota.Time) { a.alarm = min(a.alarm, t) }

// note files an account that has been worked on under all that is due now: the next checkpoint, the
// next list of top keys, the next visit. Everything that changes an account ends with it.
func (l *Ledger) note(now quota.Time, a *account) {
	if a.dirty && !a.queued {
		if a.tier.Kind == quota.Concurrency { // what is in flight dies with its nodes
			a.dirty = false
		} else {
			a.queued = true
			l.moved.push(a)
		}
	}
	if a.counted == nil && a.attempted != a.listed.attempted {
		for range 2 { // more than one comes, so that the places of accounts that are gone do not pile up
			if l.counted.len() > 0 && l.counted.first() == nil {
				l.counted.pop()
				l.topLeft = max(0, l.topLeft-1)
			}
		}
		a.counted = l.counted.push(a)
	}
	if a.live != nil {
		a.wakeBy(now.Add(sweepEvery))
	}
	l.timers.set(a, a.alarm)
}

// nextAlarm is the next moment, at least sweepEvery from now, at which time alone changes something that
// a visit has to note: measurements of the live error that are complete, a promise that must be renewed, a
// member's record that may be forgotten, or an account that equals a new one. The account has
// been visited.
func (l *Ledger) nextAlarm(now quota.Time, a *account) quota.Time {
	at := never
	by := func(t quota.Time) { at = min(at, t) }
	if a.live != nil {
		by(now)
	}
	for _, g := range a.outlived {
		by(g.until)
	}
	closed := true
	for i := range a.holders {
		h := &a.holders[i]
		closed = closed && h.closed
		by(h.forgottenAt(a))
		if a.promises() {
			by(h.renewAt(l.cfg.Lease))
		}
	}
	if a.own.earlier > 0 {
		by(a.own.until)
	}
	if closed && (a.saved || !a.dirty) {
		m := a.pool
		m.Add(a.claimed())
		full := now
		if m.Level() < a.limit.BurstUnits() {
			full = now.Add(min(m.ResetAfter(now, &a.tier), maxFull))
		}
		by(max(full, a.lastHeard().Add(linger), a.keep))
	}
	if at == never {
		return at
	}
	return max(at, now.Add(sweepEvery))
}

// renewAt is when the promise to a member with a rate must be renewed, if none is on its way to the
// log: see account.late.
func (h *holder) renewAt(lease time.Duration) quota.Time {
	if h.charged == 0 || h.dead || len(h.log().pending) > 0 {
		return never
	}
	return h.log().promised.until.Add(-lease - foresee/4)
}

// late reports whether the promise to a member with a rate ends so soon that it must be renewed.
func (a *account) late(now quota.Time, lease time.Duration) bool {
	if a.promises() {
		for i := range a.holders {
			if a.holders[i].renewAt(lease) < now {
				return true
			}
		}
	}
	return false
}

// Sweep does what time alone asks for: it ends learning, forgets holders that
// have been silent for a minute, and drops accounts that are full and that
// nobody holds: a new account would be the same. Call it about once a second.
func (l *Ledger) Sweep(now quota.Time) {
	for l.SweepSome(now, math.MaxInt) {
	}
}

// SweepSome is Sweep in steps of at most so many accounts: call it again, without delay, as long
// as it returns true.
func (l *Ledger) SweepSome(now quota.Time, most int) (more bool) {
	l.settleLearning(now)
	l.endSuspects(now)
	l.forgetAskers(now)
	most = l.catchUpChanges(most)
	for ; most > 0 && l.timers.due(now); most-- {
		l.visit(now, l.timers.pop())
	}
	most = l.makeRoom(now, most)
	for ; most > 0 && len(l.expiry) > 0 && l.expiry[0].FullAt <= now; most-- {
		kl := l.expiry.pop()
		if l.saved[kl.Key] == kl {
			delete(l.saved, kl.Key)
		}
	}
	return len(l.changes) > 0 || l.timers.due(now) || len(l.expiry) > 0 && l.expiry[0].FullAt <= now
}

// visit does what time alone asks for in one account, and sets its next alarm.
func (l *Ledger) visit(now quota.Time, a *account) {
	l.visits++
	if a = l.current(a); a == nil {
		return
	}
	a.advance(now)
	l.liveSweep(now, a)
	a.forget(now, l.nodes)
	a.dirty = a.dirty || a.late(now, l.cfg.Lease)
	shown := now.Sub(a.lastHeard()) < linger && len(l.accounts) < l.cfg.MaxKeys/2
	if a.idle() && !shown && now >= a.keep && (!a.dirty || a.saved) {
		l.drop(a)
		return
	}
	a.alarm = l.nextAlarm(now, a)
	l.note(now, a)
}

// makeRoom visits accounts before their time where more than half of the room is used: those that
// are kept only for people go.
func (l *Ledger) makeRoom(now quota.Time, most int) int {
	var early []*account
	for len(l.accounts) >= l.cfg.MaxKeys/2 && most > 0 && len(early) < maxEarly && l.timers.due(now.Add(linger)) {
		early = append(early, l.timers.pop())
		most--
	}
	for _, a := range early {
		l.visit(now, a)
	}
	return most
}

// change is an event that concerns every account. It costs nothing when it happens: an account
// applies it, as of the moment of the change, before anything else is done with it, and Sweep
// sees to those that nobody uses. Nothing has happened to the account in between, so the result is
// the same as if all accounts had applied it at once.
type change struct {
	at     quota.Time
	limits *quota.Limits // changed limits; nil for a change of a member

	node   quota.NodeID
	heard  bool // the member's claims are settled: its state as of the change
	known  member
	gone   bool // its processes before that incarnation have ended
	before quota.Incarnation
	died   quota.Time
	soft   bool // only where nothing stays charged to it until its lease is over
}

// happens adds a change for all accounts.
func (l *Ledger) happens(c *change) {
	if len(l.accounts) == 0 {
		return
	}
	l.changes = append(l.changes, *c)
}

// happened is the number of changes that have happened so far.
func (l *Ledger) happened() uint64 { return l.trimmed + uint64(len(l.changes)) }

// current applies to an account the changes that it has not seen. It returns nil if one of them
// has ended the account.
func (l *Ledger) current(a *account) *account {
	if a.seen == l.happened() {
		return a
	}
	for a.seen < l.happened() {
		c := l.changes[a.seen-l.trimmed]
		a.seen++
		l.visits++
		if c.apply(l, a); a.dropped {
			return nil
		}
		a.wakeBy(c.at)
		l.note(c.at, a)
	}
	return a
}

func (c *change) apply(l *Ledger, a *account) {
	switch {
	case c.limits != nil:
		l.relimit(c.at, a, c.limits)
		return
	case c.heard && len(a.claims) > 0:
		a.advance(c.at)
		a.hear(c.at, c.node, &c.known)
	}
	if !c.gone || c.soft && (a.limit.Ceiling == quota.Hard || a.endures()) {
		return
	}
	a.advance(c.at)
	for i := len(a.holders) - 1; i >= 0; i-- {
		if h := &a.holders[i]; h.node == c.node && h.inc < c.before {
			a.retire(c.at, c.died, i)
		}
	}
}

// catchUpChanges applies changes to accounts that nobody has used since, at most so many, in the
// order of their numbers, and forgets changes that all have applied. It returns how many more may
// be visited.
func (l *Ledger) catchUpChanges(most int) int {
	for ; len(l.changes) > 0 && most > 0; l.cursor++ {
		if l.cursor >= len(l.refs.accounts) { // a round ends
			n := l.until - l.trimmed
			l.changes, l.trimmed = append([]change(nil), l.changes[n:]...), l.until
			l.cursor, l.until = -1, l.happened()
			continue
		}
		if a := l.refs.accounts[l.cursor]; a != nil && a.seen < l.happened() {
			l.current(a)
			most--
		}
	}
	return most
}

// timers is a heap of accounts by the time of their alarm; account.timer is the place in it.
type timers []alarm

type alarm struct {
	at quota.Time
	a  *account
}

// set moves the alarm of an account to a time, if that is earlier; see pop.
func (t *timers) set(a *account, at quota.Time) {
	switch {
	case a.timer > 0 && (*t)[a.timer-1].at <= at || at == never:
		return
	case a.timer == 0:
		*t = append(*t, alarm{at, a})
		t.up(len(*t) - 1)
	default:
		(*t)[a.timer-1].at = at
		t.up(int(a.timer - 1))
	}
}

func (t timers) due(now quota.Time) bool { return len(t) > 0 && t[0].at <= now }

// pop removes the earliest alarm, and returns its account.
func (t *timers) pop() *account { return t.removeAt(0) }

// remove removes the alarm of an account, if it has one.
func (t *timers) remove(a *account) {
	if a.timer > 0 {
		t.removeAt(int(a.timer - 1))
	}
}

func (t *timers) removeAt(i int) *account {
	s := *t
	a, last := s[i].a, len(s)-1
	s[i] = s[last]
	s[i].a.timer = uint32(i + 1)
	s[last] = alarm{}
	*t = s[:last]
	if i < last {
		t.down(i)
		t.up(i)
	}
	a.timer, a.alarm = 0, never
	return a
}

func (t timers) up(i int) {
	x := t[i]
	for i > 0 {
		parent := (i - 1) / 2
		if t[parent].at <= x.at {
			break
		}
		t.put(i, t[parent])
		i = parent
	}
	t.put(i, x)
}

func (t timers) down(i int) {
	x := t[i]
	for {
		child := 2*i + 1
		if child >= len(t) {
			break
		}
		if child+1 < len(t) && t[child+1].at < t[child].at {
			child++
		}
		if x.at <= t[child].at {
			break
		}
		t.put(i, t[child])
		i = child
	}
	t.put(i, x)
}

func (t timers) put(i int, x alarm) {
	t[i] = x
	x.a.timer = uint32(i + 1)
}

// expiry is a heap of saved levels by the time at which the log may forget them.
type expiry []*savedLevel

func (e *expiry) push(kl *savedLevel) {
	*e = append(*e, kl)
	s := *e
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if s[parent].FullAt <= s[i].FullAt {
			break
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (e *expiry) pop() *savedLevel {
	s := *e
	first, last := s[0], len(s)-1
	s[0], s[last] = s[last], nil
	s = s[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s) {
			break
		}
		if child+1 < len(s) && s[child+1].FullAt < s[child].FullAt {
			child++
		}
		if s[i].FullAt <= s[child].FullAt {
			break
		}
		s[i], s[child] = s[child], s[i]
		i = child
	}
	*e = s
	return first
}

// accountQueue is a list of accounts, oldest first, in blocks: no operation on it takes time in
// proportion to its length, and the place of an account stays where it is. A place may be emptied.
type accountQueue struct {
	blocks [][]*account
	from   int // in the first block
	n      int
}

const queueBlock = 128

func (q *accountQueue) len() int { return q.n }

func (q *accountQueue) first() *account { return q.blocks[0][q.from] }

// push adds an account, and returns its place.
func (q *accountQueue) push(a *account) **account {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last]) == queueBlock {
		q.blocks = append(q.blocks, make([]*account, 0, queueBlock))
		last++
	}
	q.blocks[last] = append(q.blocks[last], a)
	q.n++
	return &q.blocks[last][len(q.blocks[last])-1]
}

func (q *accountQueue) pop() *account {
	a := q.blocks[0][q.from]
	q.blocks[0][q.from] = nil
	q.n--
	if q.from++; q.from == len(q.blocks[0]) {
		q.blocks[0] = nil
		q.blocks, q.from = q.blocks[1:], 0
	}
	return a
}
