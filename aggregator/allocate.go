package aggregator

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// AllocationRequest is a client's request for tokens of a key, one level below.
type AllocationRequest struct {
	// Tokens is the most to allocate, in whole tokens.
	Tokens quota.Units
	// Wait is the cost that the client's callers wait for, or were refused. If less is held here, the next report
	// requests it from the leader.
	Wait quota.Units
	// Look allocates nothing and does not open the key.
	Look bool
}

// Generation identifies the epoch and window of an allocation. When it changes, all earlier allocations are void.
type Generation struct {
	Epoch quota.Seq
	Voids uint32
}

// Allocation is the part of a key that a member allocates to a client, one level below, and the key's state. Times
// are on the member's clock, rates per second.
type Allocation struct {
	// Limit applies to the key. It is nil for an unknown limit, or without room for the key: then all else is 0.
	Limit *quota.Limit
	Gen   Generation
	// Tokens are allocated now: they count as held here until they are settled.
	Tokens quota.Units
	// Unbacked means that no leader granted Tokens: this node is cut off, and the limit's when_cut_off allows them.
	Unbacked bool
	// Held can still be allocated now, Rate is its gain, and Demand that of this node's callers, clients included.
	Held, Rate, Demand quota.Units

	Level    quota.Units // as GrantEntry.Level
	Unseen   quota.Units // as GrantEntry.Unseen, plus the others' probable use since
	Aside    quota.Units // as GrantEntry.Aside, under hard only; all of Level where no leader answers
	Others   quota.Units // demand of the other nodes
	NoneFree bool        // as estimateState.noneFree
	HasLevel bool        // a leader has reported the level
	CutOff   bool        // no leader has answered for a whole lease
	Central  bool        // as GrantEntry.Central
	Slope    quota.Units // gain of Level without demand
	Nodes    int         // number of nodes of the cluster

	// Window names the window of Level and Tokens by its start on the leader's clock. On this node's clock, it lasts
	// from Since to Until; under hard, Until is earlier by its possible lag. All are 0 for kinds without windows.
	Window, Since, Until quota.Time
	// Lease is the duration of the allocation.
	Lease time.Duration
	// Again is as in GrantEntry.
	Again time.Duration
}

// Allocate allocates held tokens of a counter to a client, and opens the key if necessary. It allocates nothing of
// limits that count requests in flight, that their leader decides, or that reserve future tokens: for those the
// client asks the node. For soft keys without room on this node it returns the level of the bucket that they share,
// and no tokens. Any goroutine may call it.
func (a *Aggregator) Allocate(clock Clock, k quota.Key, w AllocationRequest) Allocation {
	for {
		b := a.allocator(k)
		if b == nil {
			return Allocation{}
		}
		w.Look = w.Look || b.key != k.Key
		if fromNode, ok := a.allocate(clock(), b, w); ok {
			return fromNode
		}
	}
}

func (a *Aggregator) allocator(k quota.Key) *bucket {
	s := a.table.find(k.LimitName)
	if s == nil && k.IsInline() {
		s = a.table.inline.findOrAdd(k.LimitName, nobody)
	}
	if s == nil || s.gone.Load() {
		return nil
	}
	if b := a.table.bucket(s, k.Key); b != nil || s.rule.Load().limit.Ceiling == quota.Hard {
		return b
	}
	return a.table.bucketOrOverflow(s, k.Key, false)
}

// allocates reports whether clients may spend tokens of the limit.
func allocates(l *quota.Limit) bool {
	return l.Kind != quota.Concurrency && !l.AsksLeader() && l.Class == quota.Counted
}

