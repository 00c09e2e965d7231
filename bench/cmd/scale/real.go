package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

const (
	realRanges = 16
	realKeys   = 10_000
	realLimits = "version: 1\nnamespaces:\n  api:\n    limits:\n      per_tenant: {rate: 1000/s, burst: 1000}\n"
	quiet      = 5 * time.Second // until leaders are in their places
)

// playReal starts clusters of real nodes, each a process, that double in size from 3 on, and prints
// the resources of a node while it is idle, and while each node gets checks at a fixed rate.
func playReal(ctx context.Context, most int, rate float64, d time.Duration) error {
	defer process.Cleanup()
	fmt.Printf("%d ranges, %d keys, Zipf 1.1; each node is asked %s times a second over gRPC, for %v.\n\n", realRanges, realKeys, suite.Number(rate), d)
	fmt.Println("| nodes | ready after | idle: a node's core | RSS of a node, MiB | asked: checks/s of a node | a node's core | RSS of a node, MiB | errors |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for nodes := 3; nodes <= most; nodes *= 2 {
		if err := playCluster(ctx, nodes, rate, d); err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	return nil
}

func playCluster(ctx context.Context, nodes int, rate float64, d time.Duration) (err error) {
	began := time.Now()
	c, err := process.NewCluster(ctx, process.Options{Nodes: nodes, Ranges: realRanges, Limits: realLimits})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	ready := time.Since(began)
	time.Sleep(quiet)
	idle, idleRSS, err := watch(c, func() error { time.Sleep(d); return nil })
	if err != nil {
		return err
	}
	var asked, failed int64
	used, rss, err := watch(c, func() (err error) {
		asked, failed, err = ask(ctx, c, rate, d)
		return err
	})
	if err != nil {
		return err
	}
	n := suite.Number
	fmt.Printf("| %d | %v | %s %% | %s | %s | %s %% | %s | %d |\n", nodes, ready.Round(100*time.Millisecond), n(idle), n(idleRSS),
		n(float64(asked)/d.Seconds()/float64(nodes)), n(used), n(rss), failed)
	return nil
}

// watch returns the processor time of a node on average while f ran, in percent of a core, and its
// resident memory after it.
func watch(c *process.Cluster, f func() error) (core, rss float64, err error) {
	began := time.Now()
	before, err := process.CPU(c.Processes()...)
	if err != nil {
		return 0, 0, err
	}
	if err := f(); err != nil {
		return 0, 0, err
	}
	after, err := process.CPU(c.Processes()...)
	if err != nil {
		return 0, 0, err
	}
	nodes := float64(len(c.Nodes))
	core = 100 * (after - before).Seconds() / time.Since(began).Seconds() / nodes
	for _, p := range c.Processes() {
		resident, _, err := process.RSS(p.PID())
		if err != nil {
			return 0, 0, err
		}
		rss += float64(resident) / (1 << 20) / nodes
	}
	return core, rss, nil
}

// ask sends checks to all nodes in turn, to each at the given rate, from a few concurrent callers.
func ask(ctx context.Context, c *process.Cluster, rate float64, d time.Duration) (asked, failed int64, err error) {
	var clients []quoratev1.QuotaServiceClient
	for _, addr := range c.Addrs() {
		conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		clients = append(clients, quoratev1.NewQuotaServiceClient(conn))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(rng, 1.1, 1, realKeys-1)
	results := make(chan error, 1024)
	slots := make(chan struct{}, 64) // bounds the calls in flight
	began, gap := time.Now(), time.Duration(float64(time.Second)/rate/float64(len(clients)))
	go func() {
		defer close(results)
		for i := 0; time.Duration(i)*gap < d && ctx.Err() == nil; i++ {
			time.Sleep(time.Duration(i)*gap - time.Since(began))
			req := &quoratev1.AllowRequest{Namespace: "api", Limit: "per_tenant", Key: fmt.Sprintf("tenant-%017d", z.Uint64())}
			slots <- struct{}{}
			go func() {
				ctx, stop := context.WithTimeout(ctx, 5*time.Second)
				defer stop()
				_, err := clients[i%len(clients)].Allow(ctx, req)
				<-slots
				results <- err
			}()
		}
		for range cap(slots) {
			slots <- struct{}{}
		}
	}()
	for err := range results {
		asked++
		if err != nil {
			failed++
		}
	}
	return asked, failed, ctx.Err()
}
