package cluster

import (
	"fmt"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestDecideLeader checks that a limit with decide: leader admits exactly its burst, whichever nodes
// are asked and however many callers ask at once, and that decisions say where they were made.
func TestDecideLeader(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	soft, hard := limit("soft", 3, quota.Soft), limit("hard", 3, quota.Hard)
	soft.Decide, hard.Decide = quota.AtLeader, quota.AtLeader
	c.apply(soft, hard)
	for _, l := range []quota.Limit{soft, hard} {
		for i, tries := 0, 0; i < 4; tries++ {
			k := quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(tries)}
			var passed, late atomic.Int64
			var wg sync.WaitGroup
			for _, n := range c.running() {
				for range 4 {
					wg.Go(func() {
						d := n.Check(k, 1)
						if d.Allowed {
							passed.Add(1)
						}
						switch d.Why {
						case quota.WhyLeader, quota.WhyOverLimit:
						case quota.WhyLocal, quota.WhyCutOff:
							late.Add(1)
						case quota.WhyNotHeld: // the log did not grant it in time
							late.Add(1)
							if k.Limit != "hard" || d.Allowed {
								t.Errorf("%v on %s: %+v", k, n.cfg.Self, d)
							}
						default:
							t.Errorf("%v on %s: %v", k, n.cfg.Self, d.Why)
						}
					})
				}
			}
			wg.Wait()
			if l.Ceiling == quota.Hard && passed.Load() > 3 {
				t.Errorf("%v: %d of 12 passed; hard: at most 3", k, passed.Load())
			}
			if late.Load() > 0 && tries < 100 { // on a busy machine the node may decide alone: try another key
				continue
			}
			if passed.Load() != 3 || late.Load() > 0 {
				t.Errorf("%v: %d of 12 passed, want 3; %d were not answered in time", k, passed.Load(), late.Load())
			}
			i++
		}
	}

	// A call that another limit refuses gives back what the leader admitted.
	n := c.running()[1]
	k, full := key("test", "soft", "back"), key("test", "hard", "full")
	use(t, n, full, 3)
	c.awaitRemaining(full, 0)
	out := make([]quota.Decision, 2)
	if n.Decide([]quota.Request{{Key: k, Cost: 3}, {Key: full, Cost: 1}}, out) {
		t.Fatal("a call beyond a limit passed")
	}
	c.awaitRemaining(k, 3)
}

// TestCheckAfterCharge checks that a check that the leader decides finds what was charged on its node just before, also
// where the leader has no report of that yet.
func TestCheckAfterCharge(t *testing.T) {
	c := newThreeNodes(t, 4, quick)
	soft, hard := limit("soft", 10, quota.Soft), limit("hard", 10, quota.Hard)
	soft.Decide, hard.Decide = quota.AtLeader, quota.AtLeader
	c.apply(soft, hard)
	for _, l := range []quota.Limit{soft, hard} {
		for _, by := range []quota.NodeID{"n1", "n2"} {
			n, k := c.nodes[by], c.keyLedBy(l.LimitName, "n1", string(by))
			use(t, n, k, 1)
			if booked, d := n.Charge(k, 9); booked != 9 || d.Remaining != 0 {
				t.Errorf("%v on %s: charged %d, and %d remain; want 9 and 0", k, by, booked, d.Remaining)
			}
			if d := n.Check(k, 1); d.Allowed {
				t.Errorf("%v on %s: a check after the charge of all: %v, allowed", k, by, d.Why)
			}
		}
	}
}

