package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/quorate/quorate/client"
)

// A service decides before it works, and lets requests pass when there is no decision.
func Example() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412", "127.0.0.1:7422", "127.0.0.1:7432"}, client.WithTimeout(50*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		res, err := c.Allow(r.Context(), "web", "per_client", r.RemoteAddr, 1)
		if err != nil {
			log.Print(err) // fail open
		} else if !res.Allowed {
			if res.RetryAfter != client.Never {
				w.Header().Set("Retry-After", strconv.FormatInt(int64(res.RetryAfter/time.Second)+1, 10))
			}
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		fmt.Fprintln(w, "hello")
	})
}

// Checks that belong together take one round trip.
func ExampleClient_AllowBatch() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	results, err := c.AllowBatch(ctx, []client.Check{
		{Namespace: "web", Limit: "per_client", Key: "203.0.113.7"},
		{Namespace: "api", Limit: "per_tenant", Key: "acme", Cost: 5},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r.Allowed, r.Remaining, r.Err)
	}
}

// A hot path keeps a handle: a decision takes some nanoseconds and allocates nothing.
func ExampleClient_Bucket() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	tenant := c.Bucket("api", "per_tenant", "acme")
	if !tenant.Allow() {
		fmt.Println("too many")
	}
}

// A worker waits for tokens, in turn, no longer than its context.
func ExampleBucket_Wait() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"}, client.WithMaxWaiting(100))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	outbound := c.Bucket("api", "outbound", "partner")
	for range 10 {
		if err := outbound.Wait(ctx); err != nil {
			log.Print(err)
			return
		}
		fmt.Println("call the partner")
	}
}

// The cost of a call is known only when it is over: reserve the maximum, then settle what was used.
func ExampleBucket_ReserveN() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Bucket("llm", "tokens", "acme").ReserveN(ctx, 4000)
	if err != nil || !r.OK() {
		return
	}
	used := int64(1234) // from the answer
	if err := r.Settle(ctx, used); err != nil {
		log.Print(err)
	}
}

// The client's own limits apply until the first node has answered.
func ExampleWithDefaults() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:7412"}, client.WithDefaults(
		client.Default{Namespace: "web", Rate: "100/s", Burst: 200},
		client.Default{Namespace: "web", Limit: "login", Hard: true}, // rather refused than exceeded
	))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// A request that two limits must admit is charged to both or to none.
func ExampleClient_AllowAll() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	all, err := c.AllowAll(ctx, []client.Check{
		{Namespace: "web", Limit: "per_client", Key: "203.0.113.7"},
		{Namespace: "web", Limit: "per_tenant", Key: "acme", Cost: 5},
	})
	if err == nil && !all.Allowed {
		log.Printf("come back in %v", all.RetryAfter)
	}
}

// One limit, checked for many keys. No node answers here, so the client's own default applies.
func ExampleClient_Buckets() {
	c, err := client.New(context.Background(), []string{"127.0.0.1:1"}, client.WithLogger(nil),
		client.WithDefaults(client.Default{Namespace: "web", Limit: "per_client", Rate: "1/m", Burst: 2}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	perClient := c.Buckets("web", "per_client")
	fmt.Println(perClient.Allow("a"), perClient.Allow("a"), perClient.Allow("a"))
	fmt.Println(perClient.Allow("b"))
	// Output:
	// true true false
	// true
}

// Reserve sets tokens aside before the work, and only what was used is charged: a reservation that
// is not settled within a minute comes back.
func ExampleClient_Reserve() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	r, err := c.Reserve(ctx, time.Minute, client.Check{Namespace: "llm", Limit: "tokens", Key: "acme", Cost: 4000})
	if err != nil {
		log.Print(err)
		return
	}
	if !r.Allowed {
		log.Printf("come back in %v", r.RetryAfter)
		return
	}
	const used = 1200 // from the answer
	if err := r.Settle(ctx, used); err != nil {
		log.Print(err)
	}
}
