package clientledger

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// bucket is the state of one key that clients have open.
type bucket struct {
	key         quota.Key
	limit       *quota.Limit
	gen         aggregator.Generation
	win         quota.Time // start of the window, as clients know it: see window
	allocations []*allocation

	demand    float64       // sum over all clients, Units per second
	allocated quota.Units   // sum over all clients
	spoken    quota.Units   // sum of the clients' beyond
	credit    quota.Units   // sum of the clients' credit: overdrafts of the level until the next grants
	wait      quota.Units   // what callers wait for
	queue     []*allocation // allocations that wait for tokens, longest first
	listed    bool          // in Ledger.waiting

	averageDemand float64 // demand, averaged over some intervals
	usualAt       quota.Time

	request  quota.Units // cost of a typical request, if more than a token
	level    float64     // water level of the division, Units per second; +Inf if all demand is covered
	spare    quota.Units // allocated to clients beyond their expected use
	levelAt  quota.Time
	recalled quota.Time
}

const (
	// grantIntervals is how many intervals of demand a client is allocated: more than one, so that a late
	// report does not starve it.
	grantIntervals = 1.5
	// little is allocated to a client even if it is promised to others: a client with rare requests
	// needs it, and many of them rarely ask at once.
	little = 4 * quota.Token
	// mostForRequest bounds what a client may overdraw for one request although it is promised to others. The bound that
	// is stated for each client (package bound) contains it.
	mostForRequest = 8 * quota.Token
)

// clients returns the number of clients that have the key open. b may be nil.
func (b *bucket) clients() int {
	if b == nil {
		return 0
	}
	return len(b.allocations)
}

// learn takes over the node's state of the key.
func (b *bucket) learn(l *aggregator.Allocation) {
	b.limit = l.Limit
	win := window(l)
	switch {
	case l.Limit.Kind == quota.PeriodicRefill && b.win != 0 && win < b.win.Add(l.Limit.Rate.Per):
		// The window begins again without notice while the leader knows of no use.
	case l.Gen != b.gen || b.win == 0 || l.Limit.Kind == quota.SlidingWindow:
		b.win = win
	}
	b.gen = l.Gen
}

// window identifies the window to clients: by its start on the leader's clock if that agrees with
// this node's clock within skew, else by its start on this node's clock.
func window(l *aggregator.Allocation) quota.Time {
	if l.Until == 0 {
		return 0
	}
	if d := l.Since - l.Window; -skew <= d && d <= skew {
		return l.Window
	}
	return l.Since
}

// skew is the most by which a leader's wall clock may differ from this node's for both to name the
// same windows.
const skew = quota.Time(2 * time.Second)

// ask sets a client's demand per second.
func (b *bucket) ask(al *allocation, demand float64) {
	b.demand = max(0, b.demand+demand-al.demand)
	al.demand = demand
}

// setAwaited sets the part of the level that a client's callers are about to use.
func (b *bucket) setAwaited(al *allocation, u quota.Units) {
	beyond := u
	if b.limit != nil && b.limit.Ceiling == quota.Soft {
		beyond = max(0, u-al.allocated)
	}
	b.spoken += beyond - al.beyond
	al.awaited, al.beyond = u, beyond
}

// promise sets the part of the level that a client may overdraw.
func (b *bucket) promise(al *allocation, u quota.Units) {
	b.credit += u - al.credit
	al.credit, al.last = u, u
}

// extend adds the credit of a new grant. Until the client has applied the grant, it may act on an
// earlier one with more credit (TestClientsShortSurges in internal/sim).
func (al *allocation) extend(u quota.Units) {
	al.bucket.promise(al, max(u, al.credit))
	al.last = u
}

// endEarlierCredits ends the credit of earlier grants, if the client has applied the last one: its overdrafts
// by them are in its report.
func (al *allocation) endEarlierCredits(applied quota.Seq) {
	if applied >= al.grants {
		al.bucket.promise(al, al.last)
	}
}

