package sim

import (
	"strconv"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/branch"
	"github.com/quorate/quorate/internal/elapsed"
	"github.com/quorate/quorate/internal/quota"
)

// node is one process, and what comes after it when it is restarted.
type node struct {
	agg    *aggregator.Aggregator // nil for a rival
	branch *branch.Branch         // nil without clients
	id     quota.NodeID
	i      int
	life   int32 // counts restarts and deaths: events of an earlier one are void
	inc    quota.Incarnation
	clock  aggregator.Clock

	zero  quota.Time // when the run began
	skew  quota.Time // its clock minus the true one, at the start
	drift int64      // what it gains in a second, in nanoseconds

	journal *journal

	dead, paused bool
	removed      bool // it is no voter any more
	waiting      []event
	waits        [3]int // how many of each class
	group        int    // of the partition; 0 for those in none
	pausedAt     quota.Time
	suspendedAt  quota.Time    // since when its machine stands still; 0 is that it runs
	slept        time.Duration // how long that was so before
	alone        quota.Time    // since when it is cut off from a majority; 0 is not
	slow         time.Duration // longer for each message
	slowed       int           // by which of the slow links
	refused      int           // by which of the refusals; 0 is not

	// What was committed between these it learned of at the end of it.
	missedFrom, missedTo quota.Time

	began  quota.Time // when its process did, or a little before
	asleep bool       // no key is open: the next request wakes it
	wakeAt quota.Time
	look   func() // of arrive: time to look at the rate again
	come   func() // of arrive: a request comes
	parked []parked
}

// maxWaiting bounds what waits at a paused node, of messages and of requests
// each: as the inbox of a real one. What comes beyond it is lost.
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
	r.boot(n, time.Duration(r.rng.Int64N(int64(r.Sync))))
	return n
}

// boot starts the node's process. phase is how long ago its timers began.
func (r *run) boot(n *node, phase time.Duration) {
	n.inc++
	n.clock = r.clockOf(n)
	if n.journal == nil {
		n.journal = newJournal()
	}
	n.journal.life = n.inc
	n.dead, n.paused, n.asleep, n.wakeAt, n.parked = false, false, true, 0, nil
	n.missed(1, r.now) // it reads the log again
	if r.Algorithm != "" && r.Algorithm != Quorate {
		return
	}
	n.agg = aggregator.New(aggregator.Config{
		Self: n.id, Incarnation: n.inc, Nodes: r.Nodes, Ranges: 1, Sync: r.Sync, MaxKeys: r.MaxKeys, MaxEntries: r.Entries, Journal: n.journal, Known: forever,
	}, n.clock()-quota.Time(phase))
	n.agg.SetLimits(n.clock(), r.limits)
	n.agg.Afterlife(n.journal.earlier())
	n.began = r.now - quota.Time(r.side.Int64N(int64(time.Second)))
	r.every(n, time.Second, func() { n.agg.Sweep(n.clock()) })
	r.branchOf(n)
}

// every calls f for as long as the process lives.
func (r *run) every(n *node, d time.Duration, f func()) {
	var tick func()
	tick = func() {
		f()
		r.onNode(r.now.Add(d), n, timer, tick)
	}
	r.onNode(r.now.Add(d-r.now.Sub(n.began)%d), n, timer, tick)
}

// local is what the clock of the node's machine shows at a true moment.
func (n *node) local(t quota.Time) quota.Time { return t + n.skew + n.gained(t-n.zero) }

// gained is what the drift makes of a stretch of time.
func (n *node) gained(d quota.Time) quota.Time {
	const second = quota.Time(time.Second)
	return d/second*quota.Time(n.drift) + d%second*quota.Time(n.drift)/second
}

// clockOf is the clock of a process that begins now, as nodes and clients make it: of the
// machine's monotonic one, which stands still while the machine is suspended.
func (r *run) clockOf(n *node) aggregator.Clock {
	began, slept := n.local(r.now), n.sleep(r.now)
	c := elapsed.Of(time.Time{}, func() (int64, time.Duration) {
		at := n.local(r.now)
		return int64(at), at.Sub(began) - (n.sleep(r.now) - slept)
	}, func() (time.Duration, bool) { return time.Duration(n.local(r.now)), true })
	return func() quota.Time { return began.Add(c.Since()) }
}

// sleep is how long the machine has been suspended so far.
func (n *node) sleep(now quota.Time) time.Duration {
	if n.suspendedAt > 0 {
		return n.slept + now.Sub(n.suspendedAt)
	}
	return n.slept
}

// timeOf is the first moment at which the process's clock shows t, or a little after it, if its
// machine is not suspended before.
func (r *run) timeOf(n *node, t quota.Time) quota.Time {
	return n.trueTime(t + n.local(r.now) - n.clock())
}

// trueTime is the first moment at which the machine's wall clock shows t, or a little
// after it.
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

// kill ends the process, with all that it knew.
func (n *node) kill(now quota.Time) {
	n.wake(now)
	n.dead, n.paused = true, false
	n.life++
	n.waiting, n.waits, n.parked = nil, [3]int{}, nil
}

// pause stops the node's process, if it lives.
func (r *run) pause(n *node) {
	if !n.paused {
		n.pausedAt = r.now
	}
	n.paused = !n.dead
}

// suspend stops the node's machine, if its process lives.
func (r *run) suspend(n *node) {
	r.pause(n)
	if n.paused && n.suspendedAt == 0 {
		n.suspendedAt = r.now
	}
}

// wake ends what suspend began.
func (n *node) wake(now quota.Time) { n.slept, n.suspendedAt = n.sleep(now), 0 }

// late is by how much a timer is late because its machine was suspended.
func (e *event) late() time.Duration {
	if e.what != timer {
		return 0
	}
	return e.to.slept - e.slept
}

// later lets a timer come as much later as it is late.
func (r *run) later(e event) {
	e.at, e.slept = e.at.Add(e.late()), e.to.slept
	r.put(e)
}

// queue keeps what comes while the node is paused.
func (n *node) queue(e event) {
	if e.what != timer && n.waits[e.what] >= maxWaiting {
		return
	}
	n.waits[e.what]++
	n.waiting = append(n.waiting, e)
}

// resume lets the node go on with what has waited: requests first, or in order.
// Timers come last, as they do in a process that has been stopped.
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
		case !match(e.what) || e.to.dead || e.to.life != e.life:
		case e.late() > 0:
			r.later(e)
		default:
			e.f()
		}
	}
}
