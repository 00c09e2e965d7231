// Command worker sends mails, with a limit on how many all workers together send a second: each
// takes its turn with Wait. Start it several times in parallel.
//
//	quorate dev --limits examples/clients.yaml
//	go run ./examples/worker 60
package main

import (
	"context"
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
	tlsDir := flag.String("tls-dir", "", "directory with ca.crt, client.crt and client.key, of a cluster that is secured")
	flag.Parse()
	count, err := strconv.Atoi(flag.Arg(0))
	if err != nil || count < 1 {
		fmt.Fprintln(os.Stderr, "usage: worker [-nodes HOST:PORT,...] MAILS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err = run(ctx, strings.Split(*nodes, ","), *tlsDir, count)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, nodes []string, tlsDir string, count int) error {
	c, err := client.New(ctx, nodes, client.WithTLSDir(tlsDir))
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing is left to do about it
	select {
	case <-c.Ready(): // otherwise the first mails would go out without a limit
	case <-ctx.Done():
		return ctx.Err()
	}
	mails := c.Bucket("work", "mails", "*")
	began := time.Now()
	for range count {
		if err := mails.Wait(ctx); err != nil {
			return err
		}
		send()
	}
	took := time.Since(began)
	fmt.Printf("%d mails in %.1f s: %.1f a second\n", count, took.Seconds(), float64(count)/took.Seconds())
	return nil
}

func send() {}
