package sim

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
)

// Draws is the version of [Campaign]: a seed makes another scenario in each version.
const Draws = 10

// Campaign makes a random scenario from a seed, the same one each time: limits of every kind, from
// one token a second to thousands, on 1 to 50 nodes; loads that are even, skewed, moving or bursty,
// with requests of one token, many, or a part of the burst, single or in clumps; a network that
// loses, repeats and reorders messages; clocks that differ and drift; and nodes that die, restart,
// pause, are suspended, slow, cut off or behind refused connections. Some have what more, changes and clients add. Every
// scenario can be written as a scenario file, and [Judge] plays it. A change of what is drawn must
// increment [Draws]. Campaign is not safe for concurrent use.
func Campaign(seed uint64) Scenario {
	d := draw{rand.New(rand.NewPCG(seed, 13))}
	s := Scenario{
		Seed: seed, Nodes: pick(d, 1, 2, 3, 3, 5, 5, 10, 20), Duration: time.Duration(3000+d.IntN(4000)) * time.Millisecond,
		Sync: pick[time.Duration](d, 50, 100, 100, 100, 250) * time.Millisecond, Keys: Keys{Count: 1}, Skew: -1, Check: true,
		Election: pick[time.Duration](d, 50, 300, 500, 500, 2000) * time.Millisecond, Hop: pick[time.Duration](d, 0, 20, 20) * time.Millisecond, Near: d.chance(2),
	}
	s.Near = s.Near || s.Nodes == 1 // alone, it has nobody to talk to by a network
	d.network(&s)
	d.limit(&s)
	d.loads(&s)
	draw{rand.New(rand.NewPCG(seed, 14))}.extremes(&s)
	calm := draw{rand.New(rand.NewPCG(seed, 15))}.dear(&s)
	if !d.chance(4) && !calm {
		d.faults(&s)
		draw{rand.New(rand.NewPCG(seed, 16))}.absences(&s)
	}
	draw{rand.New(rand.NewPCG(seed, 17))}.parts(&s)
	loaded := s.Duration
	if s.Limit.Endures() && d.chance(3) {
		d.outlive(&s)
	} else if d.chance(2) {
		d.tail(&s, settle)
	}
	draw{rand.New(rand.NewPCG(seed, 18))}.more(&s, loaded)
	draw{rand.New(rand.NewPCG(seed, 20))}.changes(&s, loaded)
	if d := (draw{rand.New(rand.NewPCG(seed, 21))}); d.chance(5) {
		d.clients(&s)
	}
	return s
}

// clients puts client processes below the nodes. It leaves out what accuracy.md excepts at clients: refunds to hard
// buckets, and windows of another length.
func (d draw) clients(s *Scenario) {
	s.Clients, s.Breaks = s.Nodes*pick(d, 1, 1, 2, 4, 10), pick(d, 0, 0, .1, .5)
	for i := range s.Faults {
		for k := range s.Faults[i].Tiers {
			if t := &s.Faults[i].Tiers[k]; t.Kind.Windowed() {
				t.Rate.Per = s.Limit.Tiers()[k].Rate.Per
			}
		}
	}
	if s.Limit.Ceiling == quota.Hard && !s.Limit.Kind.Windowed() {
		for i := range s.Loads {
			s.Loads[i].Refund = 0
		}
	}
}

// more adds to some scenarios large amounts, a busy leader, members that join, leaders that hand
// over, clocks that are set, changes of where the limit is decided, and nodes that read what remains.
// The faults are before until.
func (d draw) more(s *Scenario, until time.Duration) {
	moment := func() time.Duration {
		return time.Duration(100+d.IntN(int(until.Milliseconds())-100)) * time.Millisecond
	}
	if d.chance(8) && s.Limit.Kind != quota.Concurrency {
		d.bytes(s, pick[int64](d, 1e3, 1e6, 1e9))
	}
	if d.chance(6) {
		s.PerEntry = pick[time.Duration](d, 20, 100, 300, 1000) * time.Microsecond
	}
	if d.chance(6) && s.Nodes > 1 {
		for n := range 1 + d.IntN(max(1, s.Nodes/2)) {
			s.Faults = append(s.Faults, Fault{At: moment(), Kind: Join, Nodes: []int{s.Nodes - n}})
		}
	}
	if d.chance(6) && s.Nodes > 1 {
		for range 1 + d.IntN(3) {
			s.Faults = append(s.Faults, Fault{At: moment(), Kind: Move, Nodes: []int{1 + d.IntN(s.Nodes)}})
		}
	}
	if d.chance(6) {
		for range 1 + d.IntN(3) {
			f := Fault{At: moment(), Kind: Clock, Delay: pick[time.Duration](d, -5000, -1000, -400, -100, 100, 400, 1000, 5000) * time.Millisecond}
			if f.Leader = d.chance(2); !f.Leader {
				f.Nodes = d.some(s.Nodes)
			}
			s.Faults = append(s.Faults, f)
		}
	}
	if d.chance(5) && s.Keys.Count <= 1 { // nodes apply changes to their keys in an order of their own
		for range 1 + d.IntN(6) {
			d.switched(s, moment())
		}
	}
	if d.chance(3) {
		s.Loads = append(s.Loads, Load{Look: true, Rate: pick[float64](d, 5, 30, 150), Spread: d.spread(s.Nodes), Cost: 1, Clump: 1})
	}
}

