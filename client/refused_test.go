package client

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/quota"
)

// TestRefusalIsRemembered checks that a node that refused a check of a used-up hard limit is not asked again
// before the time that it named, by whichever call.
func TestRefusalIsRemembered(t *testing.T) {
	calls := map[string]func(c *Client, key string) (Result, error){
		"Allow": func(c *Client, key string) (Result, error) { return c.Allow(t.Context(), "web", "l", key, 1) },
		"AllowAll": func(c *Client, key string) (Result, error) {
			all, err := c.AllowAll(t.Context(), []Check{{Namespace: "web", Limit: "l", Key: key}})
			if err != nil {
				return Result{}, err
			}
			return all.Results[0], nil
		},
		"AllowBatch": func(c *Client, key string) (Result, error) {
			out, err := c.AllowBatch(t.Context(), []Check{{Namespace: "web", Limit: "l", Key: key}})
			if err != nil {
				return Result{}, err
			}
			return out[0], out[0].Err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			limit := bucketLimit("l", "1/h", 10, quota.Hard)
			cl := newCluster(t, []string{"a"}, limit)
			n := cl.node("a")
			n.ledger.Ask(wall(), []quota.Ask{{Key: quota.Key{LimitName: limit.LimitName, Key: name}, Cost: limit.BurstUnits()}})
			c := attachTo(t, cl)
			defer c.Close()
			ready(t, c)
			refusing := answering(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
				return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_OVER_LIMIT, RetryAfter: durationpb.New(time.Hour)}, nil
			})
			addr, stop := serve(t, refusing)
			defer stop()
			var err error
			if c.nodes, err = newNodes([]string{addr}, nil); err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				res, err := call(c, name)
				if err != nil || res.Allowed {
					t.Fatalf("call %d: %+v, %v", i, res, err)
				}
			}
			if got := refusing.calls.Load(); got != 1 {
				t.Errorf("the node was asked %d times, want once", got)
			}
		})
	}
}

// TestGrantOvertakesRefusal checks that a check passes which a node refused because it did not hold the tokens, if the
// client has them by then.
func TestGrantOvertakesRefusal(t *testing.T) {
	for name, call := range map[string]func(c *Client) (Result, error){
		"Allow": func(c *Client) (Result, error) { return c.Allow(t.Context(), "web", "l", "k", 1) },
		"AllowBatch": func(c *Client) (Result, error) {
			out, err := c.AllowBatch(t.Context(), []Check{{Namespace: "web", Limit: "l", Key: "k"}})
			if err != nil {
				return Result{}, err
			}
			return out[0], out[0].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			limit := bucketLimit("l", "1/h", 10, quota.Hard)
			k := quota.Key{LimitName: limit.LimitName, Key: "k"}
			c := attachTo(t, newCluster(t, []string{"a"}, limit))
			defer c.Close()
			ready(t, c)
			refusing := answering(func(context.Context, *quoratev1.AllowRequest) (*quoratev1.AllowResponse, error) {
				agg := c.member.agg.Load()
				for agg.Draw(c.member.clock.now, k, 1) == 0 { // which requests tokens
					c.member.wakeRun()
					time.Sleep(time.Millisecond)
				}
				agg.Refund(c.member.clock.now, k.LimitName, k.Key, 1)
				return &quoratev1.AllowResponse{Why: quoratev1.Why_WHY_NOT_HELD, Remaining: 10, RetryAfter: durationpb.New(time.Second)}, nil
			})
			addr, stop := serve(t, refusing)
			defer stop()
			var err error
			if c.nodes, err = newNodes([]string{addr}, nil); err != nil {
				t.Fatal(err)
			}
			if res, err := call(c); err != nil || !res.Allowed || res.Why != WhyHeld || res.Limit.Name != "l" {
				t.Errorf("%+v, %v; want the token that has arrived", res, err)
			}
			if got := refusing.calls.Load(); got != 1 {
				t.Errorf("the node was asked %d times; want once", got)
			}
			if s := c.Stats(); s.Decisions[ModeGranted] != 1 || s.Decisions[ModeRemote] != 0 {
				t.Errorf("counted as %v", s.Decisions)
			}
		})
	}
}

// TestRefusalsAreCounted checks that Stats counts each refusal of a handle that goroutines share, and the
// aggregator each refused token.
func TestRefusalsAreCounted(t *testing.T) {
	c := benchClient(t, "k")
	b := c.Bucket("web", "none", "k")
	before, agg := c.Stats().Refused, c.member.agg.Load()
	tallied := func() (sum quota.Units) {
		agg.TallyAll(func(n quota.LimitName, _, refused quota.Units) {
			if n == b.key.LimitName {
				sum += refused
			}
		})
		return sum
	}
	tallied()
	const goroutines, each = 8, 20_000
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				if b.Allow() {
					t.Error("admitted")
					return
				}
			}
		})
	}
	wg.Wait()
	if got := c.Stats().Refused - before; got != goroutines*each {
		t.Errorf("%d refusals counted, want %d", got, goroutines*each)
	}
	if got := tallied(); got != quota.FromTokens(goroutines*each) {
		t.Errorf("%v tokens tallied as refused, want %d", got, goroutines*each)
	}
}