// TestDecideAlone checks that the limit's policy decides when no leader can be asked.
func TestDecideAlone(t *testing.T) {
	c := newThreeNodes(t, 4, quick)
	soft, closed, hard := limit("soft", 3, quota.Soft), limit("closed", 3, quota.Soft), limit("hard", 3, quota.Hard)
	for _, l := range []*quota.Limit{&soft, &closed, &hard} {
		l.Decide = quota.AtLeader
	}
	closed.CutOff.Policy = quota.CutOffClosed
	c.apply(soft, closed, hard)
	n := c.running()[1]
	// Kill two of three nodes, and thus every leader.
	use(t, n, key("test", "soft", "alone"), 1)
	for _, o := range c.running() {
		if o != n {
			c.kill(o.cfg.Self)
		}
	}
	for name, want := range map[string]quota.Why{"soft": quota.WhyLocal, "closed": quota.WhyCutOff, "hard": quota.WhyCutOff} {
		c.eventually(10*time.Second, name+" is decided alone", func() error {
			if d := n.Check(key("test", name, "alone"), 1); d.Why != want {
				return errWhy(d.Why)
			}
			return nil
		})
	}
}

// TestAnswerLost lets a leader book questions and loses its answers. The member
// decides alone or refuses. Once the path works again, the leader has booked what
// callers were granted exactly once, and tokens that they were refused are available again.
func TestAnswerLost(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4, func(cfg *Config) { cfg.AskWait = time.Second }) // answers that are lost take all of it
	soft, hard := limit("soft", 20, quota.Soft), limit("hard", 20, quota.Hard)
	waits := limit("waits", 20, quota.Soft)
	waits.MaxWait, waits.MaxDebt = 24*time.Hour, 24*time.Hour
	soft.Decide, hard.Decide = quota.AtLeader, quota.AtLeader
	c.apply(soft, hard, waits)
	member, lead := c.nodes["n2"], c.nodes["n1"]
	told := map[quota.Key]int64{}
	check := func(k quota.Key, cost int64) {
		if d := member.Check(k, cost); d.Allowed {
			told[k] += cost
		}
	}
	var keys []quota.Key
	for _, l := range []quota.Limit{soft, hard, waits} {
		k := c.keyLedBy(l.LimitName, "n1", "k")
		keys = append(keys, k)
		check(k, 2)
	}
	check(keys[2], 18) // the node asks only about keys that are used up
	c.awaitRemaining(keys[2], 0)
	lead.net.SetFault(func(to quota.NodeID, lane peerv1.Lane) transport.Fault {
		return transport.Fault{Drop: to == "n2" && lane == peerv1.Lane_LANE_DATA}
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, k := range keys {
		for range 3 {
			wg.Go(func() {
				d := member.Check(k, 1)
				mu.Lock()
				defer mu.Unlock()
				if d.Allowed {
					told[k]++
				}
				if want := map[string]quota.Why{"soft": quota.WhyLocal, "hard": quota.WhyCutOff}[k.Limit]; want != 0 && d.Why != want {
					t.Errorf("%v: %v, want %v: the answer was not lost", k, d.Why, want)
				}
			})
		}
	}
	wg.Wait()
	lead.net.SetFault(nil)
	for _, k := range append(keys, keys...) { // twice: a value that is right too early may still change
		c.eventually(5*time.Second, fmt.Sprintf("the leader has booked %d of %v", told[k], k), func() error {
			r, err := c.rate(k)
			if err == nil && r.Admitted != told[k] {
				err = fmt.Errorf("booked %d", r.Admitted)
			}
			return err
		})
	}
	c.awaitRemaining(keys[1], 20-told[keys[1]])
}

// TestOwnLeader checks that a decision of this node's own ledger takes no goroutine: one for each check, and a timer,
// took eight times the CPU of the decision.
func TestOwnLeader(t *testing.T) {
	c := newThreeNodes(t, 1)
	l := limit("soft", quota.MaxTokens, quota.Soft)
	l.Decide = quota.AtLeader
	c.apply(l)
	k := c.keyLedBy(l.LimitName, "n1", "k")
	created := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	metrics.Read(created)
	before := created[0].Value.Uint64()
	const checks = 10_000
	own := 0
	for range checks {
		if c.nodes["n1"].Check(k, 1).Why == quota.WhyLeader {
			own++
		}
	}
	metrics.Read(created)
	if n := created[0].Value.Uint64() - before; own < checks/2 || n > checks/4 { // the nodes have others, and the ledger may be busy
		t.Errorf("%d goroutines for %d checks, of which the leader decided %d", n, checks, own)
	}
}

// TestSilentLeader checks that the requests of a batch wait once for a leader that does not answer, and
// that the next batch asks it again.
func TestSilentLeader(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 2, func(cfg *Config) { cfg.AskWait = DefaultAskWait })
	l := limit("soft", 20, quota.Soft)
	l.Decide = quota.AtLeader
	c.apply(l)
	member, lead := c.nodes["n2"], c.nodes["n1"]
	var keys []quota.Key
	for i := range 20 {
		keys = append(keys, c.keyLedBy(l.LimitName, "n1", fmt.Sprint("k", i)))
	}
	lead.net.SetFault(func(to quota.NodeID, lane peerv1.Lane) transport.Fault {
		return transport.Fault{Drop: to == "n2" && lane == peerv1.Lane_LANE_DATA}
	})
	began, decide := time.Now(), member.Batch()
	var calls []quota.Call
	for _, k := range keys {
		calls = append(calls, quota.Call{Requests: []quota.Request{{Key: k, Cost: 1}}, Out: make([]quota.Decision, 1)})
	}
	for range 2 {
		decide(calls)
		for i, call := range calls {
			if !call.Allowed || call.Out[0].Why != quota.WhyLocal {
				t.Errorf("%v: %+v; want it decided here", keys[i], call.Out[0])
			}
		}
	}
	if took, most := time.Since(began), 3*DefaultAskWait; took > most {
		t.Errorf("%d requests took %v; want one wait of %v for all of them, and less than %v", len(keys), took, DefaultAskWait, most)
	}
	began = time.Now()
	if member.Batch()(calls[:1]); time.Since(began) < DefaultAskWait {
		t.Errorf("the next batch waited %v for the leader", time.Since(began))
	}
	lead.net.SetFault(nil)
}