// observe averages the attempts of a client. A count that differs from the expectation by more than
// chance changes the average at once.
func (b *bucket) observe(now quota.Time, al *allocation, attempted quota.Units, sync time.Duration) {
	dt := 10 * sync
	if al.reported > 0 {
		dt = min(max(now.Sub(al.reported), time.Millisecond), 10*sync)
	}
	al.reported = now
	seconds := dt.Seconds()
	b.ask(al, fairshare.Follow(al.demand, float64(attempted), b.size(), seconds, math.Exp(-seconds/(3*sync.Seconds()))))
}

// learnCost updates the cost of a typical request after a report. It rises at once, so that mixed costs count as the
// larger one, and falls over some 100 reports.
func (b *bucket) learnCost(reported quota.Units) {
	b.request = max(reported, b.request-(b.request-reported)/128)
}

// size is the cost of a typical request, which counts as one event, in Units: from one token to an eighth of the burst. A
// larger one is a surge, however often it happens: others have to hear of it at once.
func (b *bucket) size() float64 {
	size := b.request
	if b.limit != nil {
		size = min(size, b.limit.BurstUnits()/8)
	}
	return float64(max(size, quota.Token))
}

// fade removes the demand, the waiting callers and the credit of a silent client.
func (b *bucket) fade(now quota.Time, al *allocation, sync time.Duration) {
	if al.demand > 0 && now.Sub(al.reported) > al.again+3*sync {
		b.ask(al, 0)
	}
	if al.awaited > 0 && now.Sub(al.reported) > 2*sync {
		b.setAwaited(al, 0)
	}
	if al.credit > 0 && now.Sub(al.reported) > al.again+3*sync {
		b.promise(al, 0)
	}
}

// grant answers an entry: it allocates what the client needs, up to its share. before is the node's
// state of the key before this entry. asks is false if the client counted nothing.
func (l *Ledger) grant(al *allocation, e *quota.ReportEntry, before *aggregator.Allocation, asks bool) (quota.GrantEntry, bool) {
	b := al.bucket
	b.setAwaited(al, 0)
	b.leave(al)
	if asks {
		b.learnCost(e.Cost)
	}
	var want, part quota.Units
	if (asks || e.Want > 0) && !al.unacked.Full() {
		want = l.need(al, e)
		part = min(want, l.share(al, before, e.Want))
	}
	urgent := max(0, min(want, e.Want-al.allocated)) // needed by callers that wait
	fromNode := l.allocate(al, part, b.wait+max(0, urgent-min(part, before.Held)))
	if fromNode.Limit == nil {
		return quota.GrantEntry{}, false
	}
	g := l.grantTokens(al, &fromNode, fromNode.Tokens, e.Want)
	if short := urgent - fromNode.Tokens; short > 0 {
		al.callersWait = g.Level-g.Unseen >= e.Want && (fromNode.Limit.Ceiling == quota.Hard || !fromNode.NoneFree)
		l.enqueue(al, short)
		if fromNode.NoneFree || fromNode.CutOff {
			l.recall(b, al)
		}
	}
	return g, true
}

// allocatable returns the number of the node's tokens that a client may receive. Under soft, that includes only a
// small part of the tokens promised to other clients (TestClientsShortSurges in internal/sim).
func (l *Ledger) allocatable(al *allocation) quota.Units {
	b, fromNode := al.bucket, l.look(al.bucket.key)
	if fromNode.Limit == nil || fromNode.Limit.Ceiling == quota.Hard {
		return quota.Most
	}
	elsewhere := max(0, fromNode.Level-fromNode.Unseen-fromNode.Held-b.allocated)
	return max(little, fromNode.Held-max(0, b.credit-al.credit-elsewhere))
}

// allocate allocates up to tokens to a client. wait is what its callers, and those of other
// clients, wait for beyond that.
func (l *Ledger) allocate(al *allocation, tokens, wait quota.Units) aggregator.Allocation {
	if tokens > little && al.bucket.credit > al.credit {
		tokens = min(tokens, l.allocatable(al))
	}
	fromNode := l.parent.Allocate(l.clock, al.bucket.key, aggregator.AllocationRequest{Tokens: tokens, Wait: wait})
	if fromNode.Limit == nil {
		return fromNode
	}
	al.bucket.learn(&fromNode)
	al.void()
	al.setAllocated(al.allocated + fromNode.Tokens)
	al.given = al.given.Plus(fromNode.Tokens)
	if fromNode.Unbacked {
		al.unbacked += fromNode.Tokens
	}
	return fromNode
}

