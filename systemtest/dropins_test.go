package systemtest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gubernatorv1 "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestRedisRetryAfter checks that a caller that waits as long as CL.THROTTLE says is admitted, on
// three nodes, for every bucket size and cost.
func TestRedisRetryAfter(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir())
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", base+15))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	throttle := func(burst, quantity, i int) (limited, retry int) {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "CL.THROTTLE key-%d %d %d 1 %d\r\n", i, burst, quantity, quantity); err != nil {
			t.Fatal(err)
		}
		var lines [6]string
		for i := range lines {
			if lines[i], err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Sscanf(lines[1]+lines[4], ":%d\r\n:%d\r\n", &limited, &retry); err != nil {
			t.Fatalf("%q: %v", lines, err)
		}
		return limited, retry
	}
	const keys = 16 // spread over the ranges of every node
	for _, c := range []struct{ burst, quantity int }{{0, 1}, {1, 1}, {3, 1}, {9, 1}, {3, 4}, {4, 5}, {9, 10}, {99, 100}} {
		var refused [keys]time.Time
		for i := range keys {
			for range (c.burst + 1) / c.quantity {
				if limited, _ := throttle(c.burst, c.quantity, i); limited != 0 {
					t.Fatalf("key %d: a bucket of %d refuses %d before it is empty", i, c.burst+1, c.quantity)
				}
			}
			limited, retry := throttle(c.burst, c.quantity, i)
			if limited != 1 || retry != 1 {
				t.Fatalf("key %d: after the last token: limited %d, retry after %d s; want 1, 1", i, limited, retry)
			}
			refused[i] = time.Now()
		}
		var early []string
		for i := range keys {
			time.Sleep(time.Until(refused[i].Add(time.Second))) // the wait that the refusal announced
			if limited, _ := throttle(c.burst, c.quantity, i); limited != 0 {
				early = append(early, strconv.Itoa(i))
			}
		}
		if len(early) > 0 {
			t.Errorf("max_burst %d, %d at a time: %d of %d keys are refused after the wait that was said: %s", c.burst, c.quantity, len(early), keys, strings.Join(early, " "))
		}
	}
}

// TestGubernatorIsExact checks that three nodes together admit exactly the limit of a gubernator
// request with default behaviour, and that RESET_REMAINING takes effect on all of them at once.
func TestGubernatorIsExact(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir())
	var nodes []gubernatorv1.V1Client
	for k := range 3 {
		conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", base+10*k+12), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		nodes = append(nodes, gubernatorv1.NewV1Client(conn))
	}
	ask := func(node int, key string, algorithm gubernatorv1.Algorithm, behavior gubernatorv1.Behavior, hits int64) *gubernatorv1.RateLimitResp {
		res, err := nodes[node].GetRateLimits(t.Context(), &gubernatorv1.GetRateLimitsReq{Requests: []*gubernatorv1.RateLimitReq{
			{Name: "n", UniqueKey: key, Hits: hits, Limit: 100, Duration: 3_600_000, Algorithm: algorithm, Behavior: behavior},
		}})
		if err != nil || res.Responses[0].Error != "" {
			t.Errorf("node %d: %v, %v", node+1, res, err)
			return &gubernatorv1.RateLimitResp{}
		}
		return res.Responses[0]
	}
	for _, algorithm := range []gubernatorv1.Algorithm{gubernatorv1.Algorithm_TOKEN_BUCKET, gubernatorv1.Algorithm_LEAKY_BUCKET} {
		for key := range 6 {
			key := fmt.Sprint("k", key)
			var admitted atomic.Int64
			var wait sync.WaitGroup
			for node := range 3 {
				for range 4 {
					wait.Go(func() {
						for range 20 {
							if ask(node, key, algorithm, gubernatorv1.Behavior_BATCHING, 1).Status == gubernatorv1.Status_UNDER_LIMIT {
								admitted.Add(1)
							}
						}
					})
				}
			}
			wait.Wait()
			if got := admitted.Load(); got != 100 {
				t.Errorf("%v, %s: %d of 100 admitted", algorithm, key, got)
			}
			ask(0, key, algorithm, gubernatorv1.Behavior_RESET_REMAINING, 0)
			for i := range 6 {
				if got := ask(i%3, key, algorithm, gubernatorv1.Behavior_BATCHING, 10); got.Remaining != 90-10*int64(i) {
					t.Errorf("%v, %s: after the reset, request %d: %v", algorithm, key, i+1, got)
				}
			}
		}
	}
}
