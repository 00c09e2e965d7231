package aggregator

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// Apply applies a grant. It ignores grants of lower terms, of nodes that do not lead the range, and repetitions.
func (a *Aggregator) Apply(now quota.Time, g quota.Grant) {
	if int(g.Range) >= len(a.ranges) {
		return
	}
	rt := &a.ranges[g.Range]
	if g.Incarnation != 0 && g.Incarnation != a.cfg.Incarnation {
		return // for an earlier process: its sequence numbers mean nothing here
	}
	if g.Term < rt.term || g.Term == rt.term && g.From != rt.leader {
		return
	}
	if g.Term > rt.term {
		a.SetLeader(g.Range, g.From, g.Term)
		return // it cannot answer a report of this member, none of which named that term
	}
	if rt.answered(&g) && !rt.met {
		rt.met = true
		a.met.Add(1)
	}
	off := rt.clock.observe(g.At, rt.sentAt(&g), now)
	at := g.At + quota.Time(off.high)
	var ack quota.Seq
	var lines []sentLine // of report ack
	var took time.Duration
	for i := range g.Entries {
		e := &g.Entries[i]
		if e.Incarnation != 0 {
			a.dropRecovered(rt, e)
			continue
		}
		if e.Announced {
			a.announced(now, at, off, rt, e)
			continue
		}
		if e.Line > 0 && e.Ack != ack {
			if ack, lines = e.Ack, nil; rt.sent.of(ack) != nil {
				r := rt.sent.of(ack)
				lines, took = r.lines, now.Sub(r.at)
			}
		}
		if i%prefetchBatch == 0 {
			prefetchLines(lines, g.Entries[i:min(i+prefetchBatch, len(g.Entries))])
		}
		if b := a.entryBucket(lines, e); b != nil {
			a.apply(now, at, off, b, rt, e, took)
		}
	}
	rt.sent.answered(ack, &a.spare)
}

// entryBucket returns the bucket that an entry refers to and completes the entry. A line refers to a report that the member
// remembers.
func (a *Aggregator) entryBucket(lines []sentLine, e *quota.GrantEntry) *bucket {
	if n := int(e.Line); n > 0 && n <= len(lines) {
		l := &lines[n-1]
		e.Key, e.Epoch = quota.Key{LimitName: l.b.entry.name, Key: l.b.key}, l.epoch
		return l.b
	}
	if e.Key.Key == "" { // its report is forgotten: the key is reported again
		return nil
	}
	b, _ := a.find(e.Key)
	return b
}

// prefetchLines prefetches the buckets that entries refer to.
func prefetchLines(lines []sentLine, entries []quota.GrantEntry) (sum int64) {
	for i := range entries {
		if n := int(entries[i].Line); n > 0 && n <= len(lines) {
			sum += lines[n-1].b.prefetch()
		}
	}
	return sum
}

// answered notes that the leader answers, and ends the full report if the grant answers it. It returns whether it does.
// Only a full report may receive an empty answer.
func (rt *route) answered(g *quota.Grant) bool {
	rt.asked = 0
	rt.absent.end()
	full := rt.full.times > 0 && (len(g.Entries) == 0 || g.Entries[0].Ack != 0 && slices.Contains(rt.full.ends[:], g.Entries[0].Ack))
	if full {
		rt.full = fullReport{}
	}
	return full
}

// sentAt returns when the report was sent that the grant answers; 0 if it answers none, or a forgotten one.
func (rt *route) sentAt(g *quota.Grant) quota.Time {
	for i := range g.Entries {
		if r := rt.sent.of(g.Entries[i].Ack); r != nil {
			return r.at
		}
	}
	return 0
}

