package sim

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Scenario is one run.
type Scenario struct {
	Seed     uint64
	Nodes    int
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
}

// Result compares a run with the ideal. Amounts are tokens.
type Result struct {
	Attempted, Admitted, Ideal int64
	// Over and Under count decisions that differ from the ideal's.
	Over, Under int64
	// Excess is the most that was admitted beyond burst + rate x time over any
	// stretch of the run; of a windowed limit, beyond the count of any window of
	// any tier.
	Excess float64
	// Waits is the sum of what callers were told to wait, and IdealWaits what the
	// ideal would have told them.
	Waits, IdealWaits time.Duration
	// Asked counts questions to the leader.
	Asked   int64
	Reports int64
	// Lost is what the members admitted and no leader has booked at the end,
	// less what was booked twice. Only runs whose load ends a few seconds
	// before them, and without a killed leader, know it exactly.
	Lost int64
	// Learned is how long it took from the death of the last killed leader
	// until its successor had learned.
	Learned time.Duration
	// Outage counts what was asked for and what was admitted from a leader's
	// death until its successor had learned.
	OutageAttempted, OutageAdmitted int64
}

// Error is (admitted - ideal) / ideal.
func (r Result) Error() float64 { return float64(r.Admitted-r.Ideal) / math.Max(1, float64(r.Ideal)) }

const epoch = quota.Time(1_000_000_000_000_000_000)

// run is a scenario under way.
type run struct {
	Scenario
	rng        *rand.Rand
	now        quota.Time
	events     events
	n          uint64
	nodes      []*node
	seats      []seat     // one per term, the last is the newest
	killed     quota.Time // when the last leader died; 0 when its successor has learned
	killedTerm quota.Term // its term
	saved      map[quota.Key]quota.KeyLevel
	limits     *quota.Limits
	ideal      ideal
	envelop    envelope
	inFlight   float64
	res        Result
}

// seat is the leadership of one term.
type seat struct {
	ledger *leader.Ledger // nil when the leader is dead
	node   *node
	booked int64 // admitted in accounts that the ledger has dropped since
	last   int64 // admitted in the open account, when last seen
}

type node struct {
	agg    *aggregator.Aggregator
	id     quota.NodeID
	skew   quota.Time // its clock minus the true one
	dead   bool
	wakeAt quota.Time
	parked []parked
}

// parked is a check that waits for a grant.
type parked struct{ until quota.Time }

// Run plays the scenario.
func Run(s Scenario) Result {
	r := &run{Scenario: s, rng: rand.New(rand.NewPCG(s.Seed, 1)), now: epoch, saved: map[quota.Key]quota.KeyLevel{}}
	if r.Sync == 0 {
		r.Sync = 100 * time.Millisecond
	}
	if r.Skew == 0 {
		r.Skew = time.Hour
	}
	if r.Election == 0 {
		r.Election = 500 * time.Millisecond
	}
	r.limits, _ = quota.NewLimits(1, []quota.Limit{s.Limit})
	r.ideal, r.envelop = newIdeal(&s.Limit, r.now), newEnvelope(&s.Limit, r.now)
	r.start()
	end := epoch.Add(s.Duration)
	for len(r.events) > 0 && r.events[0].at <= end {
		e := heap.Pop(&r.events).(event)
		r.now = e.at
		e.f()
	}
	r.res.Lost = r.res.Admitted
	for i := range r.seats {
		r.seats[i].look(r.now)
		r.res.Lost -= r.seats[i].booked + r.seats[i].last
	}
	return r.res
}

// look notes what the ledger has booked. An account that was dropped and
// opened again counts from 0; accounts are dropped by sweep only.
func (s *seat) look(now quota.Time) {
	if s.ledger == nil {
		return
	}
	seen := int64(0)
	for _, k := range s.ledger.Rates(now+s.node.skew, 1, func(quota.LimitName) bool { return true }) {
		seen = k.Admitted
	}
	if seen < s.last {
		s.booked += s.last
	}
	s.last = seen
}

func (r *run) at(t quota.Time, f func()) {
	r.n++
	heap.Push(&r.events, event{max(t, r.now), r.n, f})
}

func (r *run) after(d time.Duration, f func()) { r.at(r.now.Add(d), f) }
