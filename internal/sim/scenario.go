package sim

import (
	"iter"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Scenario describes one run.
type Scenario struct {
	Seed  uint64
	Nodes int
	// Start is the wall-clock time at the beginning, which determines the windows; 0 is 9 September
	// 2001, 01:46:40 UTC. See Skew.
	Start    quota.Time
	Duration time.Duration
	Sync     time.Duration
	Limit    quota.Limit
	parents  []quota.Limit // above Limit; only tests have some
	Delay    time.Duration
	Jitter   time.Duration // uniform, on top of Delay; reorders
	Loss     float64       // of reports and of grants
	Repeat   float64
	// Load returns the arrivals per second at node i.
	Load func(i int, t time.Duration) float64
	// Hold is the average time that an acquisition is held, for concurrency limits. Excess
	// is then what was in flight beyond the limit.
	Hold time.Duration
	// KillLeader is when the leader dies; the next one starts after Election. With KillMember its
	// node dies too.
	KillLeader time.Duration
	KillMember bool
	Election   time.Duration
	// KillAgain is when the next leader dies too, in the same way.
	KillAgain time.Duration
	// Linger is how long a killed leader continues to serve its term, like one that does not know
	// yet that it has lost it.
	Linger time.Duration
	// Skew is the largest difference of a node's clock; 0 is an hour, below 0 none. Windows follow
	// the leader's clock: they agree with the ideal's only without skew.
	Skew time.Duration
	// Hop is the longest time that a hard check waits for the next grant.
	Hop time.Duration

	// Loads add up, together with Load. Each has its own arrivals, the same for every algorithm.
	Loads []Load
	// Requests are played in the order of their At, which must not decrease. A dead node ignores
	// them. With them, Duration 0 is the last one's At, and waiting checks are still decided after
	// it.
	Requests iter.Seq[Request]
	// Stopped, if set, is called regularly; the run ends early when it returns true.
	Stopped func() bool
	// Keys are those that Loads ask for; the zero value is one key.
	Keys   Keys
	Faults []Fault
	// Reorder is the fraction of messages that take up to four delays longer.
	Reorder float64
	// Drift is the most that a node's clock runs faster or slower: 1e-4 is a
	// tenth of a millisecond per second. 0 to 0.01.
	Drift float64
	// Near lets a leader and the member of its own process talk without the network, as real nodes
	// do.
	Near bool
	// Algorithm decides; "" is Quorate.
	Algorithm Algorithm

	// Clients is the number of processes one level below the nodes, equally many at each. Requests
	// for a node go to its clients. 0 means no clients.
	Clients int
	// Breaks is the average number of times per second that the stream of a client breaks.
	Breaks float64

	// CheckpointEvery is how often a leader writes levels to the log; 0 is 750 ms.
	CheckpointEvery time.Duration
	// CommitDelay is how long the log takes to commit; 0 is 2 x Delay + 1 ms.
	CommitDelay time.Duration
	// PerEntry is how long a leader needs for each entry of a report and for each decide request, one
	// after the other; 0 is no time.
	PerEntry time.Duration
	// MaxKeys bounds each node and each ledger; 0 is their default.
	MaxKeys int
	// Entries bounds the keys in one report, 1 to 4096. A node reports more keys in several
	// reports, each of which may be lost. 0 is 128.
	Entries int

	// Check verifies the invariants after every step of a leader: see Result.Violations. It also
	// records when a leader decided, by which decisions of the leader are judged under hard.
	Check bool
	// Strict, with Check, verifies also after the first term that everything held under hard is
	// covered. That is not guaranteed: what a leader booked without writing it to the log is lost
	// with it.
	Strict bool
	// Decided is called with every decision and that of the ideal.
	Decided func(at time.Duration, node int, key string, d quota.Decision, ideal bool)
}

// Load is one part of the arrivals. Those of a scenario add up.
type Load struct {
	From, To time.Duration // To 0 is the end of the scenario
	Rate     float64       // requests per second over all nodes and keys
	Spread   Spread
	On, Off  time.Duration // alternating, beginning with On at From; 0 is always on
	// Clump is how many requests arrive together at one node; 0 is 1, which is Poisson.
	Clump int
	Cost  int64 // of a request, in tokens; 0 is 1
	Look  bool  // the requests take nothing: they read what remains
	// Refund is the fraction of the admitted requests that give back a part of their cost, at most
	// refundWithin later, or within.
	Refund float64
	within time.Duration // only of tests
	Charge bool          // the requests have used their cost already: nodes book it, and refuse nothing
}

// Spread says which nodes get a load. The zero value is all of them, evenly.
type Spread struct {
	Skew   float64       // fraction for the first node; the rest goes to the others
	Moving time.Duration // all to one node at a time, changing after this time
	Nodes  []int         // evenly to these, from 1
}

// FaultKind is the kind of a fault.
type FaultKind string

// The kinds of faults.
const (
	Kill      FaultKind = "kill"      // the process dies and loses what its member has not reported
	Stop      FaultKind = "stop"      // the process hands over, returns its tokens and ends, as a node that is stopped in order
	Restart   FaultKind = "restart"   // a killed or stopped node starts a new process
	Pause     FaultKind = "pause"     // the process stops for a while, its clock does not
	Suspend   FaultKind = "suspend"   // the machine stops for a while, with the monotonic clock and the timers of its process
	Partition FaultKind = "partition" // no message passes between groups of nodes
	Heal      FaultKind = "heal"      // all partitions and slow links end
	Slow      FaultKind = "slow"      // all messages of the nodes take longer
	Refuse    FaultKind = "refuse"    // new connections to the nodes are refused, as by a proxy; their own messages arrive
	Join      FaultKind = "join"      // nodes that were not in the cluster become members of it
	Move      FaultKind = "move"      // the range's leader hands over to a node
	Clock     FaultKind = "clock"     // the wall clocks of nodes are set ahead or back
	Switch    FaultKind = "decide"    // the limit is decided elsewhere from now on
	Resize    FaultKind = "resize"    // the limit has other tiers from now on: another rate, burst, count or window
	Override  FaultKind = "override"  // an override multiplies the tiers from now on
	Reset     FaultKind = "reset"     // the leader resets the key: it is full
)

// harmless reports whether no node and no message is lost by it.
func (k FaultKind) harmless() bool {
	return k == Join || k == Clock || k == Switch || k == Resize || k == Override || k == Reset
}

// Fault is one event of a scenario.
type Fault struct {
	At     time.Duration
	Kind   FaultKind
	Leader bool          // the target is the current leader
	Nodes  []int         // or these, from 1
	Groups [][]int       // of a partition; unlisted nodes form one group
	For    time.Duration // duration, for kill and stop until a restart; 0 is permanent
	Delay  time.Duration // of slow: added to each message; of clock: how far it is set, negative for back
	Decide quota.Decide  // of decide: where
	Tiers  []quota.Tier  // of resize: the tiers, as many as before
	Scale  int64         // of override: parts per million; a million removes it
}

// Keys are the keys of requests: Count keys, Zipf-distributed with exponent Zipf (0 is uniform).
type Keys struct {
	Count int
	Zipf  float64
}

// Algorithm is the way in which a simulated cluster decides.
type Algorithm string

// The algorithms: the real one and baselines.
const (
	Quorate       Algorithm = "quorate"
	CountSync     Algorithm = "count-sync"      // nodes exchange counts at every sync, and refuse at the limit
	CountSyncDebt Algorithm = "count-sync-debt" // the same, and over-admission becomes debt
	EqualShares   Algorithm = "equal-shares"    // every node has limit/N
	DropRatio     Algorithm = "drop-ratio"      // every node drops the fraction that was too much in the last interval
)

// Request is a request at a given time, for example from a log.
type Request struct {
	At   time.Duration // since the start
	Key  string
	Node int   // from 1
	Cost int64 // in tokens
}

// baseline is a baseline: it decides in place of the real code.
type baseline interface {
	// start schedules the algorithm's own activity, with run.after, and run.send for messages.
	start()
	// decide decides a request at a node.
	decide(n *node, key string, cost quota.Units) quota.Decision
}
