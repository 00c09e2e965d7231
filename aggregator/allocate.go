package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// AllocationRequest is what somebody one level below asks of a key.
type AllocationRequest struct {
	// Tokens is the most that is allocated, in whole tokens.
	Tokens quota.Units
	// Wait is what callers below wait for, or were refused, beyond that: if it is
	// not here the leader is asked for it with the next report.
	Wait quota.Units
	// Look allocates nothing, and does not open the key.
	Look bool
}

// Generation distinguishes the allocations of one opening and window of a key from others: when
// it changes, all that was allocated before is void.
type Generation struct {
	Epoch quota.Seq
	Voids uint32
}

// Allocation is what a member hands out of a key to somebody one level below, and what it
// knows of it. Times are of the member's clock, rates per second.
type Allocation struct {
	// Limit is the limit that applies to the key. It is nil without a limit, or without room for
	// the key: then nothing else is set.
	Limit *quota.Limit
	Gen   Generation
	// Tokens are allocated now: they count as held here until they are settled.
	Tokens quota.Units
	// Unbacked says that no leader has granted them: this node is cut off, and the
	// limit's when_cut_off allows them.
	Unbacked bool
	// Held is what could still be allocated now, Rate what that gains, and Demand what
	// this node's callers ask for, those below included.
	Held, Rate, Demand quota.Units

	Level    quota.Units // as GrantEntry.Level
	Unseen   quota.Units // as GrantEntry.Unseen, and what the others have probably used since
	Aside    quota.Units // as GrantEntry.Aside, under hard only; all of Level where no leader answers
	Others   quota.Units // demand of the other nodes
	NoneFree bool        // the leader had nothing left
	HasLevel bool        // a leader has told the level
	CutOff   bool        // no leader has answered for a whole lease
	Slope    quota.Units // what the level gains if nobody asks
	Nodes    int         // of the cluster

	// Window names the window that Level and Tokens are for: its start on the
	// leader's clock. It is from Since to Until on this node's, under hard less what
	// that may be late. All are 0 for kinds without windows.
	Window, Since, Until quota.Time
	// Lease is how long what is allocated lasts.
	Lease time.Duration
	// Again is as in GrantEntry.
	Again time.Duration
}

// Allocate hands out of what is held of a counter, opening the key if need be. Limits
// that count what is in flight, that their leader decides or that reserve tokens
// to come are not allocated of: their callers ask the node. Soft keys for which the node has no
// room get the level of the bucket that they share, and no tokens. Any goroutine may call it.
func (a *Aggregator) Allocate(clock Clock, k quota.Key, w AllocationRequest) Allocation {
	for {
		b := a.allocator(k)
		if b == nil {
			return Allocation{}
		}
		w.Look = w.Look || b.key != k.Key
		if loan, ok := a.allocate(clock(), b, w); ok {
			return loan
		}
	}
}

func (a *Aggregator) allocator(k quota.Key) *bucket {
	s := a.table.find(k.LimitName)
	if s == nil && k.IsInline() {
		s = a.table.inline.slot(k.LimitName)
	}
	if s == nil || s.gone.Load() {
		return nil
	}
	if b := a.table.bucket(s, k.Key); b != nil || s.rule.Load().limit.Ceiling == quota.Hard {
		return b
	}
	return a.table.bucketOrOverflow(s, k.Key, false)
}

// allocates reports whether tokens of the limit may be spent one level below.
func allocates(l *quota.Limit) bool {
	return l.Kind != quota.Concurrency && !l.AsksLeader() && l.Class == quota.Counted
}

// allocate returns false when the bucket has just been dropped from the table.
func (a *Aggregator) allocate(now quota.Time, b *bucket, w AllocationRequest) (Allocation, bool) {
	b.lock()
	defer b.unlock()
	if b.dead {
		return Allocation{}, false
	}
	l := b.limit()
	b.joinOwn(now, l)
	if !w.Look {
		b.reopen(a, now, l)
	}
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease)
	est := b.estimate(now, l, cut)
	loan := Allocation{Limit: l}
	if !w.Look && allocates(l) && !b.overfull() {
		loan.Tokens = b.hand(w.Tokens, &a.urgent)
		if missing := w.Tokens - loan.Tokens; cut && loan.Tokens == 0 && missing > 0 {
			loan.Tokens, loan.Unbacked = b.allocateAlone(now, l, missing, est, a.nodes()), true
		}
		b.note()
	}
	a.describe(now, b, &loan, est, cut)
	if !w.Look && w.Wait > loan.Held {
		b.want = max(b.want, min(w.Wait, l.BurstUnits()))
		if est >= quota.Token && !cut {
			a.urgent.push(b)
		}
	}
	return loan, true
}

