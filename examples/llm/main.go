// Command llm accounts for the tokens of a language model. How many tokens a call takes is unknown
// before the call, so it reserves the maximum, makes the call, and settles what the call took.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/llm acme 6
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

// most is the maximum of one call, which the caller passes to the model.
const most = 4000

func main() {
	nodes := flag.String("nodes", "127.0.0.1:7412,127.0.0.1:7422,127.0.0.1:7432", "gRPC addresses of the nodes")
	flag.Parse()
	calls, err := strconv.Atoi(flag.Arg(1))
	if err != nil || calls < 1 {
		fmt.Fprintln(os.Stderr, "usage: llm [-nodes HOST:PORT,...] TENANT CALLS")
		os.Exit(2)
	}
	if err := run(context.Background(), strings.Split(*nodes, ","), flag.Arg(0), calls); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes []string, tenant string, calls int) error {
	c, err := client.New(ctx, nodes)
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // what it could not tell in time comes back by itself
	tokens := client.Check{Namespace: "llm", Limit: "tokens", Key: tenant, Cost: most}
	for i := range calls {
		// A node keeps the reservation. If this process dies, the tokens come back by themselves.
		r, err := c.Reserve(ctx, time.Minute, tokens)
		if err != nil {
			return err
		}
		if !r.OK() {
			fmt.Printf("call %d: refused, %d tokens are left; come back in %v\n", i+1, r.Remaining, r.RetryAfter.Round(time.Second))
			continue
		}
		used := model(i)
		if err := r.Settle(ctx, used); err != nil {
			return err
		}
		fmt.Printf("call %d: took %d tokens of the %d that were reserved\n", i+1, used, most)
	}
	return nil
}

// model simulates a call to a model and returns how many tokens it took.
func model(call int) int64 { return int64(1500 + 100*call) }
