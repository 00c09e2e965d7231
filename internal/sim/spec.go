package sim

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Load is a part of the arrivals; those of a scenario add up.
type Load struct {
	From, To time.Duration // To 0 is the end of the scenario
	Rate     float64       // requests per second over all nodes and keys
	Spread   Spread
	On, Off  time.Duration // on for On, then off for Off, from From; 0 is always on
	// Clump is how many requests arrive at one moment at one node; 0 is 1, which
	// is Poisson.
	Clump int
	Cost  int64 // of a request, in tokens; 0 is 1
}

// Spread says which nodes get a load. The zero value is even over all.
type Spread struct {
	Skew   float64       // this part goes to the first node, the rest to the others
	Moving time.Duration // all of it goes to one node, the next after this long
	Nodes  []int         // evenly over these, from 1
}

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults.
const (
	Kill      FaultKind = "kill"      // the node's process dies, and with it what its member counted and had not reported
	Restart   FaultKind = "restart"   // a killed node comes back as a new process
	Pause     FaultKind = "pause"     // the node does nothing for a while, and its clock goes on
	Suspend   FaultKind = "suspend"   // the node's machine stands still for a while, and so do the monotonic clock and the timers of its process
	Partition FaultKind = "partition" // no message passes between groups of nodes
	Heal      FaultKind = "heal"      // all partitions and slow links end
	Slow      FaultKind = "slow"      // all messages of the nodes take longer
	Refuse    FaultKind = "refuse"    // new connections to the nodes are refused, as by a proxy before them: what they send arrives, nothing reaches them
)

// Fault is one event of a scenario.
type Fault struct {
	At     time.Duration
	Kind   FaultKind
	Leader bool          // the target is whoever leads then
	Nodes  []int         // or these, from 1
	Groups [][]int       // of a partition: nodes in none are in a group together
	For    time.Duration // of pause, suspend, partition, slow and refuse, and of kill (restart after it); 0 is for good
	Delay  time.Duration // of slow: added to each message
}

// Keys is what requests are for: Count keys, Zipf-distributed with exponent
// Zipf (0 is uniform).
type Keys struct {
	Count int
	Zipf  float64
}

// Algorithm is how a simulated cluster decides.
type Algorithm string

// The algorithms: the real one, and what others do, for comparison.
const (
	Quorate       Algorithm = "quorate"
	CountSync     Algorithm = "count-sync"      // nodes add up each other's counts at every sync, and refuse at the limit
	CountSyncDebt Algorithm = "count-sync-debt" // the same, and what was admitted too much is owed
	EqualShares   Algorithm = "equal-shares"    // every node has limit/N
	DropRatio     Algorithm = "drop-ratio"      // every node drops the part that the last interval had too much
)

// Request is one that is played at its time: of a log, say.
type Request struct {
	At   time.Duration // since the start
	Key  string
	Node int   // from 1
	Cost int64 // in tokens
}

// rival decides instead of the real code.
type rival interface {
	// start schedules what the algorithm does by itself, with run.after, and
	// run.send for messages.
	start()
	// decide decides a request at a node.
	decide(n *node, key string, cost quota.Units) quota.Decision
}
