// Command scale plays large clusters in the simulator, doubles nodes, keys and traffic
// one at a time, and prints what members send beside what the cost model of
// docs/performance.md foresees.
//
//	go run ./cmd/scale                                     a minute or two
//	go run ./cmd/scale -nodes 1000 -keys 1000000 -double=false
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/suite"
)

// shape is one cluster and its traffic.
type shape struct {
	what        string
	nodes, keys int
	rate        float64 // requests per second at each node
	duration    time.Duration
}

const (
	skew = 1.1
	sync = 100 * time.Millisecond
)

func main() {
	nodes := flag.Int("nodes", 50, "nodes of the first cluster")
	keys := flag.Int("keys", 100_000, "keys, Zipf 1.1")
	rate := flag.Float64("rate", 100, "requests per second at each node")
	duration := flag.Duration("duration", 3*time.Second, "simulated time")
	double := flag.Bool("double", true, "then double each of them, one at a time")
	flag.Parse()
	if *nodes < 1 || *keys < 2 || *rate <= 0 || *duration <= 0 {
		fmt.Fprintln(os.Stderr, "scale: -nodes must be at least 1, -keys at least 2, -rate and -duration above 0")
		os.Exit(2)
	}
	base := shape{"", *nodes, *keys, *rate, *duration}
	shapes := []shape{base}
	if *double {
		for f := 2; f <= 4; f *= 2 {
			n, k, r := base, base, base
			n.what, n.nodes = fmt.Sprintf("nodes x %d", f), n.nodes*f
			k.what, k.keys = fmt.Sprintf("keys x %d", f), k.keys*f
			r.what, r.rate = fmt.Sprintf("traffic x %d", f), r.rate*float64(f)
			shapes = append(shapes, n, k, r)
		}
	}
	fmt.Println("| | nodes | keys | requests/s a node | entries/s a node | model | ratio | reports/s a node | bytes/s a node | bytes an entry | entries/s all leaders | CPU us a request, simulator with it | heap |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, s := range shapes {
		play(s)
	}
}

// model is how many keys a node reports in a second: those that were asked for since
// their last report.
func (s shape) model() float64 {
	sum := 0.0
	for k := range s.keys {
		sum += math.Pow(float64(k+1), -skew)
	}
	entries := 0.0
	for k := range s.keys {
		perSync := s.rate * math.Pow(float64(k+1), -skew) / sum * sync.Seconds()
		entries += 1 - math.Exp(-perSync)
	}
	return entries / sync.Seconds()
}

func play(s shape) {
	began := cpu()
	r := sim.Run(sim.Scenario{
		Seed: 1, Nodes: s.nodes, Duration: s.duration, Delay: time.Millisecond, Near: true, Sync: sync,
		Limit: quota.Limit{
			LimitName: quota.LimitName{Namespace: "scale", Limit: "l"},
			Rate:      quota.Rate{Tokens: 1000, Per: time.Second}, Burst: 1000,
		},
		Keys: sim.Keys{Count: s.keys, Zipf: skew}, MaxKeys: 10_000_000,
		Loads: []sim.Load{{Rate: s.rate * float64(s.nodes)}},
	})
	used := cpu() - began
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	per := func(n int64) float64 { return float64(n) / r.NodeSeconds }
	n := suite.Number
	fmt.Printf("| %s | %s | %s | %s | %s | %s | %.2f | %s | %s | %s | %s | %s | %s MB |\n", s.what, n(float64(s.nodes)), n(float64(s.keys)), n(s.rate),
		n(per(r.Entries)), n(s.model()), per(r.Entries)/s.model(), n(per(r.Reports)), n(per(r.Bytes)), n(float64(r.Bytes)/float64(max(r.Entries, 1))),
		n(per(r.Entries)*float64(s.nodes)), n(float64(used.Microseconds())/float64(max(r.Attempted, 1))), n(float64(m.Sys>>20)))
}

func cpu() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
