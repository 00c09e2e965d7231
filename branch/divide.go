package branch

import (
	"math"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/fairshare"
	"github.com/quorate/quorate/internal/quota"
)

// account is one key that clients have open.
type account struct {
	key     quota.Key
	limit   *quota.Limit
	gen     aggregator.Generation
	win     quota.Time // what clients call the window
	holders []*holder

	demand float64     // of all clients, Units per second
	lent   quota.Units // to all clients
	spoken quota.Units // of the level: what callers are about to use, under soft beyond what was lent
	credit quota.Units // of the level: what clients may overdraw until they hear again
	wait   quota.Units // what callers wait for
	queue  []*holder   // holders that wait for tokens, longest first
	listed bool        // in Branch.waiting

	usual   float64 // demand, averaged over some intervals
	usualAt quota.Time

	level    float64     // the most that anyone's demand is served, per second
	spare    quota.Units // lent, and more than is foreseen to be used
	levelAt  quota.Time
	recalled quota.Time
}

const (
	// ahead is how many intervals of demand a client is lent: more than one, so
	// that a late report does not starve it.
	ahead = 1.5
	// little is lent to a client even if it is promised to others: a client with rare requests needs
	// it, and many rarely ask at once.
	little = 4 * quota.Token
	// deviations of a count are lent on top where there is enough.
	deviations = fairshare.Deviations
	// calm is how many intervals a client may be silent while the use is far below
	// the limit, and calmShare the part of the burst that may be used in that time.
	calm      = 10
	calmShare = 0.05
)

// learn takes over what the node knows of the key.
func (a *account) learn(l *aggregator.Loan) {
	a.limit = l.Limit
	win := window(l)
	switch {
	case l.Limit.Kind == quota.PeriodicRefill && a.win != 0 && win < a.win.Add(l.Limit.Rate.Per):
		// It begins again, unnoticed, as long as the leader knows of no use.
	case l.Gen != a.gen || a.win == 0 || l.Limit.Kind == quota.SlidingWindow:
		a.win = win
	}
	a.gen = l.Gen
}

// window is what clients call the window: its start on the leader's clock, which
// is the same for a wall clock that is right; else on this node's.
func window(l *aggregator.Loan) quota.Time {
	if l.Until == 0 {
		return 0
	}
	if d := l.Since - l.Window; -skew <= d && d <= skew {
		return l.Window
	}
	return l.Since
}

// skew is the most by which a leader's wall clock may differ from this node's for
// both to have the same windows.
const skew = quota.Time(2 * time.Second)

// ask books what a client demands per second.
func (a *account) ask(h *holder, demand float64) {
	a.demand = max(0, a.demand+demand-h.demand)
	h.demand = demand
}

// speak books what of the level a client's callers are about to use.
func (a *account) speak(h *holder, u quota.Units) {
	beyond := u
	if a.limit != nil && a.limit.Ceiling == quota.Soft {
		beyond = max(0, u-h.lent)
	}
	a.spoken += beyond - h.beyond
	h.spoken, h.beyond = u, beyond
}

// promise books what of the level a client may overdraw.
func (a *account) promise(h *holder, u quota.Units) {
	a.credit += u - h.credit
	h.credit, h.last = u, u
}

// extend promises a client the credit of a grant. Until the client has applied the grant, it
// may act on an earlier one with more credit.
func (h *holder) extend(u quota.Units) {
	h.a.promise(h, max(u, h.credit))
	h.last = u
}

// redeem ends the promises of earlier grants, if the client has applied the last one: what it
// has overdrawn by them is in its report.
func (h *holder) redeem(applied quota.Seq) {
	if applied >= h.grants {
		h.a.promise(h, h.last)
	}
}

// observe averages what a client attempts. A count that differs from what was
// expected by more than chance does is believed at once.
func (a *account) observe(now quota.Time, h *holder, attempted quota.Units, sync time.Duration) {
	dt := 10 * sync
	if h.reported > 0 {
		dt = min(max(now.Sub(h.reported), time.Millisecond), 10*sync)
	}
	h.reported = now
	seconds := dt.Seconds()
	a.ask(h, fairshare.Follow(h.demand, float64(attempted), float64(quota.Token), seconds, math.Exp(-seconds/(3*sync.Seconds()))))
}

// fade lets the demand of a client go that says nothing.
func (a *account) fade(now quota.Time, h *holder, sync time.Duration) {
	if h.demand > 0 && now.Sub(h.reported) > h.again+3*sync {
		a.ask(h, 0)
	}
	if h.spoken > 0 && now.Sub(h.reported) > 2*sync {
		a.speak(h, 0)
	}
	if h.credit > 0 && now.Sub(h.reported) > h.again+3*sync {
		a.promise(h, 0)
	}
}

