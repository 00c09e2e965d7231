package retry_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/client"
	"github.com/quorate/quorate/client/retry"
)

// Do repeats a call that no node answered at first.
func ExampleDo() {
	calls := 0
	fetch := func(context.Context) (string, error) {
		if calls++; calls < 3 {
			return "", &client.Error{Kind: client.ErrUnavailable}
		}
		return "page", nil
	}
	page, err := retry.Do(context.Background(), fetch, retry.Times(5), retry.Pauses(time.Millisecond, time.Millisecond))
	fmt.Println(page, err, calls)
	// Output: page <nil> 3
}