// reopen opens the key, or keeps it open if it was about to close.
func (b *bucket) reopen(a *Aggregator, now quota.Time, l *quota.Limit) {
	switch b.phase {
	case closed:
		a.openBucket(now, b, l)
	case closing:
		b.phase, b.lastUse = open, now
	}
}

// hand takes up to want, in whole tokens, out of what is held.
func (b *bucket) hand(want quota.Units, urgent *stack) quota.Units {
	for {
		h := quota.Units(b.hot().held.Load())
		n := min(want, h)
		n -= n % quota.Token
		if n <= 0 {
			return 0
		}
		if b.hot().held.CompareAndSwap(int64(h), int64(h-n)) {
			b.allocated += n
			if int64(h-n) < b.hot().low.Load() {
				urgent.push(b)
			}
			return n
		}
	}
}

// describe sets the fields of allocation to what is known of the key now.
func (a *Aggregator) describe(now quota.Time, b *bucket, loan *Allocation, est quota.Units, cut bool) {
	l := loan.Limit
	loan.Nodes = a.nodes()
	loan.Gen = Generation{b.epoch, b.voids}
	loan.Held, loan.Rate, loan.Demand = max(0, quota.Units(b.hot().held.Load())), b.rate, b.demand
	loan.Level, loan.Unseen, loan.Others = est+b.presumed, b.presumed, b.others
	if loan.Aside = b.aside; l.Ceiling == quota.Hard && a.ranges[b.rng].absent.from() != 0 {
		loan.Aside = max(loan.Aside, loan.Level)
	}
	loan.NoneFree, loan.HasLevel, loan.CutOff, loan.Slope = b.noneFree, b.hasLevel, cut, b.gains(l)
	if loan.Window, loan.Since, loan.Until = b.win, b.since, b.until; b.until == 0 {
		loan.Window, loan.Since = 0, 0
	} else if l.Ceiling == quota.Hard {
		loan.Until = max(b.since+1, b.until.Add(-b.lag))
	}
	loan.Lease, loan.Again = min(a.cfg.Lease, b.lease.Sub(now)), a.cfg.Sync
	if cut {
		loan.Lease = a.cfg.Lease
		b.describeAlone(now, l, loan, a.nodes())
	}
}

// allocateAlone hands out what the limit's when_cut_off lets this node admit by
// itself. It is nobody's yet: what is used of it is overdrawn.
func (b *bucket) allocateAlone(now quota.Time, l *quota.Limit, want, est quota.Units, nodes int) quota.Units {
	policy, rate := l.CutOff.At(now.Sub(b.lease), l.Ceiling)
	got := quota.Units(0)
	switch policy {
	case quota.CutOffOpen:
		got = want
	case quota.CutOffLocal:
		got = min(want, max(0, est-b.unbacked))
	case quota.CutOffShare:
		got = b.takeApart(now, l, b.shareOf(l, nodes), want, est)
	case quota.CutOffRate:
		got = b.takeApart(now, l, rate, want, est)
	}
	got -= got % quota.Token
	b.in, b.allocated, b.unbacked = b.in+got, b.allocated+got, b.unbacked+got
	return got
}

// takeApart takes available tokens of this node's own rate.
func (b *bucket) takeApart(now quota.Time, l *quota.Limit, rate quota.Rate, want, est quota.Units) quota.Units {
	burst := b.setApart(now, l, rate, est)
	b.apart.Take(now, rate, burst, 0)
	got := min(want, max(0, b.apart.Level()))
	got -= got % quota.Token
	if got <= 0 || !b.apart.Take(now, rate, burst, got) {
		return 0
	}
	return got
}

