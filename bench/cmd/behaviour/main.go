// Command behaviour exposes three real nodes to what is known to upset distributed limiters, and
// prints what was admitted: a burst on a fresh key, the death of a node, its return, and a fourth
// node.
//
//	go run ./cmd/behaviour
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/process"
)

// The window is longer than the whole run.
const limits = `version: 1
namespaces:
  b:
    limits:
      soft: {limit: 100, per: 1h}
      hard: {limit: 100, per: 1h, ceiling: hard}
      counted: {limit: 10, per: 1h}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx)
	process.Cleanup()
	if err != nil {
		fmt.Fprintln(os.Stderr, "behaviour:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	c, err := process.NewCluster(ctx, process.Options{Nodes: 4, Limits: limits, More: "raft: {balance_after: 1s}\n"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	// The fourth node hands its ranges to the others and leaves. When it joins, ranges move to it.
	if err := c.Nodes[3].Close(); err != nil {
		return err
	}
	a, err := newAsker(c.Addrs())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	fmt.Println("| | limit | asked | admitted | beyond the limit | errors |\n|---|---|---|---|---|---|")
	three := []int{0, 1, 2}
	for _, l := range []string{"soft", "hard"} {
		for _, times := range []int{3, 10} {
			var sum tally
			for k := range 5 {
				sum.add(a.burst(ctx, l, fmt.Sprintf("fresh-%d-%d", times, k), times*100, three))
			}
			sum.print(fmt.Sprintf("burst of %d x the limit on a fresh key, 3 nodes, %s; 5 keys", times, l), 5*100)
		}
	}
	return deaths(ctx, c, a, three)
}

const keys = 400

// deaths drains keys, kills a node, restarts it, and starts another.
func deaths(ctx context.Context, c *process.Cluster, a *asker, three []int) error {
	most := int64(10 * keys)
	sum := a.drain(ctx, keys, 15, three)
	sum.print("400 keys of 10 an hour, each asked 15 times on 3 nodes", most)
	time.Sleep(2 * time.Second) // nodes write a checkpoint once a second
	c.Nodes[0].Kill()
	killed := time.Now()
	last := killed
	var after tally
	for time.Since(killed) < 10*time.Second && ctx.Err() == nil {
		t := a.drain(ctx, keys, 1, []int{1, 2})
		if t.errors > 0 {
			last = time.Now()
		}
		after.add(t)
	}
	sum.add(after)
	after.print("a node of the three killed; all keys, again and again for 10 s, on the survivors", 0)
	fmt.Printf("| the last error came %v after the kill | | | | | |\n", last.Sub(killed).Round(time.Millisecond))
	if err := c.Nodes[0].Start(); err != nil {
		return err
	}
	if err := c.Nodes[0].Ready(ctx); err != nil {
		return err
	}
	back := a.drain(ctx, keys, 3, three)
	sum.add(back)
	back.print("it is back; all keys on all nodes", 0)
	if err := c.Nodes[3].Start(); err != nil {
		return err
	}
	if err := c.Nodes[3].Ready(ctx); err != nil {
		return err
	}
	var moved tally
	for began := time.Now(); time.Since(began) < 10*time.Second && ctx.Err() == nil; {
		moved.add(a.drain(ctx, keys, 1, []int{0, 1, 2, 3}))
	}
	sum.add(moved)
	moved.print("a fourth node comes and takes over ranges; all keys on all nodes for 10 s", 0)
	sum.print("all in all", most)
	return ctx.Err()
}