// grantTokens makes a grant of tokens that were allocated.
func (l *Ledger) grantTokens(al *allocation, fromNode *aggregator.Allocation, tokens, want quota.Units) quota.GrantEntry {
	al.grants++
	if tokens > 0 {
		al.unacked.Add(al.grants, tokens)
	}
	al.lease = l.now.Add(min(l.cfg.Lease, fromNode.Lease))
	al.again = l.again(al.bucket, fromNode)
	g := l.grantState(al, fromNode)
	if fromNode.Limit.Ceiling == quota.Soft {
		al.extend(l.creditOf(al, fromNode, want))
		if g.Credit = al.last; al.bucket.settle(l.now, l.cfg.Sync) {
			g.Credit = max(g.Credit, min(g.Level, max(little, min(al.bucket.request, mostForRequest))))
		}
	}
	if fromNode.Limit.Ceiling == quota.Soft && g.Level-g.Unseen >= want {
		al.bucket.setAwaited(al, want)
	} else {
		al.bucket.setAwaited(al, min(want, tokens))
	}
	g.Tokens = tokens
	return g
}

// grantState returns a grant entry with the state of the key, without tokens.
func (l *Ledger) grantState(al *allocation, fromNode *aggregator.Allocation) quota.GrantEntry {
	b := al.bucket
	free, level := fromNode.Held, fromNode.Level
	if !fromNode.NoneFree {
		free = max(free, fromNode.Level-fromNode.Unseen)
	}
	if fromNode.Limit.Ceiling == quota.Hard { // the node's tokens are available, whatever its leader sets aside
		level = max(level, fromNode.Held)
	}
	unseen := fromNode.Unseen
	if fromNode.Limit.Ceiling == quota.Soft { // other clients may use their tokens, and a recall may return them
		unseen, free = unseen.Plus(b.allocated-al.allocated), free.Plus(max(0, b.spare-l.spare(al)))
	}
	g := quota.GrantEntry{
		Key: b.key, Epoch: al.epoch, Seq: al.grants, Lease: al.lease.Sub(l.now), Cap: al.allocated,
		Level: level - (b.spoken - al.beyond), Unseen: unseen, Aside: fromNode.Aside, Free: free, Others: b.others(al, fromNode), Again: al.again, Central: fromNode.Central,
		Slope: fromNode.Slope, Burst: fromNode.Limit.BurstUnits(), WindowStart: b.win,
	}
	if fromNode.Until != 0 {
		g.WindowEnd = fromNode.Until
	}
	return g
}

// spare returns the tokens allocated to a client beyond its expected use.
func (l *Ledger) spare(al *allocation) quota.Units {
	return max(0, al.allocated-quota.RoundUnits(al.demand*grantIntervals*l.cfg.Sync.Seconds()))
}

// creditOf returns the tokens that a client may overdraw until its next grant: half of this node's unpromised part of
// the level, but at most the client's expected need or an equal part of that half.
func (l *Ledger) creditOf(al *allocation, fromNode *aggregator.Allocation, want quota.Units) quota.Units {
	b := al.bucket
	part := 1 / float64(max(1, fromNode.Nodes))
	if here := max(b.demand, float64(fromNode.Demand)); fromNode.HasLevel && here > 0 {
		part = max(part, here/(here+float64(fromNode.Others)))
	}
	free := max(0, part*float64(fromNode.Level-fromNode.Unseen-b.allocated)-float64(max(b.credit-al.credit, b.spoken-al.beyond))) / 2
	credit := quota.RoundUnits(min(free, max(float64(want), al.demand*grantIntervals*l.cfg.Sync.Seconds(), free/float64(len(b.allocations)))))
	return credit - credit%quota.Token
}