// allocate returns false if the bucket has just been dropped from the table.
func (a *Aggregator) allocate(now quota.Time, b *bucket, w AllocationRequest) (Allocation, bool) {
	b.lock()
	defer b.unlock()
	if b.dead {
		return Allocation{}, false
	}
	l := b.limit()
	b.initEstimate(now, l)
	if !w.Look {
		b.reopen(a, now, l)
	}
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease)
	est := b.estimate(now, l, cut)
	fromNode := Allocation{Limit: l}
	if !w.Look && allocates(l) && !b.overfull() {
		fromNode.Tokens = b.takeForClients(w.Tokens, &a.urgent)
		if missing := w.Tokens - fromNode.Tokens; cut && fromNode.Tokens == 0 && missing > 0 {
			fromNode.Tokens, fromNode.Unbacked = b.allocateAlone(now, l, missing, est, a.nodes()), true
		}
		b.writeSlot()
	}
	a.describe(now, b, &fromNode, est, cut)
	if !w.Look && w.Wait > fromNode.Held {
		b.want = max(b.want, min(w.Wait, l.BurstUnits()))
		if est >= quota.Token && !cut {
			a.markUrgent(b)
		}
	}
	return fromNode, true
}

// reopen opens the key, or keeps it open if it was closing.
func (b *bucket) reopen(a *Aggregator, now quota.Time, l *quota.Limit) {
	switch b.phase {
	case closed:
		a.openBucket(now, b, l)
	case closing:
		b.phase, b.lastUse = open, now
	}
}

// takeForClients moves up to want, in whole tokens, from held to allocated. While clients hold tokens of a limit that has
// been cut, they get no others: a client returns both alike.
func (b *bucket) takeForClients(want quota.Units, urgent *stack) quota.Units {
	for !b.outgrown {
		h := quota.Units(b.hot().held.Load())
		n := min(want, h)
		n -= n % quota.Token
		if n <= 0 {
			return 0
		}
		if b.hot().held.CompareAndSwap(int64(h), int64(h-n)) {
			b.rare().allocated += n
			if int64(h-n) < b.hot().low.Load() {
				urgent.push(b)
			}
			return n
		}
	}
	return 0
}

// describe sets the fields of an allocation to the state of the key.
func (a *Aggregator) describe(now quota.Time, b *bucket, fromNode *Allocation, est quota.Units, cut bool) {
	l := fromNode.Limit
	fromNode.Nodes = a.nodes()
	fromNode.Gen = Generation{b.epoch, b.voids}
	fromNode.Held, fromNode.Rate, fromNode.Demand = max(0, quota.Units(b.hot().held.Load())), b.rate, b.demand
	fromNode.Level, fromNode.Unseen, fromNode.Others = est+b.presumed, b.presumed, b.others
	if fromNode.Aside = b.aside; l.Ceiling == quota.Hard && a.ranges[b.rng].absent.from() != 0 {
		fromNode.Aside = max(fromNode.Aside, fromNode.Level)
	}
	fromNode.NoneFree, fromNode.HasLevel, fromNode.CutOff, fromNode.Slope = b.noneFree, b.hasLevel, cut, b.gains(l)
	fromNode.Central = b.central && !cut
	if fromNode.Window, fromNode.Since, fromNode.Until = b.win, b.since, b.until; b.until == 0 {
		fromNode.Window, fromNode.Since = 0, 0
	}
	fromNode.Lease, fromNode.Again = min(a.cfg.Lease, b.lease.Sub(now)), a.cfg.Sync
	if cut {
		fromNode.Lease = a.cfg.Lease
		b.describeAlone(now, l, fromNode, a.nodes())
	}
}

// allocateAlone allocates tokens that the limit's when_cut_off lets this node admit on its own. They are unbacked:
// their use is reported as overdraft.
func (b *bucket) allocateAlone(now quota.Time, l *quota.Limit, want, est quota.Units, nodes int) quota.Units {
	policy, rate := l.CutOff.At(now.Sub(b.lease), l.Ceiling)
	want = min(want, max(0, quota.Most-b.in)) // as addHeld
	got := quota.Units(0)
	switch policy {
	case quota.CutOffOpen:
		got = want
	case quota.CutOffLocal:
		got = min(want, max(0, est-b.unbacked))
	case quota.CutOffShare:
		got = b.takeLocal(now, l, b.shareOf(l, nodes), want, est)
	case quota.CutOffRate:
		got = b.takeLocal(now, l, rate, want, est)
	}
	got -= got % quota.Token
	if got > 0 {
		r := b.rare()
		b.in, r.allocated, r.unbacked = b.in+got, r.allocated+got, r.unbacked+got
	}
	return got
}