// describeAlone says of a key that is cut off what this node will admit of it:
// those below are not cut off from this node, and go by its word.
func (b *bucket) describeAlone(now quota.Time, l *quota.Limit, loan *Allocation, nodes int) {
	policy, rate := l.CutOff.At(now.Sub(b.lease), l.Ceiling)
	whole := l.Rate.PerSecond()
	loan.Others = 0
	switch policy {
	case quota.CutOffOpen:
		loan.Level = l.BurstUnits()
	case quota.CutOffLocal:
	case quota.CutOffShare:
		loan.Level, loan.Others = b.levelApart(loan.Level), max(0, whole-b.shareOf(l, nodes).PerSecond())
	case quota.CutOffRate:
		loan.Level, loan.Others = b.levelApart(loan.Level), max(0, whole-rate.PerSecond())
	default:
		loan.Aside = max(0, loan.Level)
		loan.Level, loan.Others = min(0, loan.Level), whole
	}
}

func (b *bucket) levelApart(est quota.Units) quota.Units {
	if b.apart == nil {
		return min(est, quota.Token)
	}
	return min(est, b.apart.Level())
}

// Settlement is what has become of allocations of a key, and what those below have
// counted: all fields say how much more than before. Amounts are not negative.
type Settlement struct {
	// Gen is that of the allocation which Back and Void are about.
	Gen Generation
	// Back is so much of what was allocated as is over: used, given back, or lost. Void
	// is the part of it that was unbacked.
	Back, Void quota.Units
	// Used was admitted out of what was allocated, Overdrawn beyond it. The others are
	// as in ReportEntry.
	Used, Overdrawn, Refused, Refunded, Charged, Alone quota.Units
	// Holders is how many of those below have the key, and Silent how long this one has said
	// nothing of it: each may have overdrawn a burst, and what refilled since, before it heard
	// of the others.
	Holders int
	Silent  time.Duration
	// Late is the part of Used and Overdrawn that was for a window that has ended.
	Late quota.Units
}

func (s *Settlement) counts() bool {
	return s.Used > 0 || s.Overdrawn > 0 || s.Refused > 0 || s.Refunded > 0
}

// Settle books what has become of allocations. What was counted is the node's own from
// now on; what neither was used nor is void is held here again. What was used beyond
// allocations, or overdrawn, is booked down to quota.Limit.OwedUnits below zero, once for the
// node and once for each holder, and no further: those below are trusted less than
// members. Any goroutine may
// call it. It returns false if the limit is unknown, or no room for the key:
// then nothing is booked.
func (a *Aggregator) Settle(clock Clock, k quota.Key, s Settlement) bool {
	if s == (Settlement{Gen: s.Gen, Holders: s.Holders, Silent: s.Silent}) {
		return true
	}
	for {
		b := a.allocator(k)
		if b == nil {
			return false
		}
		if a.settle(clock(), b, &s) {
			return true
		}
	}
}

// settle returns false when the bucket has just been dropped from the table.
func (a *Aggregator) settle(now quota.Time, b *bucket, s *Settlement) bool {
	b.lock()
	defer b.unlock()
	if b.dead {
		return false
	}
	l := b.limit()
	b.joinOwn(now, l)
	if s.counts() {
		b.reopen(a, now, l)
	}
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease)
	left := b.estimate(now, l, cut)
	if l.Ceiling == quota.Soft && !b.hasLevel && !cut { // it may have nothing of what is booked: see unreached
		left -= b.counts().spent()
	}
	s.bound(b.allocatedFor(s), left, l)
	b.takeBack(now, s)
	// What those below admitted while this node could not be reached, or before it began: how much
	// refilled in that time is not known here. The leader sets that against it, and reports the
	// level.
	unreached := quota.Units(0)
	switch {
	case l.Ceiling == quota.Hard:
	case !b.hasLevel && s.Silent >= a.cfg.Lease:
		unreached = max(0, s.Overdrawn-s.Void)
	case cut:
		unreached = max(0, s.Alone-s.Void)
	}
	if cut {
		s.Alone = s.Overdrawn
	}
	late := min(s.Late, s.Used+s.Overdrawn)
	// What those below admitted on the estimate, of which what is held here is a part, is
	// paid out of that first: as in overdraw.
	past := min(late, s.Overdrawn)
	beyond := b.spend(s.Overdrawn - past)
	alone := min(s.Alone, beyond)
	b.overdrawn(beyond - alone)
	b.over, b.overCutOff, b.charged = b.over.Count(past+alone), b.overCutOff.Count(alone), b.charged.Count(min(s.Charged, past+beyond))
	b.refused, b.refunded = b.refused.Count(s.Refused), b.refunded.Count(s.Refunded)
	b.estUsed += min(unreached, beyond)
	if late > 0 && b.until != 0 {
		b.before, b.estUsed = b.before.Count(late), b.estUsed.Plus(late)
	}
	b.note()
	if beyond > 0 && !b.news && b.over-b.ackedOver > max(b.part(l, a.nodes()), news) {
		b.news = true
		a.urgent.push(b)
		a.urgent.wake.Store(true)
	}
	if s.Refunded > 0 {
		a.urgent.push(b)
	}
	return true
}

