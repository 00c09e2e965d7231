package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// leaderAndFollowers is a node that leads all ranges, and two without replicas that forward
// everything to it.
type leaderAndFollowers struct {
	*world
	nodes []*Service
	begun atomic.Int64
	ops   []account.Op // one on each range; each adds 1
}

func newLeaderAndFollowers(t *testing.T, ranges int) *leaderAndFollowers {
	const hop, disk = 200 * time.Microsecond, 2 * time.Millisecond // fake time of the synctest bubble
	c := &leaderAndFollowers{world: newWorldOf(t, ranges), ops: in(ranges)}
	c.nodes = append(c.nodes, c.Service)
	for i := range 2 {
		f := &follower{call: func(m *peerv1.Call) (*peerv1.Call, error) {
			time.Sleep(hop)
			defer time.Sleep(hop)
			return handled(c.world, m)
		}}
		f.Service = New(Config{Self: quota.NodeID(fmt.Sprint("n", i+2)), Ranges: ranges, Node: f})
		t.Cleanup(f.Close)
		c.nodes = append(c.nodes, f.Service)
	}
	for i := range c.ops {
		c.ops[i].Options = account.IgnorePolicyBounds
		c.ops[i].RelativeTo, c.ops[i].Delta = account.Zero, 0
		if out, err := c.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, c.ops[i:i+1]); err != nil || out.Code != account.Done {
			t.Fatalf("%+v, %v", out, err)
		}
		c.ops[i].RelativeTo, c.ops[i].Delta = account.Balance, 1
	}
	c.entries = nil
	c.logged = func(batch []byte) {
		_, commands, _ := account.DecodeBatch(batch)
		for i := range commands {
			if commands[i].Begin != nil {
				c.begun.Add(1)
			}
		}
	}
	c.meet = func(quota.RangeID, *account.Command) { time.Sleep(disk) }
	return c
}

// idle fails the test if the calls have left anything behind.
func (c *leaderAndFollowers) idle(t *testing.T, want int64) {
	t.Helper()
	time.Sleep(time.Second) // for the ranges to learn the decisions
	for i := range c.ops {
		if got := c.replicas[c.rangeOf(c.ops[i].Account)].View().Get(c.Now(), c.ops[i].Account).Balance; got != want {
			t.Errorf("account %d has %d, want %d", i, got, want)
		}
	}
	c.Service.turns.mu.Lock()
	defer c.Service.turns.mu.Unlock()
	if n, m := len(c.Service.turns.given), len(c.Service.turns.lines.of); n != 0 || m != 0 {
		t.Errorf("%d calls and %d lines are left", n, m)
	}
}

// TestTurns has callers on three nodes change the same accounts of two ranges, in both orders, and
// one account of their own, so that no bundle joins them. They wait in line at the leader instead
// of aborting each other, and each node gets its share.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, each = 3, 10 // per node
		c := newLeaderAndFollowers(t, 2)
		var mu sync.Mutex
		var order []int // the nodes, in the order in which their calls end
		var wg sync.WaitGroup
		began := time.Now()
		for w := range 3 * callers {
			wg.Go(func() {
				for i := range each {
					mine := slices.Clone(c.ops)
					if (w+i)%2 == 0 {
						slices.Reverse(mine)
					}
					mine = append(mine, add(fmt.Sprint("mine", w))...)
					out, err := c.nodes[w%3].ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint(w, " ", i), 0, mine)
					if err != nil || out.Code != account.Done {
						t.Errorf("%+v, %v", out, err)
					}
					mu.Lock()
					order = append(order, w%3)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		const calls = 3 * callers * each
		took := time.Since(began)
		time.Sleep(time.Second) // for the last entries
		c.mu.Lock()
		entries := len(c.entries)
		c.mu.Unlock()
		t.Logf("%d calls: %d attempts, %d entries, %v", calls, c.begun.Load(), entries, took)
		if got := c.begun.Load(); got > calls+calls/10 {
			t.Errorf("%d attempts of %d calls; want one for each, but for the first ones", got, calls)
		}
		if entries > 5*calls {
			t.Errorf("%d entries for %d calls, want at most 5 for each", entries, calls)
		}
		for n := range 3 {
			done := 0
			for _, by := range order[:calls/2] {
				if by == n {
					done++
				}
			}
			if done < calls/12 {
				t.Errorf("node %d had %d of the first %d calls, want a sixth at least", n, done, calls/2)
			}
		}
		c.idle(t, calls)
	})
}

// TestTurnOfOneRange has a single-range call wait in line among transactions that hold its account
// nearly all the time: it completes after the calls ahead of it.
func TestTurnOfOneRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLeaderAndFollowers(t, 2)
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var calls atomic.Int64
		for w := range 9 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					out, err := c.nodes[w%3].ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint(w, " ", i), 0, c.ops)
					if err != nil || out.Code != account.Done {
						t.Errorf("%+v, %v", out, err)
					}
					calls.Add(1)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		for i := range c.ops {
			for n, node := range c.nodes {
				before := calls.Load()
				out, err := node.ApplyOps(t.Context(), account.Caller{By: "me"}, fmt.Sprint("one ", i, n), 0, c.ops[i:i+1])
				if err != nil || out.Code != account.Done {
					t.Errorf("%+v, %v", out, err)
				}
				// One per caller, and one more bundle per node while the call finds out that it
				// must wait.
				if passed := calls.Load() - before; passed > 9+3 {
					t.Errorf("%d transactions of 9 callers went before a call through node %d", passed, n)
				}
			}
		}
		stop()
		wg.Wait()
		c.idle(t, calls.Load()+int64(len(c.nodes)))
	})
}

// TestTurnEnds has nodes take turns and never come back, and has callers leave the line: the others
// proceed when the turns are over.
func TestTurnEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newLeaderAndFollowers(t, 2)
		names := make([]turnName, 0, 2)
		for i := range c.ops {
			id := c.ops[i].Account
			names = append(names, turnName{c.rangeOf(id), newTx()})
			if !c.Service.turns.acquire(t.Context(), "me", names[i], []account.ID{id}) {
				t.Fatal("no turn at a free account")
			}
		}
		began := time.Now()
		gone, leave := context.WithCancel(t.Context())
		const calls = 9
		results := make(chan error, calls)
		for w := range calls {
			ctx := t.Context()
			if w >= 3 && w < 6 {
				ctx = gone
			}
			go func() {
				out, err := c.nodes[w%3].ApplyOps(ctx, account.Caller{By: "me"}, strconv.Itoa(w), 0, c.ops)
				if err == nil && out.Code != account.Done {
					err = fmt.Errorf("code %v", out.Code)
				}
				results <- err
			}()
		}
		time.Sleep(time.Second)
		leave()
		var errs []error
		failed, unknown := 0, int64(0)
		for range calls {
			if err := <-results; err != nil {
				failed++
				errs = append(errs, err)
				if errors.Is(err, errUnknown) { // its bundle had begun without it
					unknown++
				}
			}
		}
		if took := time.Since(began); failed != 3 || took > turnLimit+time.Second {
			t.Errorf("%d calls failed, the others took %v; want that the 3 which left fail, and %v", failed, took, turnLimit)
		}
		time.Sleep(time.Second) // for the ranges to learn the decisions
		done := c.replicas[c.rangeOf(c.ops[0].Account)].View().Get(c.Now(), c.ops[0].Account).Balance
		if done < calls-3 || done > calls-3+unknown {
			t.Errorf("%d calls were done; want %d, and of %d that left with an unknown outcome any: %v", done, calls-3, unknown, errs)
		}
		c.idle(t, done)
	})
}
