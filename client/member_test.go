package client

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

func ready(t *testing.T, c *Client) {
	t.Helper()
	select {
	case <-c.Ready():
	case <-time.After(testPatience):
		t.Fatalf("not ready: %+v", c.Stats())
	}
}

// TestLocal checks that decisions in the process follow the limits, and that the node books what
// the process counts.
func TestLocal(t *testing.T) {
	for _, ceiling := range []quota.Ceiling{quota.Soft, quota.Hard} {
		t.Run(ceiling.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, []string{"a"}, bucketLimit("l", "100/s", 50, ceiling))
				c := attachTo(t, cl)
				ready(t, c)
				admitted := int64(0)
				for range 400 { // 2 s at twice the rate
					res, err := c.Allow(t.Context(), "web", "l", "k", 1)
					if err != nil {
						t.Fatal(err)
					}
					if res.Allowed {
						admitted++
					}
					time.Sleep(5 * time.Millisecond)
				}
				if admitted < 225 || admitted > 251 {
					t.Errorf("admitted %d; the limit is 250, and hard may stay a tenth below it", admitted)
				}
				c.Close()
				if got := cl.booked(quota.LimitName{Namespace: "web", Limit: "l"}); got != quota.FromTokens(admitted) {
					t.Errorf("the client admitted %d, the node booked %d", admitted, got.Tokens())
				}
			})
		})
	}
}

// TestTellsHopeless checks that the client reports to its node, exactly once, what it refused alone
// because the cost exceeds the burst, including what it refused while there was no node.
func TestTellsHopeless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "100/s", 50, quota.Soft), bucketLimit("m", "100/s", 50, quota.Hard))
		c := attachTo(t, cl)
		ready(t, c)
		refuse := func(limit string, cost int64) {
			t.Helper()
			if res, err := c.Allow(t.Context(), "web", limit, "k", cost); err != nil || res.Allowed || res.Why != WhyOverBurst {
				t.Fatalf("cost %d: %+v, %v", cost, res, err)
			}
		}
		told := func(want map[string]int64) {
			t.Helper()
			time.Sleep(3 * time.Second)
			n := cl.node("a")
			n.mu.Lock()
			defer n.mu.Unlock()
			if !maps.Equal(n.refused, want) {
				t.Errorf("told %v; want %v", n.refused, want)
			}
		}
		refuse("l", 51)
		refuse("l", 60)
		refuse("m", 400)
		told(map[string]int64{"web/l": int64(quota.FromTokens(111)), "web/m": int64(quota.FromTokens(400))})
		cl.node("a").set(false)
		time.Sleep(3 * time.Second)
		refuse("m", 100)
		time.Sleep(3 * time.Second)
		cl.node("a").set(true)
		time.Sleep(10 * time.Second) // the client looks for a node after a pause
		want := map[string]int64{"web/l": int64(quota.FromTokens(111)), "web/m": int64(quota.FromTokens(500))}
		told(want)
		told(want)
		refuse("l", 70)
		c.Close()
		want["web/l"] += int64(quota.FromTokens(70))
		told(want)
	})
}

// TestStartsBeforeTheCluster checks that New does not wait for a node, and that the client's own
// defaults apply until the limits arrive.
func TestStartsBeforeTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a", "b"}, bucketLimit("l", "1/h", 5, quota.Soft))
		cl.node("a").set(false)
		cl.node("b").set(false)
		c := attachTo(t, cl, WithDefaults(
			Default{Namespace: "web", Rate: "2/s", Burst: 3},
			Default{Namespace: "web", Limit: "strict", Hard: true},
		))
		defer c.Close()
		count := func(ns, limit string, n int) (passed int) {
			for range n {
				res, err := c.Allow(t.Context(), ns, limit, "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				if res.Mode != ModeFallback {
					t.Errorf("mode %s, want fallback", res.Mode)
				}
				if res.Allowed {
					passed++
				}
			}
			return passed
		}
		if got := count("web", "l", 10); got != 3 {
			t.Errorf("%d passed; the default's burst is 3", got)
		}
		time.Sleep(time.Second)
		if got := count("web", "l", 10); got != 2 {
			t.Errorf("%d passed a second later; want 2", got)
		}
		if got := count("web", "strict", 2); got != 0 {
			t.Errorf("%d passed of a hard default", got)
		}
		if got := count("other", "l", 100); got != 100 {
			t.Errorf("%d of 100 passed without a default; it fails open", got)
		}
		time.Sleep(30 * time.Second)
		cl.node("b").set(true)
		time.Sleep(lastPause + time.Second)
		ready(t, c)
		res, err := c.Allow(t.Context(), "web", "l", "k", 5)
		if err != nil || !res.Allowed || res.Mode == ModeFallback || res.Limit.Burst != 5 {
			t.Errorf("with a node: %+v %v", res, err)
		}
		if _, err := c.Allow(t.Context(), "web", "none", "k", 1); !errors.Is(err, ErrNoLimit) {
			t.Errorf("a limit that is not there: %v", err)
		}
		if s := c.Stats(); !s.Attached || s.Node != "b" || s.Keys != 1 || s.Decisions[ModeFallback] != 122 || s.Attempts < 10 {
			t.Errorf("%+v", s)
		}
	})
}