// allocatedFor is how much of what is allocated a settlement ends.
func (b *bucket) allocatedFor(s *Settlement) quota.Units {
	if s.Gen != (Generation{b.epoch, b.voids}) {
		return 0
	}
	return min(s.Back, b.allocated)
}

// bound drops what was spent beyond allocations and beyond what may be owed, when so much is
// left. A window that has ended owes nothing.
func (s *Settlement) bound(lent, left quota.Units, l *quota.Limit) {
	if l.Class != quota.Counted || l.Kind == quota.Concurrency {
		return
	}
	each := l.OwedUnits().Plus(perSecond(l.Rate.PerSecond(), s.Silent))
	owed := quota.Units(quota.MulDiv(int64(each), int64(1+s.Holders), 1))
	room := max(0, left.Plus(min(owed, quota.Most))).Plus(s.Late)
	beyond := max(0, s.Used-lent)
	excess := beyond.Plus(s.Overdrawn) - room
	if excess <= 0 {
		return
	}
	over := min(excess, s.Overdrawn)
	s.Overdrawn -= over
	s.Used -= min(excess-over, beyond)
	s.Charged, s.Alone = min(s.Charged, s.Overdrawn), min(s.Alone, s.Overdrawn)
}

// takeBack ends allocations: what was used of them is used here.
func (b *bucket) takeBack(now quota.Time, s *Settlement) {
	back := b.allocatedFor(s)
	void := min(s.Void, back, b.unbacked)
	b.allocated, b.unbacked = b.allocated-back, b.unbacked-void
	b.in -= void
	switch rest := back - void - s.Used; {
	case rest > 0 && b.phase == open && now < b.lease:
		b.hot().held.Add(int64(rest))
	case rest > 0:
		b.giveBack(rest)
	default: // it had been taken for lost, or void
		b.in -= rest
	}
}

// voidAllocations ends all allocations. Borrowers report what they use of them nevertheless.
func (b *bucket) voidAllocations() {
	b.in, b.voids = b.in-b.allocated, b.voids+1
	b.allocated, b.unbacked = 0, 0
}

// wants returns what to ask the leader for: beyond what is allocated, since that counts as held.
func (b *bucket) wants() quota.Units {
	if b.want == 0 {
		return 0
	}
	return b.want.Count(b.allocated)
}

// maxRecalled bounds the keys that Recalls returns; a client that is short asks again.
const maxRecalled = 4096

func (a *Aggregator) recallAllocations(b *bucket) {
	if b.allocated > 0 && len(a.allocationsRecalled) < maxRecalled {
		a.allocationsRecalled = append(a.allocationsRecalled, quota.Key{LimitName: b.entry.name, Key: b.key})
	}
}

// Recalls returns the keys with allocations that a leader wants back since the last
// call. One goroutine at a time, as Apply.
func (a *Aggregator) Recalls() []quota.Key {
	out := a.allocationsRecalled
	a.allocationsRecalled = nil
	return out
}

// Allocated returns what is allocated of a key now: for tests and tools.
func (a *Aggregator) Allocated(k quota.Key) quota.Units {
	b, ok := a.find(k)
	if !ok {
		return 0
	}
	b.lock()
	defer b.unlock()
	return b.allocated
}
