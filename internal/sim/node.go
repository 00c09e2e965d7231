package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/clientledger"
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// node is a node of the cluster, across restarts of its process.
type node struct {
	agg    *aggregator.Aggregator // nil for a baseline
	ledger *clientledger.Ledger   // nil without clients
	id     quota.NodeID
	i      int
	inc    quota.Incarnation
	clock  aggregator.Clock

	zero  quota.Time // when the run began
	skew  quota.Time // its clock minus the true time, at the start
	drift int64      // gain of its clock in nanoseconds per second

	journal *journal

	limits *quota.Limits   // the newest limits that it has learned of
	over   *quota.Override // the override of the only key, likewise; nil for none

	dead, paused bool
	removed      bool // not a voter any more, or not yet
	waiting      []event
	waits        [3]int // number of queued events by class
	group        int    // group of the partition; 0 for unlisted nodes
	pausedAt     quota.Time
	suspendedAt  quota.Time    // start of the current suspension of its machine; 0 if running
	slept        time.Duration // total of earlier suspensions
	alone        quota.Time    // since when it reaches no majority; 0 if it does
	slow         time.Duration // additional delay of each message
	slowed       int           // number of the slow link that applies
	set          quota.Time    // how far its wall clock has been set
	steered      quota.Time    // how much of that its process had followed at steeredAt
	steeredAt    quota.Time
	heard        int             // messages and changes that it has received
	seen         map[string]seen // by key, the last look at it
	refused      int             // number of the refusal that applies; 0 for none

	// The node learned at missedTo of what was committed between the two.
	missedFrom, missedTo quota.Time

	began  quota.Time // start of its process, or a little before
	asleep bool       // no key is open: the next request wakes it
	wakeAt quota.Time
	look   func() // callback of arrive: read the rate again
	come   func() // callback of arrive: a request arrives
	parked []parked
}

// maxWaiting bounds the messages, and the requests, that wait at a paused node, like a real inbox.
// Further ones are lost.
const maxWaiting = 4096

func (r *run) newNode(i int) *node {
	n := &node{i: i, zero: r.Start, id: quota.NodeID(string(rune('a'+i%26)) + string(rune('a'+i/26)))}
	if i >= 26*26 {
		n.id = quota.NodeID("n" + strconv.Itoa(i))
	}
	if r.Skew > 0 {
		n.skew = quota.Time(r.rng.Int64N(int64(r.Skew)))
	}
	if most := int64(r.Drift * float64(time.Second)); most > 0 {
		n.drift = r.side.Int64N(2*most+1) - most
	}
	phase := time.Duration(r.rng.Int64N(int64(r.Sync)))
	if n.dead = slices.Contains(r.joining, i+1); n.dead {
		n.removed = true
		return n
	}
	r.boot(n, phase)
	return n
}

// boot starts the node's process. phase is the age of its timers.
func (r *run) boot(n *node, phase time.Duration) {
	n.inc++
	n.heard++
	n.steered, n.steeredAt = n.set, r.now // a process starts with the wall clock
	n.clock = r.clockOf(n)
	if n.journal == nil {
		n.journal = newJournal()
	}
	n.journal.incarnation = n.inc
	n.dead, n.paused, n.asleep, n.wakeAt, n.parked = false, false, true, 0, nil
	n.missed(1, r.now) // it reads the log again
	if r.Algorithm != "" && r.Algorithm != Quorate {
		return
	}
	n.agg = aggregator.New(aggregator.Config{
		Self: n.id, Incarnation: n.inc, Nodes: r.members(), Ranges: 1, Sync: r.Sync, MaxKeys: r.MaxKeys, MaxEntries: r.Entries, Journal: n.journal, Known: forever, Overrides: n,
	}, n.clock()-quota.Time(phase))
	r.learned(n)
	n.agg.SetLimits(n.clock(), n.limits)
	r.resized()
	n.agg.Recovered(n.journal.earlier())
	n.began = r.now - quota.Time(r.side.Int64N(int64(time.Second)))
	r.every(n, time.Second, func() { n.agg.Sweep(n.clock()) })
	r.ledgerOf(n)
}

// every calls f periodically as long as the process lives.
func (r *run) every(n *node, d time.Duration, f func()) {
	var tick func()
	tick = func() {
		f()
		r.onNode(r.now.Add(d), n, timer, tick)
	}
	r.onNode(r.now.Add(d-r.now.Sub(n.began)%d), n, timer, tick)
}

// local returns what the machine's clock shows at a true time.
func (n *node) local(t quota.Time) quota.Time { return t + n.skew + n.gained(t-n.zero) }

// gained returns what the drift adds to a duration.
func (n *node) gained(d quota.Time) quota.Time {
	const second = quota.Time(time.Second)
	return d/second*quota.Time(n.drift) + d%second*quota.Time(n.drift)/second
}