// grant answers an entry: it lends what the client needs, up to its part, and reports what it
// has to know. before is what the node knew until now.
func (b *Branch) grant(h *holder, e *quota.ReportEntry, before *aggregator.Loan, asks bool) (quota.GrantEntry, bool) {
	a := h.a
	a.speak(h, 0)
	a.leave(h)
	var want, part quota.Units
	if (asks || e.Want > 0) && len(h.flight) < maxFlight {
		want = b.need(h, e)
		part = min(want, b.share(h, before, e.Want))
	}
	urgent := max(0, min(want, e.Want-h.lent)) // what callers wait for
	loan := b.lend(h, part, a.wait+max(0, urgent-min(part, before.Held)))
	if loan.Limit == nil {
		return quota.GrantEntry{}, false
	}
	g := b.tell(h, &loan, loan.Tokens, e.Want)
	if short := urgent - loan.Tokens; short > 0 {
		h.parked = g.Level-g.Unseen >= e.Want && (loan.Limit.Ceiling == quota.Hard || !loan.Dry)
		b.enqueue(h, short)
		if loan.Dry || loan.CutOff {
			b.recall(a, h)
		}
	}
	return g, true
}

// lendable is how much of what the node holds may be lent to a client: under soft only a little
// of what others have been promised.
func (b *Branch) lendable(h *holder) quota.Units {
	a, loan := h.a, b.look(h.a.key)
	if loan.Limit == nil || loan.Limit.Ceiling == quota.Hard {
		return quota.Most
	}
	elsewhere := max(0, loan.Level-loan.Unseen-loan.Held-a.lent)
	return max(little, loan.Held-max(0, a.credit-h.credit-elsewhere))
}

// lend hands tokens to a client.
func (b *Branch) lend(h *holder, tokens, wait quota.Units) aggregator.Loan {
	if tokens > little && h.a.credit > h.credit {
		tokens = min(tokens, b.lendable(h))
	}
	loan := b.trunk.Lend(b.clock, h.a.key, aggregator.Wish{Tokens: tokens, Wait: wait})
	if loan.Limit == nil {
		return loan
	}
	h.a.learn(&loan)
	h.void()
	h.owe(h.lent + loan.Tokens)
	h.given = h.given.Plus(loan.Tokens)
	if loan.Unbacked {
		h.unbacked += loan.Tokens
	}
	return loan
}

// tell makes a grant of what was lent.
func (b *Branch) tell(h *holder, loan *aggregator.Loan, tokens, want quota.Units) quota.GrantEntry {
	h.grants++
	if tokens > 0 {
		h.flight = append(h.flight, flight{h.grants, tokens})
	}
	h.lease = b.now.Add(min(b.cfg.Lease, loan.Lease))
	h.again = b.again(h.a, loan)
	g := b.told(h, loan)
	if loan.Limit.Ceiling == quota.Soft {
		h.extend(b.creditOf(h, loan, want))
		if g.Credit = h.last; h.a.settle(b.now, b.cfg.Sync) {
			g.Credit = max(g.Credit, min(g.Level-g.Unseen, little))
		}
	}
	if loan.Limit.Ceiling == quota.Soft && g.Level-g.Unseen >= want {
		h.a.speak(h, want)
	} else {
		h.a.speak(h, min(want, tokens))
	}
	g.Tokens = tokens
	return g
}

// told returns a grant entry with what a client needs to know of a key.
func (b *Branch) told(h *holder, loan *aggregator.Loan) quota.GrantEntry {
	a := h.a
	free, level := loan.Held, loan.Level
	if !loan.Dry {
		free = max(free, loan.Level-loan.Unseen)
	}
	if loan.Limit.Ceiling == quota.Hard { // what the node holds is there, whatever its leader has set aside of the rest
		level = max(level, loan.Held)
	}
	unseen := loan.Unseen
	if loan.Limit.Ceiling == quota.Soft { // others may use what they were lent, and a recall may bring it back
		unseen, free = unseen.Plus(a.lent-h.lent), free.Plus(max(0, a.spare-b.spare(h)))
	}
	g := quota.GrantEntry{
		Key: a.key, Epoch: h.epoch, Seq: h.grants, Lease: h.lease.Sub(b.now), Cap: h.lent,
		Level: level - (a.spoken - h.beyond), Unseen: unseen, Aside: loan.Aside, Free: free, Others: a.others(h, loan), Again: h.again,
		Slope: loan.Slope, Burst: loan.Limit.BurstUnits(), WindowStart: a.win,
	}
	if loan.Until != 0 {
		g.WindowEnd = loan.Until
	}
	return g
}

// spare is what a client was lent and is not foreseen to use.
func (b *Branch) spare(h *holder) quota.Units {
	return max(0, h.lent-quota.RoundUnits(h.demand*ahead*b.cfg.Sync.Seconds()))
}