// bytes multiplies the limit and the costs, which then are no round numbers.
func (d draw) bytes(s *Scenario, by int64) {
	tiers := s.Limit.Tiers()
	for _, t := range tiers {
		if max(t.Burst, t.Rate.Tokens) > quota.MaxTokens/100/by {
			return // the sum of all admissions must be countable too
		}
	}
	for i := range tiers {
		tiers[i].Burst *= by
		tiers[i].Rate.Tokens *= by
	}
	s.Limit.SetFirst(tiers[0])
	s.Limit.More = tiers[1:]
	for i := range s.Loads {
		l := &s.Loads[i]
		l.Cost = l.Cost*by - d.Int64N(by/2)
	}
}

// switched changes where the limit is decided, if that is possible.
func (d draw) switched(s *Scenario, at time.Duration) {
	l := s.Limit
	if l.Decide = pick(d, quota.Decides()...); l.MaxDebt == 0 && l.Validate() == nil {
		s.Faults = append(s.Faults, Fault{At: at, Kind: Switch, Decide: l.Decide})
	}
}

// draw is the source of a scenario's random choices.
type draw struct{ *rand.Rand }

func pick[T any](d draw, v ...T) T { return v[d.IntN(len(v))] }

// chance returns true once in n times.
func (d draw) chance(n int) bool { return d.IntN(n) == 0 }

func (d draw) network(s *Scenario) {
	s.Delay = pick[time.Duration](d, 0, 100, 1000, 1000, 5000, 30000) * time.Microsecond
	s.Jitter = pick[time.Duration](d, 0, 0, 200, 1000, 10000, 50000) * time.Microsecond
	s.Loss = pick(d, 0, 0, .01, .05, .1)
	s.Repeat = pick(d, 0, 0, .05, .2)
	s.Reorder = pick(d, 0, 0, .05)
	s.Drift = pick(d, 0, 0, 1e-4, 9e-4)
}

// limit draws a limit of any kind, most often a bucket.
func (d draw) limit(s *Scenario) {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "sim", Limit: "limit"}, Ceiling: pick(d, quota.Soft, quota.Hard)}
	switch d.IntN(12) {
	case 0:
		l.SetFirst(d.window(quota.FixedWindow))
	case 1:
		l.SetFirst(d.window(quota.SlidingWindow))
	case 2:
		l.SetFirst(d.window(quota.PeriodicRefill))
	case 3:
		l.SetFirst(quota.Per(pick[int64](d, 60, 600, 3000), quota.Calendar{Unit: quota.Minute}))
		s.Duration = 22 * time.Second // a minute ends at 20 s
	case 4:
		l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: 200, Per: time.Second}, Burst: pick[int64](d, 20, 200)})
		l.More = []quota.Tier{quota.Window(quota.FixedWindow, 500, 5*time.Second)}
	case 5:
		l.SetFirst(quota.Window(quota.FixedWindow, 100, time.Second))
		l.More = []quota.Tier{quota.Window(quota.SlidingWindow, 200, 3*time.Second)}
	case 6:
		l.SetFirst(quota.Tier{Kind: quota.Concurrency, Burst: pick[int64](d, 5, 20, 100)})
		s.Hold = pick[time.Duration](d, 50, 200, 1000) * time.Millisecond
	case 7:
		l.SetFirst(quota.Window(quota.FixedWindow, pick[int64](d, 200, 1_000_000), 24*time.Hour))
	default:
		d.bucket(s, &l)
	}
	s.Limit = l
}

func (d draw) window(k quota.Kind) quota.Tier {
	return quota.Window(k, pick[int64](d, 5, 20, 100, 500), pick(d, time.Second, 2*time.Second, 4*time.Second))
}

