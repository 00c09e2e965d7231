package leader

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/limiter"
	"github.com/quorate/quorate/internal/quota"
)

// restore makes the account of a checkpoint's line. Every member that the line
// knows is a holder that may have used, or may hold, all that the line grants it;
// so it leaves the pool until the member reports what it really used.
func (l *Ledger) restore(now quota.Time, a *account, kl *quota.KeyLevel) {
	if !a.endures() {
		return
	}
	at := min(kl.At, now)
	for i := range kl.Marks {
		h := recall(&kl.Marks[i], at, a.limit.BurstUnits())
		if h.dead && a.turned(kl) { // others may have spent in this window what the log granted in the last
			h.void()
		}
		m := l.members[h.node]
		if m == nil && !h.dead { // removed since, or about to be known
			l.Suspect(now, h.node)
			m = l.members[h.node]
		}
		switch {
		case h.dead:
		case m != nil && m.gone:
			h.accrue(max(at, min(m.goneAt, now)))
			h.die(now)
		case m != nil && m.inc > h.inc:
			h.accrue(now)
			h.die(now)
		default:
			h.accrue(now)
		}
		a.pool.Add(-h.out)
		l.leased(a.addHolder(h))
	}
}

// turned reports whether what the line says to be out was for a window that has
// ended.
func (a *account) turned(kl *quota.KeyLevel) bool {
	if !a.tier.Kind.Windowed() || a.tier.Kind == quota.SlidingWindow {
		return false
	}
	start, _ := a.pool.Bounds()
	return start != kl.WindowStart
}

// recall is what a line says of one member.
func recall(m *quota.Mark, at quota.Time, burst quota.Units) holder {
	h := holder{
		lifeState:    lifeState{node: m.Node, inc: m.Life, epoch: m.Epoch, restored: true, dead: m.Dead},
		heldState:    heldState{out: m.Out, ret: m.Out, charged: m.Rate, from: at, lease: m.Until, capped: min(m.Cap, burst)},
		demandState:  demandState{reported: at},
		countState:   countState{used: m.Used, over: m.Overdrawn, refunded: m.Refunded},
		durableState: durableState{saved: m.Used.Plus(m.Overdrawn)},
	}
	h.log().promised = promise{at: at, total: h.saved, high: h.saved.Plus(m.Out), rate: m.Rate, cap: m.Cap, until: m.Until}
	if m.Dead {
		h.log().diedAt, h.final = at, m.Out == 0
	}
	return h
}

// know takes over what a leader before this one has committed, as the member heard from it: a
// record without an epoch of its own knows nothing else.
func (h *holder) know(e *quota.ReportEntry) {
	total := e.Used.Plus(e.Overdrawn)
	known := min(e.Saved, total)
	h.used = min(known, e.Used)
	h.over = known - h.used
	h.refunded, h.saved = 0, known
}

// resume takes over the rate that an earlier leader had granted. What the log said
// of it counts until this report is settled.
func (h *holder) resume(now quota.Time, e *quota.ReportEntry) {
	h.rate = e.Learn.Rate
	h.charged, h.from = max(h.charged, h.rate), now
	h.lease = now.Add(e.Learn.LeaseLeft)
	h.cap = max(e.Held, e.Learn.Cap)
	h.capped, h.learns, h.returned = max(h.capped, h.cap), true, e.Returned
}

// moved reports whether the next checkpoint has to say something of the account; while too many
// promises wait for the log, nothing is said.
func (a *account) moved() bool {
	if !a.dirty || len(a.own.pending) >= maxPending {
		return false
	}
	if a.promises() {
		for i := range a.holders {
			if len(a.holders[i].log().pending) >= maxPending {
				return false
			}
		}
	}
	return true
}

// endures reports whether what is counted outlives its leader.
func (a *account) endures() bool { return a.limit.Endures() }

// promises reports whether nothing may be granted that is not in the log.
func (a *account) promises() bool {
	return a.limit.Ceiling == quota.Hard && a.endures() && a.limit.Decide != quota.AtLeader
}

// promise is what a checkpoint grants a member at most: that it uses, and holds,
// up to high of its counters, and what the rate yields from at until until.
type promise struct {
	seq   quota.Seq // of the checkpoint
	at    quota.Time
	total quota.Units // booked of the member in it
	high  quota.Units
	rate  quota.Units
	cap   quota.Units
	until quota.Time
	back  quota.Units // as total, of what was given back
	final bool        // the process is dead, and nothing of it is out
}

// more reports whether it lets the member use more than is booked of it.
func (p *promise) more() bool { return p.high > p.total || p.rate > 0 }

