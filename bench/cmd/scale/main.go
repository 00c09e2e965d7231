// Command scale simulates large clusters. It doubles nodes, keys, traffic and ranges one at a time,
// and prints the work of members and leaders and its processor time, beside the predictions of the
// cost model in docs/performance/README.md.
//
//	go run ./cmd/scale                                     a minute or two
//	go run ./cmd/scale -nodes 1000 -keys 1000000 -ranges 64 -double=false
//	go run ./cmd/scale -real 24                            clusters of real nodes, each a process
//	go run ./cmd/scale -lead 1000000                       a real node that leads a million keys, and its successors
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/scale"
	"github.com/quorate/quorate/bench/suite"
	"github.com/quorate/quorate/internal/quota"
)

func main() {
	nodes := flag.Int("nodes", 50, "nodes of the first cluster")
	keys := flag.Int("keys", 100_000, "keys, Zipf 1.1")
	ranges := flag.Int("ranges", 4, "ranges, each led by a node of its own")
	rate := flag.Float64("rate", 100, "requests per second at each node")
	limit := flag.Int64("limit", 1000, "tokens per second for each key, and its burst")
	warm := flag.Duration("warm-up", 2*time.Second, "simulated time before what is counted")
	duration := flag.Duration("duration", 4*time.Second, "simulated time that is counted")
	double := flag.Bool("double", true, "then double each of them, twice, one at a time")
	real := flag.Int("real", 0, "start real nodes instead, 3 and then twice as many, up to that `number`, each asked at -rate")
	led := flag.Int("lead", 0, "start three real nodes instead, of which one leads that `number` of keys, and take its leaderships away; with 1000000 it takes eight minutes and 4 GB")
	flag.Parse()
	if *led > 0 {
		if err := playLead(context.Background(), *led); err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
			os.Exit(1)
		}
		return
	}
	if *real > 0 {
		if err := playReal(context.Background(), *real, *rate, 10*time.Second); err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
			os.Exit(1)
		}
		return
	}
	base := scale.Shape{
		Nodes: *nodes, Keys: *keys, Ranges: *ranges, Rate: *rate, Zipf: 1.1, Seed: 1,
		Sync: 100 * time.Millisecond, Delay: time.Millisecond, WarmUp: *warm, Duration: *duration,
		Limit: quota.Limit{
			LimitName: quota.LimitName{Namespace: "api", Limit: "per_tenant"},
			Rate:      quota.Rate{Tokens: *limit, Per: time.Second}, Burst: *limit,
		},
	}
	if base.Nodes < 1 || base.Keys < 2 || base.Ranges < 1 || base.Ranges > 256 || base.Rate <= 0 || base.Duration <= 0 || base.WarmUp < 0 || *limit < 1 {
		fmt.Fprintln(os.Stderr, "scale: -nodes and -limit must be at least 1, -keys at least 2, -ranges 1 to 256, -rate and -duration above 0, -warm-up not below 0")
		os.Exit(2)
	}
	runtime.LockOSThread()
	fmt.Println(head)
	play("", base)
	if !*double {
		return
	}
	for f := 2; f <= 4; f *= 2 {
		n, k, r, t := base, base, base, base
		n.Nodes *= f
		k.Keys *= f
		r.Ranges *= f
		t.Rate *= float64(f)
		play(fmt.Sprintf("nodes x %d", f), n)
		play(fmt.Sprintf("keys x %d", f), k)
		play(fmt.Sprintf("ranges x %d", f), r)
		play(fmt.Sprintf("traffic x %d", f), t)
	}
}

const head = `| | nodes | keys | ranges | requests/s a node | entries/s a node | by the model | frames/s a node | by the model | bytes/s a node | bytes an entry | entries/s a leader | nodes that hold its key | member, µs an entry | leader, µs an entry | a member's core | a leader's core | simulated in, memory |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|`

func play(what string, s scale.Shape) {
	began := time.Now()
	r := scale.Play(s)
	took := time.Since(began)
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &use) // its peak is that of all shapes so far
	seconds := s.Duration.Seconds()
	node, leader := seconds*float64(s.Nodes), seconds*float64(min(s.Nodes, s.Ranges))
	entries := float64(r.Entries) / node
	bytes := float64(r.ReportBytes + r.GrantBytes)
	n := suite.Number
	us := func(d time.Duration, entries int64) string {
		return fmt.Sprintf("%.2f", float64(d.Nanoseconds())/1e3/float64(max(entries, 1)))
	}
	core := func(d time.Duration, among float64) string { return fmt.Sprintf("%.2f %%", 100*d.Seconds()/among) }
	cells := []string{
		what, n(float64(s.Nodes)), n(float64(s.Keys)), n(float64(s.Ranges)), n(float64(r.Requests) / node),
		n(entries), n(s.Entries()),
		n(float64(r.Frames) / node), n(s.Frames()), n(bytes / node), n(bytes / float64(max(r.Entries, 1))),
		n(float64(r.Booked) / leader), n(s.Holders()), us(r.Member, r.Entries), us(r.Leader+r.Tend, r.Booked),
		core(r.Member, node), core(r.Leader+r.Tend, leader),
		fmt.Sprintf("%v, %s MiB", took.Round(100*time.Millisecond), n(float64(use.Maxrss>>10))),
	}
	fmt.Println("| " + strings.Join(cells, " | ") + " |")
}