// takeLocal takes available tokens of the bucket that this node keeps while it is cut off.
func (b *bucket) takeLocal(now quota.Time, l *quota.Limit, rate quota.Rate, want, est quota.Units) quota.Units {
	burst := b.ensureLocal(now, l, rate, est)
	b.local.Take(now, rate, burst, 0)
	got := min(want, max(0, b.local.Level()))
	got -= got % quota.Token
	if got <= 0 || !b.local.Take(now, rate, burst, got) {
		return 0
	}
	return got
}

// describeAlone describes to clients what this node will admit of a key while it is cut off: the clients are
// connected to it, and follow its values.
func (b *bucket) describeAlone(now quota.Time, l *quota.Limit, fromNode *Allocation, nodes int) {
	policy, rate := l.CutOff.At(now.Sub(b.lease), l.Ceiling)
	whole := l.Rate.PerSecond()
	fromNode.Others = 0
	switch policy {
	case quota.CutOffOpen:
		fromNode.Level = l.BurstUnits()
	case quota.CutOffLocal:
	case quota.CutOffShare:
		fromNode.Level, fromNode.Others = b.localLevel(fromNode.Level), max(0, whole-b.shareOf(l, nodes).PerSecond())
	case quota.CutOffRate:
		fromNode.Level, fromNode.Others = b.localLevel(fromNode.Level), max(0, whole-rate.PerSecond())
	default:
		fromNode.Aside = max(0, fromNode.Level)
		fromNode.Level, fromNode.Others = min(0, fromNode.Level), whole
	}
}

// localLevel returns the level of the bucket that this node keeps while it is cut off, at most est.
func (b *bucket) localLevel(est quota.Units) quota.Units {
	if b.local == nil {
		return min(est, quota.Token)
	}
	return min(est, b.local.Level())
}

// Settlement is the outcome of allocations of a key, and the client's counts. Amounts are what was added since the
// last settlement, and not negative.
type Settlement struct {
	// Gen is the generation of the allocation that Back and Void refer to.
	Gen Generation
	// Back is the part of the allocation that has ended: used, given back, or lost. Void is the part of it that was
	// unbacked.
	Back, Void quota.Units
	// Used was admitted out of allocated tokens, Overdrawn beyond them. The others are as in ReportEntry.
	Used, Overdrawn, Refused, Refunded, Charged, Alone quota.Units
	// Holders is the number of clients that have the key here, and Silent the time since this one reported it. Each client
	// and each node may have overdrawn a burst, and the refill since, before it received the use of the others.
	Holders int
	Silent  time.Duration
	// Late is the part of Used and Overdrawn that belongs to a window that has ended.
	Late quota.Units
}

func (s *Settlement) counts() bool {
	return s.Used > 0 || s.Overdrawn > 0 || s.Refused > 0 || s.Refunded > 0
}

// Settle books the outcome of allocations. The client's counts become the node's own; tokens that were neither used
// nor void are held here again. Use beyond the allocations, and overdraft, are booked down to quota.Limit.OwedUnits
// below zero, once for each node and for each client, and no further: clients are trusted less than members. It
// returns false, and books nothing, if the limit is unknown or there is no room for the key. Any goroutine may call
// it.
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

// settle returns false if the bucket has just been dropped from the table.
func (a *Aggregator) settle(now quota.Time, b *bucket, s *Settlement) bool {
	b.lock()
	defer b.unlock()
	if b.dead {
		return false
	}
	l := b.limit()
	b.initEstimate(now, l)
	if s.counts() {
		b.reopen(a, now, l)
	}
	b.roll(now, l)
	b.accrue(now)
	cut := b.cutOff(now, a.cfg.Lease)
	left := b.estimate(now, l, cut)
	if l.Ceiling == quota.Soft && !b.hasLevel && !cut { // est may include none of the counts: see unreached
		left -= b.counts().spent()
	}
	s.bound(b.allocatedFor(s), left, l, a.nodes())
	b.takeBack(now, s)
	// unreached is the client's admissions while it could not reach this node, or before this node started. The
	// refill of that time is unknown here: the leader sets it against them, and reports the level.
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
	// The client admitted the overdraft on the estimate, of which held tokens are a part: it is paid out of those
	// first, as in overdraw.
	past := min(late, s.Overdrawn)
	beyond := b.spend(s.Overdrawn - past)
	alone := min(s.Alone, beyond)
	b.countOverdraft(beyond - alone)
	b.over = b.over.Count(past + alone)
	b.countCutOff(alone)
	b.countCharged(min(s.Charged, past+beyond))
	b.refused = b.refused.Count(s.Refused)
	b.countRefund(now, s.Refunded)
	b.estUsed += min(unreached, beyond)
	if late > 0 && b.until != 0 {
		b.ownWindow().before, b.estUsed = b.before.Count(late), b.estUsed.Plus(late)
	}
	b.writeSlot()
	if beyond > 0 && !b.largeOverdraft && b.over-b.ackedOver > max(b.part(l, a.nodes()), minUrgentOverdraft) {
		b.largeOverdraft = true
		a.markUrgent(b)
		a.urgent.wake.Store(true)
	}
	if s.Refunded > 0 {
		a.markUrgent(b)
	}
	return true
}

