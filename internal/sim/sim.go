package sim

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

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
	rival      rival // nil for the real algorithm
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
	r.rival = newRival(r)
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
	keys := s.ledger.Rates(now+s.node.skew, 1, func(quota.LimitName) bool { return true })
	if len(keys) == 0 {
		s.booked, s.last = s.booked+s.last, 0
		return
	}
	s.last = keys[0].Admitted // less than before if a question was abandoned
}

func (r *run) at(t quota.Time, f func()) {
	r.n++
	heap.Push(&r.events, event{max(t, r.now), r.n, f})
}

func (r *run) after(d time.Duration, f func()) { r.at(r.now.Add(d), f) }