type errWhy quota.Why

func (e errWhy) Error() string { return "decided: " + quota.Why(e).String() }

// TestWaitForTokensToCome checks that callers on all nodes get consecutive times, no two the
// same.
func TestWaitForTokensToCome(t *testing.T) {
	c := newThreeNodes(t, 2)
	l := quota.Limit{
		LimitName: quota.LimitName{Namespace: "test", Limit: "waits"}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 2,
		MaxWait: time.Minute, MaxDebt: 2 * time.Minute,
	}
	c.apply(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	n := c.running()[0]
	if d := n.Check(k, 40); !d.Allowed || d.Wait != 0 { // 38 seconds of debt
		t.Fatalf("the first: %+v", d)
	}
	c.awaitRemaining(k, 0)
	began, last := time.Now(), time.Duration(0)
	for i := range 6 {
		asked := time.Since(began)
		d := c.running()[i%3].Check(k, 3) // more than the burst, so that no node can admit it alone
		told := time.Since(began)
		// The reserved time lies between the request and the answer, each plus the wait.
		if early, late := asked+d.Wait, told+d.Wait; !d.Allowed || d.Why != quota.WhyReserved || late < last+time.Second || early > last+50*time.Second {
			t.Errorf("caller %d: %+v, after %v to %v; the one before after %v", i, d, early, late, last)
		}
		last = asked + d.Wait
	}
	out := make([]quota.Decision, 1)
	if n.Decide([]quota.Request{{Key: k, Cost: 3, MaxWait: time.Second}}, out) || out[0].Why != quota.WhyWaitTooLong {
		t.Errorf("who waits a second at most: %+v", out[0])
	}
}

// TestFewTokens checks that of a soft bucket with fewer tokens than nodes the leader decides each admission, once all
// nodes use it.
func TestFewTokens(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4)
	l := limit("few", 2, quota.Soft)
	l.Rate = quota.Rate{Tokens: 20, Per: time.Second}
	c.apply(l)
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	asked := map[quota.NodeID]bool{}
	for len(asked) < 3 {
		for _, n := range c.running() {
			if n.Check(k, 1).Why == quota.WhyLeader {
				asked[n.cfg.Self] = true
			}
		}
	}
	why := map[quota.Why]int{}
	for admitted := 0; admitted < 40; {
		for _, n := range c.running() {
			if d := n.Check(k, 1); d.Allowed {
				admitted++
				why[d.Why]++
			}
		}
	}
	if why[quota.WhyLeader] < 36 { // on a busy machine a node may decide alone
		t.Errorf("admitted %v; want nearly all of 40 by the leader", why)
	}
}

