package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/internal/examplenode"
)

// Two attempts at once for every user, and one more a day. The node is a real one, started for this example.
func ExampleClient_Allow() {
	addr, stop, err := examplenode.Start(`
version: 1
namespaces:
  web:
    limits:
      login: {rate: 1/d, burst: 2, decide: leader}
`)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	ctx := context.Background()
	c, err := client.New(ctx, []string{addr}, client.WithTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	<-c.Ready() // the node has sent the limits

	for range 3 {
		res, err := c.Allow(ctx, "web", "login", "alice", 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Allowed, res.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}
