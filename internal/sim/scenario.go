package sim

import (
	"iter"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// Scenario is one run.
type Scenario struct {
	Seed  uint64
	Nodes int
	// Start is what clocks show when the run begins, and so which windows it
	// is in; 0 is 9 September 2001, 01:46:40 UTC. See Skew.
	Start    quota.Time
	Duration time.Duration
	Sync     time.Duration
	Limit    quota.Limit
	Delay    time.Duration
	Jitter   time.Duration // uniform, on top of Delay; reorders
	Loss     float64       // of reports and of grants
	Repeat   float64
	// Load returns the arrivals per second at node i.
	Load func(i int, t time.Duration) float64
	// Hold is how long what is acquired is held, on average, of a limit that counts
	// what is in flight. Excess is then what was in flight beyond the limit.
	Hold time.Duration
	// KillLeader is when the leader dies; the next one starts after Election.
	// Its member dies with it if KillMember is set.
	KillLeader time.Duration
	KillMember bool
	Election   time.Duration
	// KillAgain is when the next leader dies too, in the same way.
	KillAgain time.Duration
	// Linger is how long a killed leader goes on serving its old term, as one
	// does that has lost its term and does not know it yet.
	Linger time.Duration
	// Skew is the most that a node's clock may differ; 0 is an hour, below 0 none.
	// Windows are the leader's: only without skew do they agree with the ideal's.
	Skew time.Duration
	// Hop lets a hard check wait for the next grant, at most this long.
	Hop time.Duration

	// Loads add up, with what Load gives. Each has arrivals of its own, the same
	// for every algorithm.
	Loads []Load
	// Requests are played in the order of their At, which must not fall. A node
	// that is dead then does not see them. With them Duration 0 is the last one's
	// At, and what waits then is still decided.
	Requests iter.Seq[Request]
	// Stopped, if it is set, is asked every now and then; the run ends early when it
	// says so.
	Stopped func() bool
	// Keys that Loads are for; the zero value is one.
	Keys   Keys
	Faults []Fault
	// Reorder is the part of messages that take up to four delays more.
	Reorder float64
	// Drift is the most that a node's clock runs faster or slower: 1e-4 is a
	// tenth of a millisecond per second. 0 to 0.01.
	Drift float64
	// Near lets a leader and the member beside it, in one process, talk without the
	// network, as real nodes do. Without it they talk like all others.
	Near bool
	// Algorithm decides; "" is Quorate.
	Algorithm Algorithm

	// Clients are processes one level below the nodes, the same number at each: what
	// Loads and Requests ask at a node is asked of its clients. 0 is none: the nodes are asked.
	Clients int
	// Breaks is how often per second the stream of a client breaks, on average.
	Breaks float64

	// CheckpointEvery is how often a leader writes levels to the log; 0 is 750 ms.
	CheckpointEvery time.Duration
	// CommitDelay is how long the log takes to commit; 0 is 2 x Delay + 1 ms.
	CommitDelay time.Duration
	// PerEntry is how long a leader works on each entry of a report, one after the other;
	// reports wait for it meanwhile. 0 is no time.
	PerEntry time.Duration
	// MaxKeys bounds each node and each ledger; 0 is their default.
	MaxKeys int
	// Entries bounds the keys in one report, 1 to 4096: what a node tells of more of them is in
	// several, each of which may be lost. 0 is 4096.
	Entries int

	// Check makes every step of a leader prove the invariants of its books:
	// Result.Violations. What a leader answers itself is held to hard by when it
	// decided, which is kept with Check alone.
	Check bool
	// Strict proves, with Check, that all that members hold under hard is there
	// also after the first term. It is not always: what a leader booked and had not
	// written to the log when it was lost is forgotten.
	Strict bool
	// Decided is told every decision, and what the ideal said.
	Decided func(at time.Duration, node int, key string, d quota.Decision, ideal bool)
}
