package scenario

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// Bounds of a scenario. Every one that a file exceeds is a fault.
const (
	MaxDocuments = 1000
	MaxNodes     = 1000
	MaxClients   = 100_000
	MaxDuration  = 24 * time.Hour
	MaxKeys      = 10_000_000
	MaxEntries   = 4096
	MaxZipf      = 10
	MaxLoads     = 1000
	MaxFaults    = 10_000
	MaxSeeds     = 10_000
	MaxDelay     = 10 * time.Second // of the network, and of what slows it
	MaxHop       = 10 * time.Second
	MaxElection  = time.Minute
	MaxSkew      = time.Hour
	MaxDrift     = 0.01
	MaxClump     = 1_000_000
	MaxHold      = time.Hour
	MinSync      = 10 * time.Millisecond
	MaxSync      = 10 * time.Second
	MaxSwept     = 100  // values of one field
	MaxText      = 1000 // bytes of a description
	// MaxRate is the most requests per second of one load.
	MaxRate = 10_000_000
	// MaxRequests is how many arrivals a scenario may expect in all: about an
	// hour's work.
	MaxRequests = 1e9
)

// Defaults of what a file leaves out.
const (
	DefaultSync     = 100 * time.Millisecond
	DefaultDelay    = time.Millisecond
	DefaultHop      = 20 * time.Millisecond // what a node waits for a grant
	DefaultElection = 500 * time.Millisecond
)

// Scenario is one document of a scenario file. It is valid as [Parse] returns
// it, and is not changed by [Scenario.Run].
type Scenario struct {
	Source      string // the file
	Line        int    // where it begins
	Index, Of   int    // which document of the file, from 0, of how many
	Name        string // never empty; of a sweep with what is swept, such as above-n50-c10
	Base        string // without that
	SweptNodes  bool   // the number of nodes is one of a sweep
	Description string

	Seeds      []uint64        // at least one
	Algorithms []sim.Algorithm // at least one; each can play the limit

	Duration time.Duration
	Nodes    int
	Clients  int // processes one level below the nodes, of all; 0 is none
	Sync     time.Duration
	Network  Network
	Keys     sim.Keys
	Entries  int // the most keys in one report; 0 is MaxEntries
	Limit    quota.Limit
	Loads    []sim.Load
	Faults   []sim.Fault

	Hop      time.Duration // how long a check may wait for a grant; 0 is not at all
	Hold     time.Duration // how long what is in flight is held, on average
	Election time.Duration
	Skew     time.Duration // the most that a clock differs; 0 is none
	Drift    float64       // the most that a clock is too fast or too slow, as a part

	Near bool // a leader and the member beside it talk without the network

	Expect []Bound // a run that breaks one is a failure
	Target []Bound // what is aimed at beyond that, and not expected yet
}

// Network is what is between any two nodes. Delay is one way; Jitter is uniform
// on top of it. The others are parts of the messages, from 0 to 1.
type Network struct {
	Delay, Jitter            time.Duration
	Loss, Duplicate, Reorder float64
}

// Requests is how many arrivals are expected.
func (s *Scenario) Requests() float64 {
	sum := 0.0
	for _, l := range s.Loads {
		to := l.To
		if to == 0 {
			to = s.Duration
		}
		active := (to - l.From).Seconds()
		if l.On > 0 {
			active *= float64(l.On) / float64(l.On+l.Off)
		}
		sum += l.Rate * active
	}
	return sum
}

// perSecond is the limit as tokens per second, in the long run: of the strictest
// tier.
func perSecond(l *quota.Limit, hold time.Duration) float64 {
	least := 0.0
	for i, t := range l.Tiers() {
		per := float64(t.Rate.Tokens) / max(t.Rate.Per.Seconds(), 1e-9)
		if t.Kind == quota.Concurrency {
			per = float64(t.Burst) / max(hold.Seconds(), 1e-9)
		}
		if i == 0 || per < least {
			least = per
		}
	}
	return least
}
