package scale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Shape is a cluster and its traffic.
type Shape struct {
	Nodes  int
	Ranges int     // 1 to 256; each is led by a node of its own as long as there are nodes
	Keys   int     // to choose from, of 24 bytes
	Zipf   float64 // their exponent, above 1
	Rate   float64 // requests per second at each node, Poisson
	Limit  quota.Limit
	Sync   time.Duration
	Delay  time.Duration // of a message between two nodes
	// WarmUp is played before Duration, and not counted.
	WarmUp, Duration time.Duration
	Seed             uint64
}

// cluster is a shape under way.
type cluster struct {
	Shape
	now     quota.Time
	end     quota.Time
	events  events
	rng     *rand.Rand
	pick    *zipf
	names   []string
	members []*member
	index   map[quota.NodeID]*member
	leaders []*member // of the ranges
	clock   aggregator.Clock
	res     Result
	over    time.Duration // what reading the processor's clock takes
}

const epoch = quota.Time(1_000_000_000_000_000_000)

// Play plays the shape. The same shape gives the same counts; times are measured. It
// must be called from a thread that nothing else runs on: see runtime.LockOSThread.
func Play(s Shape) Result {
	c := &cluster{
		Shape: s, now: epoch, rng: rand.New(rand.NewPCG(s.Seed, 1)), pick: newZipf(s.Keys, s.Zipf),
		names: make([]string, s.Keys+1), index: map[quota.NodeID]*member{}, over: readingTakes(),
	}
	c.clock = func() quota.Time { return c.now }
	c.start()
	warm := epoch.Add(s.WarmUp)
	c.end = warm.Add(s.Duration)
	c.until(warm)
	c.res = Result{}
	c.until(c.end)
	c.finish()
	return c.res
}

func (c *cluster) start() {
	limits, err := quota.NewLimits(1, []quota.Limit{c.Limit})
	if err != nil {
		panic(err) // of who wrote the shape
	}
	ids := make([]quota.NodeID, c.Nodes)
	for i := range ids {
		ids[i] = quota.NodeID(fmt.Sprintf("n%04d", i+1))
	}
	for i, id := range ids {
		m := &member{c: c, id: id, ledgers: map[quota.RangeID]*leader.Ledger{}}
		m.agg = aggregator.New(aggregator.Config{Self: id, Incarnation: 1, Nodes: c.Nodes, Ranges: c.Ranges, Sync: c.Sync}, c.now-quota.Time(c.rng.Int64N(int64(c.Sync))))
		m.agg.SetLimits(c.now, limits)
		c.members = append(c.members, m)
		c.index[id] = m
		c.at(c.spread(i), func() { m.sweep() })
	}
	for r := range c.Ranges {
		m := c.members[r%c.Nodes]
		m.ledgers[quota.RangeID(r)] = leader.New(leader.Config{Sync: c.Sync}, quota.RangeID(r), 1, m.id, ids, limits, nil, c.now)
		c.leaders = append(c.leaders, m)
		c.at(c.spread(r), func() { m.tend(quota.RangeID(r)) })
		for _, o := range c.members {
			o.agg.SetLeader(quota.RangeID(r), m.id, 1)
		}
	}
	c.arrive()
}

// spread is a moment of the next second: timers of processes are not in step.
func (c *cluster) spread(i int) quota.Time {
	const step = 0.618034 // the golden section keeps them apart
	part := math.Mod(float64(i+1)*step, 1)
	return c.now.Add(time.Duration(part * float64(time.Second)))
}

// arrive plays the requests: one Poisson process over all nodes.
func (c *cluster) arrive() {
	gap := time.Duration(c.rng.ExpFloat64() / (c.Rate * float64(c.Nodes)) * float64(time.Second))
	c.at(c.now.Add(gap), func() {
		m := c.members[c.rng.IntN(c.Nodes)]
		m.request(c.name(c.pick.draw(c.rng)))
		c.arrive()
	})
}

func (c *cluster) name(k int) string {
	if c.names[k] == "" {
		c.names[k] = fmt.Sprintf("tenant-%017d", k)
	}
	return c.names[k]
}

func (c *cluster) leaderOf(r quota.RangeID) *member { return c.leaders[r] }

func (c *cluster) until(end quota.Time) {
	for len(c.events.heap) > 0 && c.events.heap[0].at <= end {
		e := c.events.pop()
		c.now = e.at
		e.f()
	}
	c.now = end
}

func (c *cluster) at(t quota.Time, f func()) { c.events.push(max(t, c.now), f) }