// expects reports whether the log promises the member more than is booked of it,
// or may do so at any moment.
func (h *holder) expects() bool {
	for i := range h.log().pending {
		if h.log().pending[i].more() {
			return true
		}
	}
	return h.log().promised.more()
}

// maxPending bounds the promises to one member, and those of the leader to itself,
// that are not committed.
const maxPending = 8

// logged is what the log says of a member, and what it should say. Only
// accounts whose counts endure have it.
type logged struct {
	promised promise   // committed
	pending  []promise // in checkpoints that are not known to be committed
	planned  planned
	diedAt   quota.Time // if it is dead
}

// log is for accounts whose counts endure.
func (h *holder) log() *logged {
	if h.logged == nil {
		h.logged = &logged{}
	}
	return h.logged
}

func (h *holder) unpromise() {
	if h.logged != nil {
		h.logged.promised, h.logged.pending = promise{}, nil
	}
}

func (h *holder) unplan() {
	if h.logged != nil {
		h.logged.planned = planned{}
	}
}

// planned is what a division would have granted.
type planned struct {
	tokens, rate, cap quota.Units
	short             bool // and the promise did not cover
}

// bounds returns what may be granted to h: the least of what is committed and
// of what may become so at any moment.
func (h *holder) bounds(now quota.Time) (tokens, rate, most quota.Units, until quota.Time) {
	spent := h.used.Plus(h.over).Plus(h.out)
	left := func(p *promise) quota.Units {
		dt := max(0, min(now, p.until).Sub(p.at))
		return p.high.Plus(perSecond(p.rate, dt)).Plus(-spent)
	}
	p := &h.log().promised
	tokens, rate, most, until = left(p), p.rate, p.cap, p.until
	for i := range h.log().pending {
		p := &h.log().pending[i]
		tokens, rate, most, until = min(tokens, left(p)), min(rate, p.rate), min(most, p.cap), min(until, p.until)
	}
	return max(0, tokens), rate, most, until
}

// promised cuts what was divided for h to what the log has promised: tokens and
// lease, and h's rate and cap. capped is what its cap was at most before. Where that is
// less, the next checkpoint promises more, and is wanted at once.
func (l *Ledger) promised(now quota.Time, a *account, h *holder, tokens, capped quota.Units) (quota.Units, quota.Time) {
	room, rate, top, until := h.bounds(now)
	flights := h.flown
	most := max(capped, h.held).Plus(flights)
	if h.charged == 0 { // it accrues nothing: an earlier cap is no room that it takes
		most = min(most, h.out)
	}
	h.log().planned = planned{tokens: tokens, rate: h.rate, cap: h.cap.Plus(flights).Plus(tokens)}
	got := max(0, min(tokens, room, top.Plus(-most)))
	h.rate = min(h.rate, rate)
	lease := now.Add(l.cfg.Lease)
	if until < lease && h.rate > 0 {
		if lease = until; until < now.Add(l.cfg.Sync) {
			h.rate, lease = 0, now.Add(l.cfg.Lease)
		}
	}
	if h.rate == 0 {
		got -= got % quota.Token
	}
	h.cap = max(0, min(h.cap, top.Plus(-flights).Plus(-got)))
	h.capped = max(capped, h.cap)
	h.log().planned.short = got < tokens || h.rate < h.log().planned.rate
	if h.log().planned.short {
		if a.dirty = true; len(h.log().pending) == 0 && !l.catching {
			l.want(a)
		}
	}
	return got, lease
}

// foresee is how long a promise should last: two checkpoints and the time that
// they take.
const foresee = 2 * time.Second

// promise is what the next checkpoint grants the member: what it has, and as much
// as it should need before the one after next.
func (a *account) promise(now quota.Time, h *holder, lease time.Duration) promise {
	burst := a.limit.BurstUnits()
	p := promise{at: now, total: h.used.Plus(h.over), rate: h.charged, cap: max(h.most(), min(h.out, h.capped)), until: max(now, h.lease)}
	head := quota.Units(0)
	if !h.dead && !h.closed {
		need := quota.RoundUnits(min(h.demand, h.live*2+1) * foresee.Seconds())
		need = min(need, max(0, a.pool.Level())) // the rest of it is the rate's
		head = min(burst, max(need, 2*h.log().planned.tokens, burst/16, 4*quota.Token))
		p.rate = max(p.rate, min(a.limit.Rate.PerSecond(), h.log().planned.rate+h.log().planned.rate/2))
		p.cap = max(p.cap, min(burst, max(2*h.log().planned.cap, h.most().Plus(head))))
		p.until = max(p.until, now.Add(lease+foresee))
	}
	p.high = p.total.Plus(h.out).Plus(head)
	return p
}