// bucket draws a token bucket. It may be decided by its leader, let callers wait, be durable, have
// many keys, or have clocks that differ.
func (d draw) bucket(s *Scenario, l *quota.Limit) {
	rate := pick[int64](d, 1, 2, 5, 10, 50, 100, 100, 300, 1000)
	l.SetFirst(quota.Tier{Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: max(1, rate*pick[int64](d, 1, 5, 10, 10, 20, 50)/10)})
	switch d.IntN(8) {
	case 0:
		l.Decide = quota.AtLeader
	case 1:
		l.Ceiling, l.MaxWait, l.MaxDebt = quota.Soft, time.Second, 2*time.Second
	case 2:
		l.Durable = true
	case 3:
		s.Keys = Keys{Count: pick(d, 20, 1000), Zipf: pick(d, 0, 1.1)}
	case 4:
		l.Decide = pick(d, quota.Auto, quota.Locally)
	}
	s.Skew = pick(d, -1, leader.MaxOffset, 20*time.Millisecond, time.Hour)
}

// most bounds the requests of a scenario, so that many scenarios can be played.
const most = 15_000

func (d draw) loads(s *Scenario) {
	per, plain := perSecond(s), d.chance(2) // one token at a time, in no clumps
	for range 1 + d.IntN(3) {
		l := Load{Rate: per * pick(d, .3, .8, 1, 3, 3, 10, 20), Clump: pick(d, 1, 1, 1, 5, 20), Cost: min(pick[int64](d, 1, 1, 1, 2, 5), s.Limit.Burst)}
		if plain {
			l.Clump, l.Cost = 1, 1
		}
		if l.Rate *= pick(d, 1, 1/float64(l.Cost)); l.Rate*s.Duration.Seconds() > most/3 {
			l.Rate = most / 3 / s.Duration.Seconds()
		}
		l.Rate = max(1, math.Round(60*l.Rate)) / 60 // as a file can say it
		if d.chance(3) {
			l.From = time.Duration(d.IntN(2000)) * time.Millisecond
		}
		if d.chance(3) {
			l.On, l.Off = time.Duration(100+d.IntN(900))*time.Millisecond, time.Duration(100+d.IntN(900))*time.Millisecond
		}
		l.Spread = d.spread(s.Nodes)
		s.Loads = append(s.Loads, l)
	}
}

// extremes adds hard cases to some scenarios: many nodes, a burst below what the rate yields
// between two reports, large clumps, expensive requests, a hot spot, a surge after an idle time.
func (d draw) extremes(s *Scenario) {
	if d.chance(60) {
		s.Nodes = 50
	}
	if l := &s.Limit; l.Kind == quota.TokenBucket && len(l.More) == 0 && d.chance(8) {
		t := l.First()
		t.Burst = max(1, int64(rateOf(l)*s.Sync.Seconds()/2))
		l.SetFirst(t)
		for i := range s.Loads {
			s.Loads[i].Cost = min(s.Loads[i].Cost, t.Burst)
		}
	}
	l := &s.Loads[d.IntN(len(s.Loads))]
	switch d.IntN(12) {
	case 0:
		l.Clump = pick(d, 10, 50, 100)
	case 1:
		l.Cost = min(pick[int64](d, 10, 20, 50), s.Limit.Burst)
	case 2:
		l.Spread = Spread{Moving: time.Duration(50+d.IntN(950)) * time.Millisecond}
	case 3:
		l.From, l.Rate = s.Duration/2, max(l.Rate, math.Round(60*min(20*perSecond(s), most/3/s.Duration.Seconds()))/60)
	}
}

// dear adds to half of the scenarios requests that cost a large part of the burst: often more than
// a node holds, and as much as its estimate of the level. Some of these scenarios have one node and
// no failures (calm), where the bound is smallest, and begin with a bucket of many seconds, so that
// requests of all costs can pass.
func (d draw) dear(s *Scenario) (calm bool) {
	if d.chance(2) || s.Limit.Burst < 2 {
		return false
	}
	if calm = d.chance(4); calm {
		s.Nodes, s.Near, s.Loss, s.Repeat, s.Reorder = 1, true, 0, 0, 0
		for i := range s.Loads {
			s.Loads[i].Spread = Spread{}
		}
		if l := &s.Limit; l.Kind == quota.TokenBucket && len(l.More) == 0 {
			t := l.First()
			t.Burst = max(t.Burst, t.Rate.Tokens*pick[int64](d, 5, 10, 30))
			l.SetFirst(t)
		}
	}
	for range pick(d, 1, 2, 3) {
		s.Loads = append(s.Loads, dear(d, s, perSecond(s)))
	}
	return calm
}

