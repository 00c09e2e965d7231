// Command llm accounts for the tokens of a language model, of which nobody knows
// before a call how many it takes: reserve what it may take at most, make the call,
// settle what it took.
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

// most is what one call may take: what the caller sets as its maximum.
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
		// A node keeps the reservation: if this process dies, it comes back by itself.
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

// model stands for a call to a model: it returns how many tokens that took.
func model(call int) int64 { return int64(1500 + 100*call) }