// TestRefundToLeader checks that tokens refunded to a limit with decide: leader are available to the
// next check on every node, and that the refund says what remains. A refund whose answer is lost
// counts once.
func TestRefundToLeader(t *testing.T) {
	testspeed.Full(t)
	c := newThreeNodes(t, 4, func(cfg *Config) { cfg.AskWait = time.Second }) // answers that are lost take all of it
	asked, waits := limit("asked", 20, quota.Soft), limit("waits", 20, quota.Soft)
	asked.Decide, waits.MaxWait, waits.MaxDebt = quota.AtLeader, time.Second, time.Second
	c.apply(asked, waits)
	member, lead := c.nodes["n2"], c.nodes["n1"]
	for _, l := range []quota.Limit{asked, waits} {
		for i := range 4 {
			k := quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)} // some led by each node
			use(t, c.nodes["n1"], k, 18)
			if d := c.nodes["n2"].Refund(k, 5); d.Remaining != 7 || d.Limit == nil {
				t.Errorf("%v: a refund says %+v; want 7 remaining", k, d)
			}
			if d := c.nodes["n3"].Check(k, 7); !d.Allowed || d.Remaining != 0 {
				t.Errorf("%v: behind the refund, elsewhere: %+v; want 7 to pass and none to remain", k, d)
			}
			if d := c.nodes["n1"].Refund(k, 99); d.Remaining != 20 {
				t.Errorf("%v: a refund of more than there is says %+v; want 20 remaining", k, d)
			}
		}
		k := c.keyLedBy(l.LimitName, "n1", "k")
		use(t, member, k, 18)
		lead.net.SetFault(func(to quota.NodeID, lane peerv1.Lane) transport.Fault {
			return transport.Fault{Drop: to == "n2" && lane == peerv1.Lane_LANE_DATA}
		})
		member.Refund(k, 5)
		lead.net.SetFault(nil)
		for range 2 { // twice: a value that is right too early may still change
			c.awaitRemaining(k, 7)
			time.Sleep(3 * member.cfg.Sync) // there is no condition to wait for: the value must not get worse
		}
	}
}

// TestDrawFromLeader checks that several nodes that draw at once from a limit with decide: leader
// together get no more than the limit has.
func TestDrawFromLeader(t *testing.T) {
	c := newThreeNodes(t, 2)
	asked, waits := limit("asked", 20, quota.Soft), limit("waits", 20, quota.Soft)
	asked.Decide, waits.MaxWait, waits.MaxDebt = quota.AtLeader, time.Second, time.Second
	c.apply(asked, waits)
	for _, l := range []quota.Limit{asked, waits} {
		for i := range 4 {
			k := quota.Key{LimitName: l.LimitName, Key: strconv.Itoa(i)}
			var got []int64
			for _, id := range c.ids() {
				got = append(got, c.nodes[id].Draw(k, 10))
			}
			if !slices.Equal(got, []int64{10, 10, 0}) {
				t.Errorf("%v: three nodes drew %v of 20; want 10, 10 and nothing", k, got)
			}
		}
	}
}
