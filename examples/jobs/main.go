// Command jobs runs jobs, with a limit on how many run at a time over all its processes: each job
// holds a place while it runs. Start it several times in parallel.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/jobs 6
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	takes := flag.Duration("takes", 3*time.Second, "how long a job takes")
	flag.Parse()
	count, err := strconv.Atoi(flag.Arg(0))
	if err != nil || count < 1 {
		fmt.Fprintln(os.Stderr, "usage: jobs [-nodes HOST:PORT,...] [-takes DURATION] JOBS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, strings.Split(*nodes, ","), count, *takes)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes []string, count int, takes time.Duration) error {
	c, err := client.New(ctx, nodes)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is left to do about it
	places, began := c.Bucket("work", "jobs", "*"), time.Now()
	ends := make(chan error, count)
	for range count {
		go func() { ends <- job(ctx, places, takes) }()
	}
	for range count {
		err = errors.Join(err, <-ends)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d jobs in %.1f s\n", count, time.Since(began).Seconds())
	return nil
}

func job(ctx context.Context, places *client.Bucket, takes time.Duration) error {
	place, err := take(ctx, places)
	if err != nil {
		return err
	}
	time.Sleep(takes) // the work; it takes longer than the lease of the limit, which KeepAlive renews
	return place.Cancel(context.WithoutCancel(ctx))
}

// take waits for a place. If this process dies, the place is free one lease later.
func take(ctx context.Context, places *client.Bucket) (*client.Reservation, error) {
	for {
		place, err := places.Acquire(ctx, 1, 0)
		if err != nil {
			return nil, err
		}
		if place.OK() {
			place.KeepAlive(ctx)
			return place, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