// dear draws a load of requests that cost a part of the burst or all of it, and in total a fraction
// or a multiple of what the limit admits.
func dear(d draw, s *Scenario, perSecond float64) Load {
	l := Load{Cost: max(2, s.Limit.Burst*pick[int64](d, 3, 10, 20, 35, 50, 75, 100)/100)}
	l.Rate = max(1, math.Round(60*perSecond*pick(d, .3, 1, 3, 10, 30)/float64(l.Cost))) / 60
	l.Spread = d.spread(s.Nodes)
	return l
}

func (d draw) spread(nodes int) Spread {
	switch d.IntN(5) {
	case 0:
		return Spread{Skew: pick(d, .5, .9)}
	case 1:
		return Spread{Moving: time.Duration(200+d.IntN(600)) * time.Millisecond}
	case 2:
		return Spread{Nodes: []int{1 + d.IntN(nodes)}}
	}
	return Spread{}
}

// perSecond returns about what a limit admits per second in the long run.
func perSecond(s *Scenario) float64 {
	switch l := &s.Limit; {
	case l.Kind == quota.Concurrency:
		return float64(l.Burst) / s.Hold.Seconds()
	case l.Rate.Per > time.Minute: // what fills it, or does not, while it is watched
		return min(float64(l.Burst)/4, 200)
	default:
		return float64(l.Rate.Tokens) / l.Rate.Per.Seconds()
	}
}

func (d draw) faults(s *Scenario) {
	for range 1 + d.IntN(4) {
		s.Faults = append(s.Faults, d.fault(s))
	}
}

func (d draw) fault(s *Scenario) Fault {
	f := Fault{
		At:   time.Duration(100+d.IntN(int(s.Duration.Milliseconds())-100)) * time.Millisecond,
		Kind: pick(d, Kill, Kill, Kill, Stop, Pause, Pause, Partition, Partition, Slow, Heal),
	}
	if f.Kind == Partition && s.Nodes == 1 {
		f.Kind = Pause // there is nobody to part from
	}
	if f.Kind == Heal {
		return f
	}
	f.For = time.Duration(d.IntN(5)) * 500 * time.Millisecond
	if f.Kind == Slow {
		f.Delay = time.Duration(1+d.IntN(40)) * time.Millisecond
	}
	if f.Kind == Partition {
		f.Groups = [][]int{d.some(s.Nodes)}
		return f
	}
	if f.Leader = d.chance(2); !f.Leader {
		f.Nodes = d.some(s.Nodes)
	}
	return f
}

// absences adds suspended machines, for less or more than a lease, and nodes behind refused
// connections to half of the scenarios with several faults.
func (d draw) absences(s *Scenario) {
	if len(s.Faults) < 2 || !d.chance(2) {
		return
	}
	for range 1 + d.IntN(2) {
		f := Fault{
			At:   time.Duration(100+d.IntN(int(s.Duration.Milliseconds())-100)) * time.Millisecond,
			Kind: pick(d, Suspend, Refuse), For: pick[time.Duration](d, 300, 1000, 2000, 3500, 5000) * time.Millisecond,
		}
		if f.Leader = d.chance(3); !f.Leader {
			f.Nodes = d.some(s.Nodes)
		}
		s.Faults = append(s.Faults, f)
		s.Duration = max(s.Duration, min(f.At+f.For+time.Second, 12*time.Second))
	}
}

// parts splits reports of many keys in half of the scenarios with many keys. It removes jitter and
// reordering, because the reports of one node arrive in order, as on a connection; otherwise most
// would be stale.
func (d draw) parts(s *Scenario) {
	if s.Keys.Count > 1 && d.chance(2) {
		s.Entries, s.Jitter, s.Reorder = pick(d, 3, 10, 50), 0, 0
	}
}

// some returns one or several nodes, but not all unless there is only one.
func (d draw) some(nodes int) []int {
	n := 1
	if nodes > 2 && d.chance(3) {
		n += d.IntN(nodes - 1)
	}
	all := d.Perm(nodes)[:n]
	for i := range all {
		all[i]++
	}
	return all
}

// outlive ends all faults long before the end of the scenario: then everything that was counted
// must equal the answers that callers received.
func (d draw) outlive(s *Scenario) {
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind != Heal {
			f.For = time.Duration(200+d.IntN(2000)) * time.Millisecond
		}
	}
	d.tail(s, 14*time.Second)
}

// tail extends a scenario without load.
func (d draw) tail(s *Scenario, by time.Duration) {
	for i := range s.Loads {
		s.Loads[i].To = s.Duration
	}
	s.Duration += by
}