// mark is the member's line in a checkpoint.
func (h *holder) mark() quota.Mark {
	return quota.Mark{
		Node: h.node, Life: h.inc, Epoch: h.epoch, Used: h.used, Overdrawn: h.over, Refunded: h.refunded,
		Out: h.out, Rate: h.charged, Cap: min(h.out, h.most()), Until: h.lease, Dead: h.dead,
	}
}

// promiseAll notes what the checkpoint says of the members, and adds what it promises
// them.
func (l *Ledger) promiseAll(now quota.Time, a *account, kl *quota.KeyLevel) {
	for i := range a.holders {
		h, m := &a.holders[i], &kl.Marks[i]
		p := promise{at: now, total: h.used.Plus(h.over)}
		if a.promises() {
			p = a.promise(now, h, l.cfg.Lease)
			m.Out, m.Rate, m.Cap, m.Until = p.high.Plus(-p.total), p.rate, p.cap, p.until
		} else if !h.dead {
			m.Out, m.Rate, m.Cap, m.Until = 0, 0, 0, 0 // members report what they hold, and soft may err there
			kl.Level = min(kl.Level, a.limit.BurstUnits())
		}
		p.seq, p.back, p.final = l.written, h.refunded, h.dead && h.out == 0
		h.log().pending = append(h.log().pending, p)
	}
	a.promiseOwn(now, l.written, kl)
	l.writing = append(l.writing, writing{l.written, a})
}

// writing is an account in a checkpoint that is not known to be committed.
type writing struct {
	seq quota.Seq
	a   *account
}

// Written returns the number of the checkpoint that was made last, or 0.
func (l *Ledger) Written() quota.Seq { return l.written }

// More reports whether the checkpoint that was last made had no room for all that moved.
func (l *Ledger) More() bool { return l.more }

// Wants reports whether a checkpoint should be written at once: a member waits
// for what only the log can grant.
func (l *Ledger) Wants() bool { return len(l.wanted) > 0 }

// Saved notifies the ledger that the log has committed its checkpoints up to this
// one. It returns grants for members that had to wait for that, and the grants to
// others that follow from them, in the order in which to send them: Pushed has
// nothing of it.
func (l *Ledger) Saved(now quota.Time, upTo quota.Seq) []quota.Grant {
	n := 0
	var out []quota.Grant
	for n < len(l.writing) && l.writing[n].seq <= upTo {
		a := l.writing[n].a
		n++
		if a.dropped || l.current(a) == nil {
			continue
		}
		a.own.committed(upTo)
		closed := true
		for i := range a.holders {
			h := &a.holders[i]
			h.committed(upTo)
			closed = closed && h.closed
			a.wakeBy(h.forgottenAt(a))
			if a.promises() {
				a.wakeBy(h.renewAt(l.cfg.Lease))
			}
		}
		if closed {
			a.wakeBy(now)
		}
		out = l.catchUp(now, a, out)
		l.note(now, a)
	}
	l.writing = slices.Delete(l.writing, 0, n)
	return out
}

func (h *holder) committed(upTo quota.Seq) {
	n := 0
	for n < len(h.log().pending) && h.log().pending[n].seq <= upTo {
		h.log().promised = h.log().pending[n]
		n++
	}
	if n > 0 {
		h.saved = max(h.saved, h.log().promised.total)
		h.final = h.log().promised.final && h.log().promised.total == h.used.Plus(h.over) && h.log().promised.back == h.refunded
		h.log().pending = slices.Delete(h.log().pending, 0, n)
	}
}

// catchUp grants what members were short of for want of a promise.
func (l *Ledger) catchUp(now quota.Time, a *account, out []quota.Grant) []quota.Grant {
	stands := a.advance(now) // holders of a window that has ended go here, not in the loop
	l.catching = true
	defer func() { l.catching = false }()
	for i := range a.holders {
		h := &a.holders[i]
		if !h.log().planned.short || h.dead || h.closed || len(h.log().pending) > 0 {
			continue
		}
		e := quota.ReportEntry{Key: a.key, Epoch: h.epoch, Want: h.want}
		entries := make([]quota.GrantEntry, 1)
		l.grant(now, a, h, &e, 0, true, stands-h.standing(), &entries[0])
		stands = a.advance(now)
		out = append(out, quota.Grant{Range: l.id, Term: l.term, From: l.self, To: h.node, At: now, Entries: entries})
		out = append(out, l.Pushed()...)
	}
	return out
}

// recountable is the meter of everything that is not booked and has not
// overflowed.
func (a *account) recountable() limiter.Meter {
	m := a.pool
	m.Add(a.claimed())
	for i := range a.holders {
		m.Add(a.holders[i].ret)
	}
	return m
}
