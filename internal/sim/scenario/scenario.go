package scenario

import (
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// Bounds of a scenario. A file that exceeds one is invalid.
const (
	MaxDocuments = 1000
	MaxNodes     = 1000
	MaxClients   = 100_000
	MaxDuration  = 24 * time.Hour
	MaxKeys      = 10_000_000
	MaxEntries   = 4096
	MaxService   = time.Second
	MaxZipf      = 10
	MaxLoads     = 1000
	MaxFaults    = 10_000
	MaxSeeds     = 10_000
	MaxDelay     = 10 * time.Second // of the network and of slow faults
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
	// MaxRequests bounds the expected arrivals of a scenario: about an hour of computation.
	MaxRequests = 1e9
)

// Defaults of missing fields.
const (
	DefaultSync     = 100 * time.Millisecond
	DefaultDelay    = time.Millisecond
	DefaultHop      = 20 * time.Millisecond // wait for a grant
	DefaultElection = 500 * time.Millisecond
)

// Scenario is one document of a scenario file. It is valid if it comes from [Parse]; [Scenario.Run]
// does not change it.
type Scenario struct {
	Source      string // file
	Line        int    // first line
	Index, Of   int    // index of the document in the file, and number of documents
	Name        string // never empty; for a sweep with the swept values, such as above-n50-c10
	Base        string // name without swept values
	SweptNodes  bool   // the number of nodes is swept
	Description string

	Seeds      []uint64        // at least one
	Algorithms []sim.Algorithm // at least one; all can play the limit

	Duration time.Duration
	Nodes    int
	Clients  int     // number of client processes in total; may be 0
	Breaks   float64 // how often the stream of each of them breaks, per second
	Sync     time.Duration
	Network  Network
	Keys     sim.Keys
	Entries  int           // most keys in one report; 0 is the default of a node
	Service  time.Duration // a leader's time for each entry of a report and each decide request
	Limit    quota.Limit
	Loads    []sim.Load
	Faults   []sim.Fault

	Hop      time.Duration // longest wait of a check for a grant; 0 means no wait
	Hold     time.Duration // average time that an acquisition is held
	Election time.Duration
	Skew     time.Duration // largest difference of a clock; 0 means no difference
	Drift    float64       // largest deviation of a clock's speed, as a fraction

	Near bool // a leader and the member in its process talk without the network

	Expect []Bound // bounds that every run must keep
	Target []Bound // bounds to aim at, not required yet
}

// Network is the network between any two nodes. Delay is one way; Jitter is uniform on top of it.
// The others are fractions of the messages, from 0 to 1.
type Network struct {
	Delay, Jitter            time.Duration
	Loss, Duplicate, Reorder float64
}

// Requests returns the expected number of arrivals.
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

// perSecond returns the limit in tokens per second, in the long run, of the strictest tier.
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