// TestSurvivesTheCluster checks that without any node the limit's when_cut_off decides once the
// lease has expired.
func TestSurvivesTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, open, hard := bucketLimit("local", "10/s", 10, quota.Soft), bucketLimit("open", "1/h", 1, quota.Soft), bucketLimit("hard", "10/s", 10, quota.Hard)
		open.CutOff.Policy, hard.Decide = quota.CutOffOpen, quota.Locally
		cl := newCluster(t, []string{"a"}, local, open, hard)
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		if res, err := c.Allow(t.Context(), "web", "hard", "k", 1); err != nil || res.Why != WhyNotHeld {
			t.Fatalf("hard, decided locally, before the first grant: %+v %v", res, err)
		}
		time.Sleep(50 * time.Millisecond)
		for _, l := range []string{"local", "open", "hard"} {
			if res, err := c.Allow(t.Context(), "web", l, "k", 1); err != nil || !res.Allowed {
				t.Fatalf("%s: %+v %v", l, res, err)
			}
		}
		time.Sleep(50 * time.Millisecond)
		cl.node("a").set(false)
		time.Sleep(10 * time.Second)
		for _, w := range []struct {
			limit  string
			passed int
			why    Why
		}{{"local", 10, WhyLocal}, {"open", 20, WhyOpen}, {"hard", 0, WhyCutOff}} {
			passed := 0
			for range 20 {
				res, err := c.Allow(t.Context(), "web", w.limit, "k", 1)
				if err != nil {
					t.Fatal(err)
				}
				if res.Allowed {
					passed++
				}
				if (res.Allowed || w.passed == 0) && (res.Why != w.why || res.Mode != ModeCutOff) {
					t.Errorf("%s: %s %s; want %s", w.limit, res.Why, res.Mode, w.why)
				}
			}
			if passed != w.passed {
				t.Errorf("%s: %d passed, want %d", w.limit, passed, w.passed)
			}
		}
		cl.node("a").set(true)
		time.Sleep(10 * time.Second) // the client looks for a node after a pause
		time.Sleep(lastPause + time.Second)
		c.Allow(t.Context(), "web", "hard", "k", 1)
		time.Sleep(100 * time.Millisecond)
		if res, _ := c.Allow(t.Context(), "web", "hard", "k", 1); !res.Allowed || res.Mode != ModeGranted {
			t.Errorf("the node is back: %+v", res)
		}
	})
}

// TestExactOverBrokenStreams checks that in the end the nodes have booked exactly what the clients
// admitted, although streams break all the time, nodes stop and return, and one dies.
func TestExactOverBrokenStreams(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { exactOverBrokenStreams(t, seed) })
	}
}

func exactOverBrokenStreams(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	kind := bucketLimit("l", "300/s", 200, []quota.Ceiling{quota.Soft, quota.Hard}[seed%2])
	window := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "w"}}
	window.SetFirst(quota.Window(quota.FixedWindow, 100_000, time.Hour))
	cl := newCluster(t, []string{"a", "b", "c"}, kind, window)
	var admitted atomic.Int64
	var windowed atomic.Int64
	var work sync.WaitGroup
	stop := make(chan struct{})
	var clients []*Client
	for i := range 5 {
		c := attachTo(t, cl, WithName("p"+string(rune('0'+i))))
		clients = append(clients, c)
		ready(t, c)
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(1+r.IntN(8)) * time.Millisecond):
				}
				cost := int64(1 + r.IntN(3))
				if res, _ := c.Allow(t.Context(), "web", "l", "k"+string(rune('0'+r.IntN(3))), cost); res.Allowed {
					admitted.Add(cost)
				}
				if res, _ := c.Allow(t.Context(), "web", "w", "k", 1); res.Allowed {
					windowed.Add(1)
				}
			}
		})
	}
	for range 8 {
		n := cl.node([]string{"a", "b", "c"}[rnd.IntN(3)])
		n.set(false)
		time.Sleep(time.Duration(rnd.IntN(700)) * time.Millisecond) // stopped for a while, in the time of the bubble
		n.set(true)
		time.Sleep(time.Duration(rnd.IntN(900)) * time.Millisecond) // running for a while
	}
	close(stop)
	work.Wait()
	for _, c := range clients {
		s := c.Stats()
		c.Close()
		if s := c.Stats(); s.Dropped > 0 || s.Bad > 0 {
			t.Errorf("seed %d: %+v", seed, s)
		}
		if s.Reattached == 0 && seed == 0 {
			t.Errorf("seed %d: no stream broke: %+v", seed, s)
		}
	}
	if got := cl.booked(kind.LimitName); got != quota.FromTokens(admitted.Load()) {
		t.Errorf("seed %d: clients admitted %d, nodes booked %d", seed, admitted.Load(), got.Tokens())
	}
	if got := cl.booked(window.LimitName); got != quota.FromTokens(windowed.Load()) {
		t.Errorf("seed %d: clients admitted %d in the window, nodes booked %d", seed, windowed.Load(), got.Tokens())
	}
}

