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

// A service asks before it works, and lets requests pass when nobody answers.
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

// Checks that belong together go in one round trip.
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
