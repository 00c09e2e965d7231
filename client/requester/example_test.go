package requester_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/requester"
	"github.com/quorate/quorate/client/retry"
)

// Limit a function, and call it again after a refusal.
func Example() {
	ctx := context.Background()
	c, err := client.New(ctx, []string{"127.0.0.1:7412"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	tokens := requester.New(c, "web", "per_client", "acme", requester.WithQueue(100))
	fetch := requester.Limit(ctx, tokens, func(context.Context) (string, error) { return "done", nil })

	page, err := retry.Do(ctx, fetch, retry.Times(3))
	if errors.Is(err, requester.ErrRefused) {
		log.Print(err)
		return
	}
	fmt.Println(page, err)
}