// apply applies one entry of a grant to its bucket: a recall, an answer to a report, or a grant. It ignores entries of
// other epochs and grants that are older than the last one. at is the leader's time of the grant on this member's clock.
// took is the time since the answered report was sent, if the entry refers to a line of it.
func (a *Aggregator) apply(now, at quota.Time, off clockOffset, b *bucket, rt *route, e *quota.GrantEntry, took time.Duration) {
	b.lock()
	defer b.unlock()
	if b.dead || e.Epoch != b.epoch || b.phase == closed {
		return
	}
	if e.Recall {
		a.recallAllocations(b)
		b.recalled = b.phase == open && b.pending == 0
		// An overdue answer was lost on one of the two ways; this recall shows that the way here is open
		// (TestRecallWhileOverdue in internal/sim).
		b.overdue = b.phase == open && b.pending != 0 && now.Sub(b.sentAt) > 2*rt.trip()
		if b.recalled || b.overdue {
			a.markUrgent(b)
		}
		return
	}
	if e.Unknown {
		if b.ref, b.overdue = 0, b.pending != 0; b.overdue {
			a.markUrgent(b)
		}
		return
	}
	b.answer(now, rt, e, took)
	if b.term != rt.term {
		b.setAnswered(0)
	}
	if b.cancelled.any() {
		a.markUrgent(b)
	}
	if e.Saved > b.saved {
		b.rare().saved = e.Saved
		b.writeSlot()
	}
	if b.phase == closing {
		if e.Closed && b.pending == 0 {
			a.closeBucket(now, at, off, b, rt, e)
		} else if b.pending == 0 { // the log does not contain its counts yet
			b.lease = max(b.lease, at.Add(a.cfg.Lease)) // a leader answers
			a.wheel.add(b, now.Add(e.Again))
		}
		return
	}
	if e.Closed || b.term == rt.term && e.Seq <= b.applied {
		return
	}
	if b.noGrantYet && e.Ack == 0 { // it may be from before a final report, with which the leader took its tokens back
		return
	}
	if e.Ref != 0 || b.term != rt.term {
		b.ref = e.Ref
	}
	// The leader counts the tokens of a grant that was lost, or that this one overtook, as held here until the next report.
	missed := b.term == rt.term && b.applied > 0 && e.Seq > b.applied+1
	b.applied, b.term = e.Seq, rt.term
	b.roll(now, b.limit())
	b.offset, b.lag = off.high, off.lag()
	if !b.adoptWindow(now, off, e) {
		a.wheel.add(b, now)
		return
	}
	b.regrant(now, at, e)
	if b.grantedBeforeCut(e) {
		b.stop()
	}
	since := b.sinceLevel(at)
	b.anchor(now, at, off, e)
	b.repay()
	b.averageShare(b.limit(), e, since)
	b.noneFree = !missed && e.Free < max(b.lacks(), quota.Token)
	b.grantedNothing, b.central = e.Tokens == 0 && e.Rate == 0, e.Central
	b.hot().low.Store(int64(b.lowWater(rt, e)))
	a.wheel.add(b, max(now, b.sentAt.Add(e.Again))) // or every other turn of the wheel is missed
	if b.askAgain && (a.stopping || quota.Units(b.hot().held.Load()) < max(b.want, quota.Units(b.hot().low.Load()))) {
		a.markUrgent(b)
	}
}

// minTrip bounds round trips from below.
const minTrip = 200 * time.Microsecond

// answer notes that a report was answered, and measures the round trip.
func (b *bucket) answer(now quota.Time, rt *route, e *quota.GrantEntry, took time.Duration) {
	if e.Ack != 0 && e.Ack < b.pending { // repeated before this answer came: the round trip is at least that long
		rt.rtt = min(max(rt.rtt, took), time.Second)
		rt.lastTrip = took
	}
	if b.pending == 0 || e.Ack != b.pending {
		return
	}
	if b.tries != 0 {
		b.rare().tries = 0
	}
	b.pending, b.acked, b.ackedOver, b.ackedBack = 0, b.sent.spent(), b.sent.over, b.sent.back
	b.cancelled.acknowledge()
	b.acknowledgeReturned()
	rt.lastTrip = now.Sub(b.sentAt)
	rt.rtt += (rt.lastTrip - rt.rtt) / 8
	rt.rtt = min(max(rt.rtt, minTrip), time.Second)
}

// regrant switches from the old rate to the new one at the leader's time.
func (b *bucket) regrant(now, at quota.Time, e *quota.GrantEntry) {
	if at < now {
		if b.earn(at); at >= b.lease {
			b.expire()
		}
	} else {
		b.accrue(now)
	}
	if b.rate > e.Rate && b.from > at { // the old, higher rate accrued too much since: take it back
		over := accrued(b.rate-e.Rate, b.from.Sub(at))
		b.hot().held.Add(int64(-over))
		b.in, b.base = b.in-over, b.base-over
	}
	b.rate, b.cap = e.Rate, e.Cap
	b.dropAccruedBeyondCap(at, e)
	b.from = max(b.from, at)
	b.lease = at.Add(e.Lease)
	b.addHeld(e.Tokens)
	b.accrue(now)
	b.noGrantYet = false
}

// dropAccruedBeyondCap takes back tokens that accrued after the grant was made (at), as far as the tokens of the grant left no
// room for them under the cap: the leader counts those as held by this member from then on.
func (b *bucket) dropAccruedBeyondCap(at quota.Time, e *quota.GrantEntry) {
	if b.from <= at || e.Tokens == 0 {
		return
	}
	most := quota.Units(b.hot().held.Load()) + b.allocated + b.counts().spent() - b.acked // at most held at that time
	if over := min(accrued(e.Rate, b.from.Sub(at)), most.Plus(e.Tokens)-e.Cap); over > 0 {
		b.hot().held.Add(int64(-over))
		b.in, b.base = b.in-over, b.base-over
	}
}