// settle averages the demand of all clients, and reports whether it has not surged: then the
// clients' knowledge of each other's demand is right, and so are their estimates.
func (b *bucket) settle(now quota.Time, sync time.Duration) bool {
	if b.usualAt > 0 {
		b.averageDemand += (1 - math.Exp(-now.Sub(b.usualAt).Seconds()/(3*sync.Seconds()))) * (b.demand - b.averageDemand)
	}
	b.usualAt = now
	chance := fairshare.Deviations * math.Sqrt(b.demand*b.size()/(3*sync.Seconds()))
	return b.demand <= 1.5*b.averageDemand+chance
}

// others is the demand in the whole cluster except for this client, less one standard deviation of
// the demand at this node.
func (b *bucket) others(al *allocation, fromNode *aggregator.Allocation) quota.Units {
	here := max(0, max(b.demand, float64(fromNode.Demand))-al.demand)
	return fromNode.Others + quota.RoundUnits(max(0, here-math.Sqrt(here*b.size())))
}

// need returns what a client should be allocated beyond its present tokens.
func (l *Ledger) need(al *allocation, e *quota.ReportEntry) quota.Units {
	need := fairshare.Most(al.demand*grantIntervals*l.cfg.Sync.Seconds(), al.bucket.size())
	u := quota.RoundUnits(need)
	if need < 2*al.bucket.size() { // so little would be held unused (TestRareClients in internal/sim)
		u = 0
	}
	want := max(u, e.Want) - al.allocated
	if rest := want % quota.Token; rest > 0 && want > 0 {
		want += quota.Token - rest
	}
	return max(0, want)
}

// share returns the client's part of the node's tokens: its need while there is enough for all, otherwise its max-min
// fair share. Waiting clients come first.
func (l *Ledger) share(al *allocation, fromNode *aggregator.Allocation, want quota.Units) quota.Units {
	b := al.bucket
	level := l.waterLevel(b, fromNode)
	if math.IsInf(level, 1) && b.wait == 0 {
		return quota.Most
	}
	part := quota.RoundUnits(min(al.demand, level)*grantIntervals*l.cfg.Sync.Seconds()) - al.allocated
	if free := fromNode.Held - b.wait; free >= want {
		part = max(part, want) // at least the request that callers wait for (TestClientsInNeed in internal/sim)
	}
	return max(0, min(part, fromNode.Held-b.wait))
}

// waterLevel is the most that any client gets per second when the node's tokens are divided max-min
// fairly by demand; infinite when there is enough for all. It is recomputed four times an interval,
// together with the spare part of the allocations.
func (l *Ledger) waterLevel(b *bucket, fromNode *aggregator.Allocation) float64 {
	if b.levelAt > 0 && l.now.Sub(b.levelAt) < l.cfg.Sync/4 {
		return b.level
	}
	b.levelAt = l.now
	horizon := grantIntervals * l.cfg.Sync.Seconds()
	b.level = math.Inf(1)
	if avail := float64(fromNode.Rate) + float64(fromNode.Held)/horizon; b.demand > avail {
		b.level = fairshare.Level(len(b.allocations), func(i int) float64 { return b.allocations[i].demand }, avail)
	}
	b.spare = 0
	for _, al := range b.allocations {
		if al.c.since == 0 { // its stream lives, so it can be recalled
			b.spare += l.spare(al)
		}
	}
	return b.level
}

// again is when a client should report next.
func (l *Ledger) again(b *bucket, fromNode *aggregator.Allocation) time.Duration {
	total := float64(fromNode.Others) + max(b.demand, float64(fromNode.Demand))
	burst, avail := float64(fromNode.Limit.BurstUnits()), float64(fromNode.Slope)
	if fromNode.Limit.Kind != quota.TokenBucket { // only the present level is available
		avail += float64(max(0, fromNode.Level)) / (grantIntervals * l.cfg.Sync.Seconds())
	}
	return l.cfg.Sync * time.Duration(fairshare.Quiet(total, avail, burst, l.cfg.Sync))
}
