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

// Shape describes a cluster and its traffic.
type Shape struct {
	Nodes  int
	Ranges int     // 1 to 256; each has its own leader as long as there are enough nodes
	Keys   int     // number of keys, of 24 bytes each
	Zipf   float64 // exponent of the distribution of keys, above 1
	Rate   float64 // requests per second at each node, Poisson
	Limit  quota.Limit
	Sync   time.Duration
	Delay  time.Duration // of a message between two nodes
	// WarmUp comes before Duration, and is not counted.
	WarmUp, Duration time.Duration
	Seed             uint64
}

// cluster is a running simulation of a shape.
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
	leaders []*member // by range
	clock   aggregator.Clock
	res     Result
	over    time.Duration // the cost of reading the processor's clock
}

const epoch = quota.Time(1_000_000_000_000_000_000)

// Play simulates the shape. The same shape gives the same counts; times are measured. The caller
// must lock its goroutine to a thread, see runtime.LockOSThread.
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
		panic(err) // an invalid shape
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

// spread returns a moment within the next second, because timers of different processes are not in
// step.
func (c *cluster) spread(i int) quota.Time {
	const step = 0.618034 // the golden ratio spreads them evenly
	part := math.Mod(float64(i+1)*step, 1)
	return c.now.Add(time.Duration(part * float64(time.Second)))
}

// arrive generates the requests: one Poisson process over all nodes.
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