// TestNodeDies checks that the next node books what a dead node had not acknowledged.
func TestNodeDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketLimit("l", "1/h", 1000, quota.Soft)
		cl := newCluster(t, []string{"a", "b"}, l)
		c := attachTo(t, cl)
		ready(t, c)
		allow := func(n int) {
			for range n {
				if res, err := c.Allow(t.Context(), "web", "l", "k", 1); err != nil || !res.Allowed {
					t.Fatal(res, err)
				}
			}
		}
		allow(20)
		time.Sleep(time.Second) // everything is acknowledged
		cl.node("a").kill()
		allow(30)
		time.Sleep(time.Second)
		allow(7)
		c.Close()
		if got := cl.booked(l.LimitName); got != 57*quota.Token {
			t.Errorf("booked %v, want 57 tokens", got)
		}
		if got := cl.node("a").taken; got != 30*quota.Token {
			t.Errorf("booked for the dead node: %v, want the 30 it never heard of", got)
		}
	})
}

// TestDeafNode checks that the client leaves a node that accepts streams and answers nothing.
func TestDeafNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a", "b"}, bucketLimit("l", "100/s", 100, quota.Soft))
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		n := cl.node("a")
		n.mu.Lock()
		n.deaf = true
		n.mu.Unlock()
		for range 30 {
			c.Allow(t.Context(), "web", "l", "k", 1)
			time.Sleep(100 * time.Millisecond)
		}
		if s := c.Stats(); s.Node != "b" {
			t.Errorf("stays with the deaf node: %+v", s)
		}
	})
}

// TestClosesInTime checks that Close returns within its time limit when no node answers, and
// reports what was lost.
func TestClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "1/h", 100, quota.Soft))
		c := attachTo(t, cl, WithTimeout(300*time.Millisecond))
		ready(t, c)
		c.Allow(t.Context(), "web", "l", "k", 1)
		cl.node("a").set(false)
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		c.Close()
		if took := time.Since(start); took > 350*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if c.Stats().Dropped != 1 {
			t.Errorf("%+v; want one report dropped", c.Stats())
		}
		if _, err := c.Allow(t.Context(), "web", "l", "k", 1); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// TestGrantWait checks that a decision about a soft limit waits for a grant if the process holds
// nothing, and that a caller whose context has ended neither waits nor gets a decision.
func TestGrantWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, []string{"a"}, bucketLimit("l", "1/s", 100, quota.Soft))
		c := attachTo(t, cl)
		defer c.Close()
		ready(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		start := time.Now()
		if res, err := c.Allow(ctx, "web", "l", "gone", 1); !errors.Is(err, context.Canceled) || time.Since(start) != 0 {
			t.Errorf("with a context that has ended: %+v %v after %v", res, err, time.Since(start))
		}
		start = time.Now()
		res, err := c.Allow(t.Context(), "web", "l", "k", 1)
		if took := time.Since(start); err != nil || !res.Allowed || took == 0 || took > 20*time.Millisecond {
			t.Errorf("%+v %v after %v", res, err, took)
		}
	})
}

// TestClosesWithFullQueue checks that Close sends all last reports, also those for which a session's queue
// has no room at first, and ends the stream only behind them.
func TestClosesWithFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bucketLimit("l", "1/h", 1_000_000, quota.Soft)
		cl := newCluster(t, []string{"a"}, l)
		c := attachTo(t, cl)
		ready(t, c)
		const keys = 5 * peerproto.MaxEntries
		for i := range keys { // no check waits, so nothing is reported before Close begins
			if res, err := c.Allow(t.Context(), "web", "l", strconv.Itoa(i), 1); err != nil || !res.Allowed {
				t.Fatal(res, err)
			}
		}
		at := c.member.attached.Load()
		for at.send(&quoratev1.AttachRequest{}) { // messages that wait to be sent
		}
		c.Close()
		if s := c.Stats(); s.Dropped != 0 {
			t.Errorf("%+v; want that nothing is lost", s)
		}
		if got := cl.booked(l.LimitName); got != quota.FromTokens(keys) {
			t.Errorf("booked %d, want %d", got.Tokens(), keys)
		}
	})
}