// creditOf is what a client may overdraw until it hears again: half of this node's part
// of the level that is not promised yet, and no more than it is foreseen to need.
func (b *Branch) creditOf(h *holder, loan *aggregator.Loan, want quota.Units) quota.Units {
	a := h.a
	part := 1 / float64(max(1, loan.Nodes))
	if here := max(a.demand, float64(loan.Demand)); loan.Told && here > 0 {
		part = max(part, here/(here+float64(loan.Others)))
	}
	free := max(0, part*float64(loan.Level-loan.Unseen-a.lent)-float64(max(a.credit-h.credit, a.spoken-h.beyond))) / 2
	credit := quota.RoundUnits(min(free, max(float64(want), h.demand*ahead*b.cfg.Sync.Seconds(), free/float64(len(a.holders)))))
	return credit - credit%quota.Token
}

// settle follows the demand of all, and reports whether it is as it was: then what clients
// know of each other's demand is right, and their estimates with it.
func (a *account) settle(now quota.Time, sync time.Duration) bool {
	if a.usualAt > 0 {
		a.usual += (1 - math.Exp(-now.Sub(a.usualAt).Seconds()/(3*sync.Seconds()))) * (a.demand - a.usual)
	}
	a.usualAt = now
	chance := deviations * math.Sqrt(a.demand*float64(quota.Token)/(3*sync.Seconds()))
	return a.demand <= 1.5*a.usual+chance
}

// others is the demand of everybody in the cluster but the client, less what
// chance does.
func (a *account) others(h *holder, loan *aggregator.Loan) quota.Units {
	here := max(0, max(a.demand, float64(loan.Demand))-h.demand)
	return loan.Others + quota.RoundUnits(max(0, here-math.Sqrt(here*float64(quota.Token))))
}

// foreseen is what a client is likely to use until it reports again, in Units.
func (b *Branch) foreseen(h *holder) float64 {
	mean := h.demand * ahead * b.cfg.Sync.Seconds()
	return mean + deviations*math.Sqrt(mean*float64(quota.Token))
}

// need returns what a client should be lent beyond what it has.
func (b *Branch) need(h *holder, e *quota.ReportEntry) quota.Units {
	need := b.foreseen(h)
	u := quota.RoundUnits(need)
	if need < float64(2*quota.Token) { // it would lie there
		u = 0
	}
	want := max(u, e.Want) - h.lent
	if rest := want % quota.Token; rest > 0 && want > 0 {
		want += quota.Token - rest
	}
	return max(0, want)
}

// share is how much of what the node holds a client may have: what it needs while
// there is enough for all, else its part; and those who wait come first.
func (b *Branch) share(h *holder, loan *aggregator.Loan, want quota.Units) quota.Units {
	a := h.a
	level := b.waterLevel(a, loan)
	if math.IsInf(level, 1) && a.wait == 0 {
		return quota.Most
	}
	part := quota.RoundUnits(min(h.demand, level)*ahead*b.cfg.Sync.Seconds()) - h.lent
	if free := loan.Held - a.wait; free >= want { // a request at a time, for clients that come
		part = max(part, want)
	}
	return max(0, min(part, loan.Held-a.wait))
}

// waterLevel is the most that anyone gets per second when what the node has is
// divided max-min fairly by demand; infinite when there is enough for all. It is
// computed again four times an interval, together with the spare part of the
// loans.
func (b *Branch) waterLevel(a *account, loan *aggregator.Loan) float64 {
	if a.levelAt > 0 && b.now.Sub(a.levelAt) < b.cfg.Sync/4 {
		return a.level
	}
	a.levelAt = b.now
	horizon := ahead * b.cfg.Sync.Seconds()
	a.level = math.Inf(1)
	if avail := float64(loan.Rate) + float64(loan.Held)/horizon; a.demand > avail {
		a.level = fairshare.Level(len(a.holders), func(i int) float64 { return a.holders[i].demand }, avail)
	}
	a.spare = 0
	for _, h := range a.holders {
		if h.c.since == 0 { // it can be recalled
			a.spare += b.spare(h)
		}
	}
	return a.level
}

// again is when a client should report next: at every interval while the limit is
// contended, rarely when the use is far below it.
func (b *Branch) again(a *account, loan *aggregator.Loan) time.Duration {
	total := float64(loan.Others) + max(a.demand, float64(loan.Demand))
	burst, avail := float64(loan.Limit.BurstUnits()), float64(loan.Slope)
	if loan.Limit.Kind != quota.TokenBucket { // the present level is all that is available
		avail += float64(max(0, loan.Level)) / (ahead * b.cfg.Sync.Seconds())
	}
	if total <= 0 || total > avail/2 {
		return b.cfg.Sync
	}
	quiet := time.Duration(calmShare * burst / total * float64(time.Second))
	return min(max(quiet/b.cfg.Sync, 1), calm) * b.cfg.Sync
}