// anchor sets the estimate to the leader's level at the time of the grant, which includes own use up to the report
// that it answers. A leader's answer may have overtaken the grant: its level is newer, and stays.
func (b *bucket) anchor(now, at quota.Time, off clockOffset, e *quota.GrantEntry) {
	unseen := e.Unseen
	if overtaken := b.answered.Sub(at - quota.Time(off.high)); overtaken > 0 && overtaken < maxOvertaking {
		unseen = 0
	} else {
		b.setAnswered(0)
		b.hasLevel, b.levelAt, b.level = true, at, b.levelUnderLimit(e)
	}
	b.est, b.estAt, b.others, b.presumed = b.level-unseen, min(b.levelAt, now), e.Others, unseen
	b.stale = at.Add(demandIntervals * e.Again)
	b.setCredit(e.Credit, e.Aside)
	if b.fresh = false; b.level >= b.deniedCost {
		b.setDenied(0, 0)
	}
	b.estUsed, b.estBack = b.knownUse(b.limit()), b.ackedBack
}

// maxOvertaking bounds by how much an answer may overtake a grant. By more, the leader's clock was set back.
const maxOvertaking = time.Second

// knownUse is the own use that the leader's level includes: up to the last answered report, or all that the leader has
// admitted itself.
func (b *bucket) knownUse(l *quota.Limit) quota.Units {
	if l.ReportsAnswers() {
		return b.counts().used + b.ackedOver
	}
	return b.acked
}

// levelUnderLimit returns the grant's level by the limit version that this member counts by; the leader may have
// another one for a moment. The use of a window is the same under both versions; a token bucket has the same level.
func (b *bucket) levelUnderLimit(e *quota.GrantEntry) quota.Units {
	l := b.as
	if l == nil || l.Kind == quota.TokenBucket || e.Burst == 0 {
		return e.Level
	}
	return min(e.Level.Plus(l.BurstUnits()-e.Burst), l.BurstUnits())
}

// lacks returns what this member wanted beyond what it holds now. Only a hard limit has held tokens deducted: there a
// leader grants the rest a moment later, when the log has saved it.
func (b *bucket) lacks() quota.Units {
	if l := b.limit(); l.Ceiling == quota.Soft || l.Kind == quota.Concurrency {
		return b.wanted
	}
	return b.wanted - min(quota.Units(b.hot().held.Load()), b.wanted)
}

// lowWater returns the amount of held tokens below which the key asks for more: it covers less than two round trips
// of demand, the use since the grant is a surprise, or half of a hard key's tokens without a rate are used. It is 0 if
// the cluster has no more than is held.
func (b *bucket) lowWater(rt *route, e *quota.GrantEntry) quota.Units {
	low := accrued(b.demand, 2*rt.rtt)
	if e.Level <= quota.Units(b.hot().held.Load()) || b.noneFree {
		return 0
	}
	held := quota.Units(b.hot().held.Load())
	if b.rate == 0 && b.limit().Ceiling == quota.Hard { // the leader's bucket gains nothing for use that it does not know
		low = max(low, held/2)
	}
	return max(low, held-b.maxExpectedUse(e.Again))
}

// maxExpectedUse returns the most that a member uses until its next report, if its demand is what the leader expects,
// and a few tokens. More is a surprise.
func (b *bucket) maxExpectedUse(again time.Duration) quota.Units {
	mean := float64(b.demand) * float64(again) * (1 / (float64(quota.Token) * float64(time.Second)))
	return quota.RoundUnits((fairshare.Most(mean, 1) + fewTokens) * float64(quota.Token))
}

// demandIntervals is the number of reporting intervals for which the others' demand is valid.
const demandIntervals = 3

// fewTokens is the number of tokens that are no surprise.
const fewTokens = 4

// closeBucket ends an epoch. Use since the final report, and requests in flight, begin the next one.
func (a *Aggregator) closeBucket(now, at quota.Time, off clockOffset, b *bucket, rt *route, e *quota.GrantEntry) {
	b.adoptWindow(now, off, e)
	c, sent := b.counts(), b.sent
	b.anchor(now, at, off, e)
	b.phase, b.term = closed, rt.term
	b.closeSlot()
	if b.local != nil { // it belongs to this epoch
		b.rare().local = nil
	}
	b.setCredit(0, 0)
	if c == sent && b.inFlight == 0 && !b.cancelled.any() {
		b.changed = now
		a.unlist(b)
		a.idle = append(a.idle, idleBucket{b, now})
		return
	}
	est, at2 := b.est, b.estAt
	b.tally()
	a.openBucket(now, b, b.limit())
	b.est, b.estAt = est, at2
	since := b.sentAt
	b.sentAt = 0 // no report of this epoch was sent
	b.in, b.over = max(0, c.used-sent.used), max(0, c.over-sent.over)
	b.refused, b.refunded = max(0, c.refused-sent.refused), 0
	b.countRefund(since, c.back-sent.back)
	b.skipTally()
	b.writeSlot()
}
