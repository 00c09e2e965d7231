package sim

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

const epoch = quota.Time(1_000_000_000_000_000_000)

// run is a scenario in progress.
type run struct {
	Scenario
	// rng decides what the network does and when requests of Load arrive; side decides rare things
	// (announcements, faults, clocks). Every load has its own source. So a change of one leaves the
	// others unchanged.
	rng, side    *rand.Rand
	now          quota.Time
	events       events
	n            uint64
	nodes        []*node
	limits       *quota.Limits   // the newest
	lastOverride *quota.Override // the newest override of the only key
	baseline     baseline        // nil for Quorate
	raft
	network
	cl clients
	book
	answered  []answered                                       // only of limits that may ask
	admitting []quota.Time                                     // when leaders admitted decide requests
	asking    quota.Units                                      // cost of decide requests that a leader may have booked, and no caller has admitted
	call      *call                                            // reused for the next decision
	packed    packed                                           // buffer for counting the bytes of messages
	slack     quota.Units                                      // yield of the limit during the largest difference of two delays
	asks      bool                                             // the leader decides all requests, at least for a part of the run
	mayAsk    bool                                             // the leader decides some requests, at least for a part of the run
	varying   bool                                             // the tiers change
	resetAt   quota.Time                                       // the last reset of the key
	regained  int64                                            // tokens given back that were taken before the last reset
	resets    int                                              // resets of the key
	rate      quota.Units                                      // the highest rate of the limit, per second
	largest   int64                                            // the largest burst of the limit
	joining   []int                                            // nodes that are not in the cluster at first
	waited    time.Duration                                    // the longest wait of a message for its leader's time
	looks     int                                              // pairs of looks that were compared
	swings    []string                                         // what two looks showed that must not happen
	late      time.Duration                                    // time after Duration in which waiting checks are decided
	heard     func(n *node, rep *quota.Report, g *quota.Grant) // called for every arriving message, with one of the two; may be nil
	res       Result
}

// Run plays the scenario, which must be valid: at least one node, and nodes and groups within the
// range; see package scenario for a check. The same scenario always has the same result.
func Run(s Scenario) Result {
	r := newRun(s)
	r.start()
	if s.Requests != nil {
		r.replay()
	}
	r.until(r.Start.Add(r.Duration + r.late))
	r.end()
	return r.res
}

func newRun(s Scenario) *run {
	r := &run{
		Scenario: s,
		rng:      rand.New(rand.NewPCG(s.Seed, 1)), side: rand.New(rand.NewPCG(s.Seed, 3)),
	}
	if r.Start == 0 {
		r.Start = epoch
	}
	r.now = r.Start
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&r.Sync, 100*time.Millisecond)
	def(&r.Skew, time.Hour)
	def(&r.Election, 500*time.Millisecond)
	def(&r.CheckpointEvery, 750*time.Millisecond)
	def(&r.CommitDelay, 2*r.Delay+time.Millisecond)
	r.limits, _ = quota.NewLimits(1, append([]quota.Limit{s.Limit}, s.parents...))
	for _, l := range s.modes() {
		r.asks, r.mayAsk = r.asks || l.AsksLeader(), r.mayAsk || l.MayAsk()
		r.rate, r.largest = max(r.rate, l.Rate.PerSecond()), max(r.largest, l.Burst)
	}
	for i := range s.Faults {
		switch f := &s.Faults[i]; f.Kind {
		case Join:
			r.joining = append(r.joining, f.Nodes...)
		case Resize, Override:
			r.varying = true
		}
	}
	if r.members() == 0 { // somebody has to be there first
		r.joining = nil
	}
	r.log = newRangeLog()
	r.book.init(r)
	r.slack = quota.Token/100 + quota.Units(float64(r.rate)*2*r.varies().Seconds())
	return r
}