// clockOf returns the clock of a process that starts now, made as in nodes and clients: by the
// machine's monotonic clock, which stops while the machine is suspended.
func (r *run) clockOf(n *node) aggregator.Clock {
	began, slept := n.local(r.now), n.sleep(r.now)
	c := elapsed.Of(time.Time{}, func() (int64, time.Duration) {
		at := n.local(r.now)
		return int64(at + n.set), at.Sub(began) - (n.sleep(r.now) - slept)
	}, func() (time.Duration, bool) { return time.Duration(n.local(r.now)), true })
	return func() quota.Time { return began.Add(c.Since()) + n.follows(r.now) }
}

// setClocks sets the wall clocks of nodes.
func (r *run) setClocks(nodes []*node, by time.Duration) {
	for _, n := range nodes {
		n.steered, n.steeredAt = n.follows(r.now), r.now
		n.set += quota.Time(by)
	}
}

// steer is how fast a process's clock follows its wall clock, as in package clock of cluster.
const steer = 5000 // parts per million

// follows returns how much of what the wall clock was set by the process's clock has at a time.
func (n *node) follows(at quota.Time) quota.Time {
	most := (at - n.steeredAt) * steer / 1e6
	return n.steered + min(max(n.set-n.steered, -most), most)
}

// sleep returns how long the machine has been suspended so far.
func (n *node) sleep(now quota.Time) time.Duration {
	if n.suspendedAt > 0 {
		return n.slept + now.Sub(n.suspendedAt)
	}
	return n.slept
}

// timeOf returns the first moment, or one shortly after it, at which the process's clock shows t,
// unless the machine is suspended before.
func (r *run) timeOf(n *node, t quota.Time) quota.Time {
	ahead := n.clock() - n.local(r.now) - n.follows(r.now)
	at := n.trueTime(t - ahead - n.follows(r.now))
	if n.set == n.steered {
		return at
	}
	shown := func() quota.Time { return n.local(at) + ahead + n.follows(at) }
	for range 3 { // what is left over shrinks by the rate of the steering each time
		at -= shown() - t
	}
	for shown() < t {
		at++
	}
	return at
}

// trueTime returns the first moment, or one shortly after it, at which the machine's wall clock
// shows t.
func (n *node) trueTime(t quota.Time) quota.Time {
	at := t - n.skew
	if n.drift == 0 {
		return at
	}
	for range 3 { // what is left over shrinks by the drift each time
		at -= n.local(at) - t
	}
	for n.local(at) < t {
		at++
	}
	return at
}

// runs reports whether the process of that incarnation is alive.
func (n *node) runs(inc quota.Incarnation) bool { return !n.dead && n.inc == inc }

// kill ends the process and drops its state.
func (n *node) kill(now quota.Time) {
	n.wake(now)
	n.dead, n.paused = true, false
	n.waiting, n.waits, n.parked = nil, [3]int{}, nil
}

// pause stops the node's process if it is alive.
func (r *run) pause(n *node) {
	if !n.paused {
		n.pausedAt = r.now
	}
	n.paused = !n.dead
}

// suspend stops the node's machine if its process is alive.
func (r *run) suspend(n *node) {
	r.pause(n)
	if n.paused && n.suspendedAt == 0 {
		n.suspendedAt = r.now
	}
}

// wake ends a suspension.
func (n *node) wake(now quota.Time) { n.slept, n.suspendedAt = n.sleep(now), 0 }

// late returns how late a timer is because of suspensions of its machine.
func (e *event) late() time.Duration {
	if e.what != timer {
		return 0
	}
	return e.to.slept - e.slept
}

// later postpones a timer by how late it is.
func (r *run) later(e event) {
	e.at, e.slept = e.at.Add(e.late()), e.to.slept
	r.put(e)
}

// queue keeps events while the node is paused.
func (n *node) queue(e event) {
	if e.what != timer && n.waits[e.what] >= maxWaiting {
		return
	}
	n.waits[e.what]++
	n.waiting = append(n.waiting, e)
}

// resume processes the queued events: requests first, or in order. Timers come last, as in a
// process that was stopped.
func (r *run) resume(n *node) {
	n.paused = false
	n.missed(n.pausedAt, r.now)
	waiting := n.waiting
	n.waiting, n.waits = nil, [3]int{}
	if requestsFirst := r.side.IntN(2) == 0; requestsFirst {
		r.drain(waiting, func(c class) bool { return c == request })
		r.drain(waiting, func(c class) bool { return c == message })
	} else {
		r.drain(waiting, func(c class) bool { return c != timer })
	}
	r.drain(waiting, func(c class) bool { return c == timer })
}

func (r *run) drain(waiting []event, match func(class) bool) {
	for _, e := range waiting {
		switch {
		case !match(e.what) || !e.to.runs(e.inc):
		case e.late() > 0:
			r.later(e)
		default:
			e.f()
		}
	}
}