// allocatedFor returns the part of the allocated tokens that a settlement ends.
func (b *bucket) allocatedFor(s *Settlement) quota.Units {
	if s.Gen != (Generation{b.epoch, b.voids}) {
		return 0
	}
	return min(s.Back, b.allocated)
}

// bound drops use beyond the allocations (lent) and beyond the debt that the limit permits, with left as the level. The
// level is that of the cluster: other nodes probably have as many clients, and all may have overdrawn it. Use in a window
// that has ended owes nothing.
func (s *Settlement) bound(lent, left quota.Units, l *quota.Limit, nodes int) {
	if l.Class != quota.Counted || l.Kind == quota.Concurrency {
		return
	}
	each := l.OwedUnits().Plus(accrued(l.Rate.PerSecond(), s.Silent))
	owed := quota.Units(quota.MulDiv(int64(each), int64(nodes*(1+s.Holders)+newlyAttached), 1))
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

// newlyAttached is the assumed number of clients of a key that have just begun a new session.
const newlyAttached = 4

// takeBack ends allocations: their use becomes this node's own.
func (b *bucket) takeBack(now quota.Time, s *Settlement) {
	back := b.allocatedFor(s)
	void, outgrown := min(s.Void, back, b.unbacked), b.outgrown
	if back > 0 {
		r := b.rare()
		r.allocated, r.unbacked = r.allocated-back, r.unbacked-void
		r.outgrown = outgrown && r.allocated > 0
	}
	b.in -= void
	switch rest := back - void - s.Used; {
	case rest > 0 && b.phase == open && now < b.lease && !outgrown:
		b.hot().held.Add(int64(rest))
	case rest > 0:
		b.countReturned(rest)
	default: // counted as lost or void before
		b.in -= rest
	}
}

// voidAllocations ends all allocations. Clients report their use of them nevertheless.
func (b *bucket) voidAllocations() {
	b.in, b.voids = b.in-b.allocated, b.voids+1
	if b.allocated != 0 || b.unbacked != 0 {
		r := b.rare()
		r.allocated, r.unbacked, r.outgrown = 0, 0, false
	}
}

// wants returns the tokens to request from the leader: in addition to allocated ones, which count as held.
func (b *bucket) wants() quota.Units {
	if b.want == 0 {
		return 0
	}
	return b.want.Count(b.allocated)
}

// maxRecalled bounds the keys that Recalls returns; a client that runs short requests again.
const maxRecalled = 4096

func (a *Aggregator) recallAllocations(b *bucket) {
	if b.allocated > 0 && len(a.allocationsRecalled) < maxRecalled {
		a.allocationsRecalled = append(a.allocationsRecalled, quota.Key{LimitName: b.entry.name, Key: b.key})
	}
}

// Recalls returns the keys with allocations that a leader recalled since the last call. Call it from the goroutine
// that calls Apply.
func (a *Aggregator) Recalls() []quota.Key {
	out := a.allocationsRecalled
	a.allocationsRecalled = nil
	return out
}

// Allocated returns the allocated tokens of a key, for tests and tools.
func (a *Aggregator) Allocated(k quota.Key) quota.Units {
	b, ok := a.find(k)
	if !ok {
		return 0
	}
	b.lock()
	defer b.unlock()
	return b.allocated
}