func (r *run) start() {
	r.baseline = newBaseline(r)
	for i := range r.Nodes {
		r.nodes = append(r.nodes, r.newNode(i))
		if r.Load != nil {
			r.arrive(r.nodes[i])
		}
	}
	r.startClients()
	for i := range r.Loads {
		r.startLoad(i)
	}
	if r.baseline != nil {
		r.baseline.start()
	} else {
		r.elect(0)
	}
	for _, at := range []time.Duration{r.KillLeader, r.KillAgain} {
		if at > 0 {
			r.after(at, r.killLeader)
		}
	}
	for i := range r.Faults {
		r.after(r.Faults[i].At, func() { r.fault(&r.Faults[i]) })
	}
}

// stopped reports whether the run has to end early.
func (r *run) stopped() bool { return r.Stopped != nil && r.Stopped() }

// until plays all events up to a time.
func (r *run) until(end quota.Time) {
	for i := 1; len(r.events) > 0 && r.events[0].at <= end; i++ {
		if i%4096 == 0 && r.stopped() {
			return
		}
		e := r.events.pop()
		r.now = e.at
		r.step(e)
	}
	r.now = max(r.now, end)
}

// step executes an event, if the network and the node allow it.
func (r *run) step(e event) {
	r.res.Steps++
	if e.to != nil {
		switch {
		case !e.to.runs(e.inc):
			return
		case e.from != nil && !r.connected(e.from, e.to) && r.side.IntN(2) == 0:
			return // it was on its way when the partition began
		case e.to.paused:
			e.to.queue(e)
			return
		case e.late() > 0:
			r.later(e)
			return
		}
	}
	e.f()
}

// replay plays the requests of a log.
func (r *run) replay() {
	last := time.Duration(0)
	for q := range r.Requests {
		if r.Duration > 0 && q.At > r.Duration {
			break
		}
		last = max(last, q.At)
		r.skip(r.Start.Add(last))
		r.until(r.Start.Add(last))
		if r.stopped() {
			return
		}
		r.requestAt(r.nodes[(q.Node-1)%r.Nodes], Spread{}, wanted{key: q.Key, cost: q.Cost})
	}
	if r.Duration == 0 {
		r.Duration, r.late = last, r.Hop+askWait
	}
}

func (r *run) at(t quota.Time, f func()) { r.put(event{at: t, f: f}) }

// since returns the time since the start.
func (r *run) since() time.Duration { return r.now.Sub(r.Start) }

func (r *run) after(d time.Duration, f func()) { r.at(r.now.Add(d), f) }

// onNode schedules f at a node; it is dropped if the process dies before.
func (r *run) onNode(t quota.Time, n *node, what class, f func()) {
	r.put(event{at: t, f: f, to: n, inc: n.inc, what: what, slept: n.slept})
}

func (r *run) put(e event) {
	r.n++
	e.n, e.at = r.n, max(e.at, r.now)
	r.events.push(e)
}

// settle is how long a run continues event by event, after the last request and before the next:
// long enough for the sweeps and checkpoints that remove idle keys.
const settle = 5 * time.Second

// skip skips the time until the next request if nothing happens in it but sweeps, checkpoints and
// beacons: no node has a key open, so nothing is reported or granted, and levels follow from the
// time alone. Timers keep their distances. It does nothing in scenarios with loads or faults.
func (r *run) skip(next quota.Time) {
	if r.Load != nil || len(r.Loads)+len(r.Faults) > 0 || r.KillLeader+r.KillAgain > 0 || r.baseline != nil {
		return
	}
	for next.Sub(r.now) > 2*settle && !r.stopped() {
		r.until(r.now.Add(settle))
		if r.quiet() {
			by := (next.Sub(r.now) - settle).Truncate(4 * r.CheckpointEvery) // what is done now and then keeps its turns
			for i := range r.events {                                        // all by the same, so it stays a heap
				r.events[i].at = r.events[i].at.Add(by)
			}
			r.now = r.now.Add(by)
			return
		}
	}
}

// quiet reports whether no node has an open key.
func (r *run) quiet() bool {
	for _, n := range r.nodes {
		if !n.agg.Quiet() {
			return false
		}
	}
	return true
}
