// Command handle decides as the hot path of a service does: with a handle of the key, in this
// process, from what its node has lent it, in nanoseconds.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/handle 203.0.113.7 15
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"

	"github.com/quorate/quorate/client"
)

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	flag.Parse()
	count, err := strconv.Atoi(flag.Arg(1))
	if err != nil || count < 1 {
		fmt.Fprintln(os.Stderr, "usage: handle [-nodes HOST:PORT,...] ADDRESS REQUESTS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, strings.Split(*nodes, ","), flag.Arg(0), count)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes []string, address string, count int) error {
	c, err := client.New(ctx, nodes)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is left to do about it
	select {
	case <-c.Ready(): // otherwise the first requests would pass without a limit
	case <-ctx.Done():
		return ctx.Err()
	}
	perClient := c.Bucket("web", "per_client", address) // keep it as long as requests come
	admitted := 0
	for range count {
		if perClient.Allow() {
			admitted++
		}
	}
	fmt.Printf("%d of %d requests of %s were admitted\n", admitted, count, address)
	if r, err := perClient.Check(ctx, 1); err == nil && !r.Allowed {
		fmt.Printf("the next one could pass in %.1f s: %s\n", r.RetryAfter.Seconds(), r.Why)
	}
	return nil
}
