package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/replica"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// silentNode knows a leader that does not answer.
type silentNode struct {
	noNode
	asked chan struct{}
	calls atomic.Int32 // under way
}

func (n *silentNode) Leader(quota.RangeID) quota.NodeID { return "n2" }

func (n *silentNode) Call(ctx context.Context, _ quota.NodeID, _ *peerv1.Call) (*peerv1.Call, error) {
	n.calls.Add(1)
	defer n.calls.Add(-1)
	close(n.asked)
	<-ctx.Done()
	time.Sleep(10 * time.Millisecond) // it notices the end late: a Close that does not wait has returned by then
	return nil, ctx.Err()
}

// TestCloseEndsQuestions checks that no question to a leader outlives Close, and that Close does not wait for
// the answer.
func TestCloseEndsQuestions(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	d, k := alone(t, central), quota.Key{LimitName: central.LimitName, Key: "k"}
	n := &silentNode{asked: make(chan struct{})}
	d.node, d.cfg.AskWait = n, time.Minute
	d.cfg.Replicas = replica.New(&replica.Config{
		Self: "n1", Ranges: 1, Now: d.now, AskWait: time.Minute, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	}, nil)
	decided := make(chan quota.Why, 1)
	go func() { decided <- d.Check(k, 1).Why }()
	<-n.asked
	began := time.Now()
	d.Close()
	if left := n.calls.Load(); left != 0 || time.Since(began) > 10*time.Second {
		t.Errorf("%d questions are left after %v", left, time.Since(began))
	}
	for range 2 {
		if by := <-decided; by != quota.WhyLocal {
			t.Errorf("a closed node decided %v", by)
		}
		decided <- d.Check(k, 1).Why // asks nobody
	}
}

// farNode knows a leader that admits everything after a round trip.
type farNode struct {
	first func() // Leader calls it once
	noNode
	roundTrip                  time.Duration
	silent                     int            // range whose leader does not answer; -1: none
	leaders                    []quota.NodeID // by range; nil: n2
	messages, inFlight, atOnce atomic.Int32
	last                       atomic.Pointer[peerv1.CallAsk]
}

func (n *farNode) Leader(r quota.RangeID) quota.NodeID {
	if f := n.first; f != nil {
		n.first = nil
		f()
	}
	if n.leaders != nil {
		return n.leaders[r]
	}
	return "n2"
}

func (n *farNode) Call(ctx context.Context, _ quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	n.messages.Add(1)
	n.last.Store(c.GetAsk())
	if int(c.GetAsk().Range) == n.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n.atOnce.Store(max(n.atOnce.Load(), n.inFlight.Add(1)))
	time.Sleep(n.roundTrip)
	n.inFlight.Add(-1)
	return &peerv1.Call{Body: &peerv1.Call_AskResult{AskResult: &peerv1.CallAskResult{
		Answers: slices.Repeat([]*peerv1.AskAnswer{{Allowed: true, Why: uint32(quota.WhyLeader)}}, len(c.GetAsk().Asks)),
	}}}, nil
}

// TestFarLeader checks that a decide request to a leader far away takes one round trip and at most pace, and
// that requests to a near one share messages, one at a time.
func TestFarLeader(t *testing.T) {
	for _, c := range []struct {
		roundTrip, wait time.Duration
		messages, most  int32
	}{
		{4 * time.Millisecond, 8 * time.Millisecond, 260, 1},
		{70 * time.Millisecond, 75 * time.Millisecond, 210, 15},
		{200 * time.Millisecond, 205 * time.Millisecond, 210, 41},
	} {
		synctest.Test(t, func(t *testing.T) {
			central := limit("central", 10, quota.Soft)
			central.Decide = quota.AtLeader
			d, k := alone(t, central), quota.Key{LimitName: central.LimitName, Key: "k"}
			defer d.Close()
			n := &farNode{roundTrip: c.roundTrip, silent: -1}
			d.node, d.cfg.AskWait = n, time.Minute
			d.cfg.Replicas = replica.New(&replica.Config{
				Self: "n1", Ranges: 1, Now: d.now, AskWait: time.Minute, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
			}, nil)
			var longest atomic.Int64
			var all sync.WaitGroup
			for range 1000 {
				all.Go(func() {
					began := time.Now()
					if by := d.Check(k, 1).Why; by != quota.WhyLeader {
						t.Errorf("decided %v", by)
					}
					longest.Store(max(longest.Load(), int64(time.Since(began))))
				})
				time.Sleep(time.Millisecond)
			}
			all.Wait()
			if w := time.Duration(longest.Load()); w > c.wait || n.messages.Load() > c.messages || n.atOnce.Load() > c.most {
				t.Errorf("round trip %v: waited %v, at most %v expected; %d messages, at most %d; %d at a time, at most %d",
					c.roundTrip, w, c.wait, n.messages.Load(), c.messages, n.atOnce.Load(), c.most)
			}
		})
	}
}

// TestCallsWaitOnce checks that all that one call waits for leaders is at most AskWait, however many limits it names, and
// also where it has waited for a first grant before.
func TestCallsWaitOnce(t *testing.T) {
	const wait = 200 * time.Millisecond
	var leader, hard []quota.Limit
	for i := range 4 {
		l := limit(fmt.Sprint("leader", i), 10, quota.Soft)
		l.Decide = quota.AtLeader
		leader, hard = append(leader, l), append(hard, limit(fmt.Sprint("hard", i), 1000, quota.Hard))
	}
	for _, c := range []struct {
		what      string
		limits    []quota.Limit
		roundTrip time.Duration
		lost      bool
		most      time.Duration
		asked     int32
	}{
		{"answers", leader, 90 * time.Millisecond, false, wait, 3},
		{"a grant that does not come, then answers", hard, 90 * time.Millisecond, false, wait, 2},
		{"a grant that does not come, then a silent leader", hard, time.Minute, false, wait, 1},
		{"a leader that others know to be silent", hard, time.Minute, true, 0, 0},
		{"answers of a near leader", leader, 10 * time.Millisecond, false, wait, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := alone(t, c.limits...)
			defer d.Close()
			n := &farNode{roundTrip: c.roundTrip, silent: -1}
			d.node, d.cfg.GrantWait, d.cfg.AskWait = n, 20*time.Millisecond, wait
			d.cfg.Replicas = replica.New(&replica.Config{
				Self: "n1", Ranges: 1, Now: d.now, AskWait: wait, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
			}, nil)
			var reqs []quota.Request
			for _, l := range c.limits {
				reqs = append(reqs, quota.Request{Key: quota.Key{LimitName: l.LimitName, Key: "k"}, Cost: 1})
			}
			if c.lost {
				d.LeaderLost(0)
			}
			began := time.Now()
			d.Decide(reqs, make([]quota.Decision, len(reqs)))
			if took := time.Since(began); took > c.most || n.messages.Load() != c.asked {
				t.Errorf("%s: %v, and %d messages; want at most %v, and %d", c.what, took, n.messages.Load(), c.most, c.asked)
			}
		})
	}
}

// far returns a Decider whose leaders, one for each of two ranges, answer after roundTrip.
func far(t *testing.T, roundTrip time.Duration, limits ...quota.Limit) (*Decider, *farNode) {
	d, n := alone(t, limits...), &farNode{roundTrip: roundTrip}
	d.node, d.cfg.Ranges, d.cfg.GrantWait, d.cfg.AskWait = n, 2, 20*time.Millisecond, 200*time.Millisecond
	d.queues = make([]askQueue, 2)
	d.cfg.Replicas = replica.New(&replica.Config{
		Self: "n1", Ranges: 2, Now: d.now, AskWait: d.cfg.AskWait, Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(),
	}, nil)
	return d, n
}

// keysOf returns n keys of a range.
func keysOf(r quota.RangeID, l quota.LimitName, n int) (keys []quota.Key) {
	for i := 0; len(keys) < n; i++ {
		if k := (quota.Key{LimitName: l, Key: fmt.Sprint("k", i)}); shard.Of(k, 2) == r {
			keys = append(keys, k)
		}
	}
	return keys
}

// callsOf returns a call of one token for each key.
func callsOf(keys ...quota.Key) []quota.Call {
	calls := make([]quota.Call, len(keys))
	for i, k := range keys {
		calls[i] = quota.Call{Requests: []quota.Request{{Key: k, Cost: 1}}, Out: make([]quota.Decision, 1)}
	}
	return calls
}

// TestBatchWaitsOnce checks that the calls of a batch wait for their leaders together: for one round trip, and for at most
// AskWait where one leader is silent, which the others' answers do not wait for.
func TestBatchWaitsOnce(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	parent := limit("parent", 10, quota.Soft)
	parent.Decide, parent.Kind = quota.AtLeader, central.Kind
	for _, c := range []struct {
		what   string
		silent bool // the leader of range 1
		most   time.Duration
	}{
		{"all leaders answer", false, 75 * time.Millisecond},
		{"a silent leader", true, 200 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, n := far(t, 30*time.Millisecond, central, parent)
			defer d.Close()
			if n.silent = -1; c.silent {
				n.silent = 1
			}
			calls := callsOf(append(keysOf(1, central.LimitName, 100), keysOf(0, central.LimitName, 900)...)...)
			two := keysOf(0, central.LimitName, 901)[900]
			twice := quota.Call{Requests: []quota.Request{{Key: two, Cost: 1}, {Key: keysOf(0, parent.LimitName, 1)[0], Cost: 1}}, Out: make([]quota.Decision, 2)}
			calls = append(calls, twice)
			began := time.Now()
			decide := d.Batch()
			decide(calls)
			if took := time.Since(began); took > c.most {
				t.Errorf("%s: %v, want at most %v", c.what, took, c.most)
			}
			for i := range calls {
				answered := i >= 100 || !c.silent
				if by := calls[i].Out[0].Why; !calls[i].Allowed || (by == quota.WhyLeader) != answered {
					t.Errorf("%s: call %d: allowed %v, %v", c.what, i, calls[i].Allowed, by)
				}
			}
			if last := calls[len(calls)-1].Out; last[1].Why != quota.WhyLeader {
				t.Errorf("%s: the second limit of a call: %v", c.what, last[1].Why)
			}
			began = time.Now()
			if decide(calls[:100]); c.silent && time.Since(began) > 0 {
				t.Errorf("a leader that did not answer was asked again: %v", time.Since(began))
			}
		})
	}
}

// TestUnaskedIsNotSilent checks that a batch asks a leader for whose answer an earlier request had no time left, and no
// longer asks one that had time and did not answer.
func TestUnaskedIsNotSilent(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 10*time.Millisecond, central)
		defer d.Close()
		n.silent = -1
		unasked, keys := new(sync.Map), keysOf(0, central.LimitName, 10)
		within := func(left time.Duration) quota.Why {
			w := d.newWait(unasked, 1)
			w.until = w.began.Add(left)
			p, out := new(pooled), make([]quota.Decision, 1)
			p.Reset([]quota.Request{{Key: keys[0], Cost: 1}}, out)
			keys = keys[1:]
			d.decideHere(p)
			w.complete(p)
			return out[0].Why
		}
		for _, left := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
			if by := within(left); by == quota.WhyLeader {
				t.Errorf("an answer within %v", left)
			}
		}
		if by := within(d.cfg.AskWait); by != quota.WhyLeader {
			t.Errorf("not asked: %v", by)
		}
		n.silent = 0
		first, began := within(d.cfg.AskWait/2), time.Now()
		if by := within(d.cfg.AskWait); first == quota.WhyLeader || by == quota.WhyLeader || time.Since(began) > 0 {
			t.Errorf("a silent leader: %v, then %v after %v", first, by, time.Since(began))
		}
	})
}

// TestHotKeyLeavesPlaces checks that decide requests about one key leave slots for other keys, and that
// requests that were sent or canceled no longer take a slot.
func TestHotKeyLeavesPlaces(t *testing.T) {
	q := &askQueue{}
	ask := func(key string) (asked []*decideRequest) {
		for {
			p := &decideRequest{ask: quota.Ask{Key: quota.Key{Key: key}}}
			if _, n := q.add([]*decideRequest{p}); n == 0 {
				return asked
			}
			asked = append(asked, p)
		}
	}
	for range 2 {
		hot, second := ask("hot"), ask("second")
		if len(hot) != maxQueue/2 || len(second) != maxQueue/4 {
			t.Fatalf("%d requests about one key and %d about another; want %d and %d", len(hot), len(second), maxQueue/2, maxQueue/4)
		}
		for len(q.requests) > len(second) {
			q.next()
		}
		for _, p := range second {
			if !p.sent {
				_ = q.cancel(p)
			}
		}
		if len(q.next()) > 0 || len(q.keys) > 0 {
			t.Fatalf("nobody waits, and %d keys are counted", len(q.keys))
		}
	}
}

// TestBatchesLeavePlaces checks that batches of decide requests about many keys leave slots for other callers.
func TestBatchesLeavePlaces(t *testing.T) {
	q := &askQueue{}
	batch := func(size int) int {
		answered, reqs := make(chan *decideRequest, size), make([]*decideRequest, size)
		for i := range reqs {
			reqs[i] = &decideRequest{ask: quota.Ask{Key: quota.Key{Key: strconv.Itoa(i)}}, answered: answered}
		}
		_, n := q.add(reqs)
		return n
	}
	for i := range 8 {
		if n := batch(maxQueue); n == 0 {
			t.Errorf("batch %d found no slot", i)
		}
	}
	if n := batch(1); n != 1 {
		t.Errorf("a single request after batches found no slot")
	}
	if len(q.requests) > maxQueue {
		t.Errorf("%d requests are queued; at most %d may be", len(q.requests), maxQueue)
	}
}

// TestMessageKeepsBatchesWhole checks that requests of one caller leave in one message if they fit, so that a message that
// overtakes another does not change their order.
func TestMessageKeepsBatchesWhole(t *testing.T) {
	q := &askQueue{}
	for _, size := range []int{1, 300, 300, 1, replica.MaxDecide + 88, 1, replica.MaxDecide} {
		answered, reqs := make(chan *decideRequest, size), make([]*decideRequest, size)
		for i := range reqs {
			reqs[i] = &decideRequest{answered: answered, ask: quota.Ask{Key: quota.Key{Key: fmt.Sprint(size, i)}}}
		}
		if _, n := q.add(reqs); n != size {
			t.Fatalf("%d of %d requests were queued", n, size)
		}
	}
	var got []int
	for m := q.next(); m != nil; m = q.next() {
		got = append(got, len(m))
	}
	if want := []int{301, 301, replica.MaxDecide, 89, replica.MaxDecide}; !slices.Equal(got, want) {
		t.Errorf("messages of %d requests; want %d", got, want)
	}
}

// TestBatchKeepsOrder checks that calls of one batch about one key reach their leader in order, in one message.
func TestBatchKeepsOrder(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 30*time.Millisecond, central) // longer than pace: several messages would be in flight
		defer d.Close()
		n.silent = -1
		var calls []quota.Call
		for _, k := range keysOf(0, central.LimitName, replica.MaxDecide/2) {
			calls = append(calls, callsOf(k, k)...)
			calls[len(calls)-1].Requests[0].Cost = 2
		}
		d.Batch()(calls)
		if m := n.messages.Load(); m != 1 {
			t.Errorf("%d messages", m)
		}
		for i, a := range n.last.Load().Asks {
			if want := calls[i].Requests[0]; a.Key != want.Key.Key {
				t.Fatalf("request %d is about %v; want %v", i, a.Key, want.Key)
			}
		}
	})
}

// TestFirstIsAdmitted checks that of two equal calls of a batch the first is admitted, although the grant that it waits for
// arrives just before the second is decided.
func TestFirstIsAdmitted(t *testing.T) {
	soft, central := limit("soft", 1, quota.Soft), limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 0, soft, central)
		defer d.Close()
		n.silent = -1
		d.agg.SetNodes(3)
		d.agg.SetLeader(0, "n2", 1)
		k := keysOf(0, soft.LimitName, 1)[0]
		granted := false
		n.first = func() { // while the batch decides its second call
			for _, r := range d.agg.Collect(d.now()) {
				for i := range r.Entries {
					granted = true
					d.apply(d.now(), &quota.Grant{
						Range: r.Range, Term: 1, From: "n2", To: "n1", At: d.now(), Incarnation: r.Incarnation,
						Entries: []quota.GrantEntry{{Ack: r.Seq, Line: uint32(i + 1), Seq: 1, Tokens: quota.Token, Cap: quota.Token, Level: quota.Token, Lease: time.Second, Again: time.Second}},
					})
				}
			}
		}
		calls := callsOf(k, keysOf(0, central.LimitName, 1)[0], k)
		d.Batch()(calls)
		if !granted || !calls[0].Allowed || calls[2].Allowed {
			t.Errorf("granted %v: first %+v, second %+v", granted, calls[0].Out[0], calls[2].Out[0])
		}
	})
}

// TestAdmitFirst checks which decisions of a batch change places.
func TestAdmitFirst(t *testing.T) {
	soft, other := limit("soft", 10, quota.Soft), limit("other", 10, quota.Soft)
	a, b := keysOf(0, soft.LimitName, 1)[0], keysOf(0, other.LimitName, 1)[0]
	for _, c := range []struct{ calls, want string }{
		// Each call is its keys, then + if it is admitted, - if it is refused, ? if it passes in shadow, or = for a refund.
		{"a- a+ a-", "a+ a- a-"},
		{"a- a- a+ a+", "a+ a+ a- a-"},
		{"a- b+ b- a+", "a+ b+ b- a-"},
		{"a- A+ a+", "a+ A+ a-"}, // A costs more
		{"a- a= a+", "a- a= a+"}, // admitted out of the refund
		{"ab- a+ ab+", "ab+ a+ ab-"},
		{"a? a+ a?", "a+ a? a?"},
	} {
		var calls []quota.Call
		for text := range strings.FieldsSeq(c.calls) {
			call := quota.Call{Allowed: !strings.HasSuffix(text, "-"), Refund: strings.HasSuffix(text, "=")}
			for _, k := range text[:len(text)-1] {
				q := quota.Request{Key: map[rune]quota.Key{'a': a, 'A': a, 'b': b}[k], Cost: 1}
				if k == 'A' {
					q.Cost = 2
				}
				call.Requests = append(call.Requests, q)
				call.Out = append(call.Out, quota.Decision{Allowed: call.Allowed, Shadow: strings.HasSuffix(text, "?")})
			}
			calls = append(calls, call)
		}
		admitFirst(calls)
		for i, text := range strings.Fields(c.want) {
			want, shadow := !strings.HasSuffix(text, "-"), strings.HasSuffix(text, "?")
			if calls[i].Allowed != want || calls[i].Out[0].Allowed != want || calls[i].Out[0].Shadow != shadow {
				t.Errorf("%s: call %d: %+v; want %s", c.calls, i, calls[i], c.want)
			}
		}
	}
}

// TestPipelinesFindPlaces checks that the pipelines of a hundred connections about one key find room in the queue, and
// that a batch that finds no slot does not count its leader as silent.
func TestPipelinesFindPlaces(t *testing.T) {
	central := limit("central", quota.MaxTokens, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 2*time.Millisecond, central)
		defer d.Close()
		n.silent = -1
		k := keysOf(0, central.LimitName, 1)[0]
		var alone atomic.Int32
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				calls := callsOf(slices.Repeat([]quota.Key{k}, 64)...)
				for range 10 {
					d.Batch()(calls)
					for i := range calls {
						if calls[i].Out[0].Why != quota.WhyLeader {
							alone.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		if alone.Load() > 0 {
			t.Errorf("%d of 64000 checks were decided without the leader", alone.Load())
		}

		full := make([]*decideRequest, maxQueue)
		for i := range full {
			full[i] = &decideRequest{ask: quota.Ask{Key: quota.Key{Key: strconv.Itoa(i)}}, answered: make(chan *decideRequest, 1)}
		}
		for rest := full; len(rest) > 0; {
			_, got := d.queues[0].add(rest)
			rest = rest[got:]
		}
		decide, one := d.Batch(), callsOf(k)
		if decide(one); one[0].Out[0].Why == quota.WhyLeader {
			t.Error("a request found a slot in a full queue")
		}
		for len(d.queues[0].next()) > 0 {
		}
		if decide(one); one[0].Out[0].Why != quota.WhyLeader {
			t.Errorf("with slots again: %v", one[0].Out[0].Why)
		}
	})
}

// TestArrivedAnswersCount checks that answers that came while another call of the batch awaited a grant decide their
// calls, although the time of the batch is over.
func TestArrivedAnswersCount(t *testing.T) {
	central, first := limit("central", 100, quota.Soft), limit("first", 1000, quota.Hard)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 10*time.Millisecond, central, first)
		defer d.Close()
		n.silent, d.cfg.GrantWait = 1, time.Second
		keys := keysOf(0, central.LimitName, 101)
		calls := callsOf(keys[:100]...)
		// The answer to its first limit lets this call await a grant of its second.
		calls = append([]quota.Call{{Requests: []quota.Request{{Key: keys[100], Cost: 1}, {Key: keysOf(1, first.LimitName, 1)[0], Cost: 1}}, Out: make([]quota.Decision, 2)}}, calls...)
		d.Batch()(calls)
		for i := range calls[1:] {
			if by := calls[i+1].Out[0].Why; by != quota.WhyLeader {
				t.Fatalf("call %d was decided without its answer: %v", i+1, by)
			}
		}
	})
}

// TestRefundsWaitOnce checks that the refunds and charges of a batch wait for leaders together, that the leader gets the
// refunds in order in the same message, and that those of a silent leader are booked here.
func TestRefundsWaitOnce(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 30*time.Millisecond, central)
		defer d.Close()
		n.silent = 1
		calls := callsOf(append(keysOf(1, central.LimitName, 20), keysOf(0, central.LimitName, 20)...)...)
		for i := range calls {
			calls[i].Refund = i%20 < 10
		}
		began := time.Now()
		if d.Batch()(calls); time.Since(began) > d.cfg.AskWait {
			t.Errorf("%v; want at most %v", time.Since(began), d.cfg.AskWait)
		}
		for i := range calls {
			want := quota.WhyLocal
			if i >= 20 {
				want = quota.WhyLeader
			}
			if c := &calls[i]; !c.Allowed || c.Out[0].Why != want {
				t.Errorf("call %d: %+v; want %v", i, c, want)
			}
		}
		for i, a := range n.last.Load().Asks {
			if (a.Cost < 0) != (i < 10) {
				t.Errorf("request %d of the message costs %d", i, a.Cost)
			}
		}
		began = time.Now()
		if d.Refund(calls[0].Requests[0].Key, 1); time.Since(began) != d.cfg.AskWait {
			t.Errorf("a single refund to a silent leader took %v", time.Since(began))
		}
	})
}

// TestSilentGrants checks that a batch that is decided in parts waits once for a leader whose grants do not come, and for
// another leader still.
func TestSilentGrants(t *testing.T) {
	soft := limit("soft", 10, quota.Soft)
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, 0, soft)
		defer d.Close()
		n.leaders = []quota.NodeID{"n2", "n3"}
		decide := d.Batch()
		look := func(k quota.Key) time.Duration {
			calls := callsOf(k)
			calls[0].Requests[0].Cost = 0
			began := time.Now()
			decide(calls)
			return time.Since(began)
		}
		keys := keysOf(0, soft.LimitName, 3)
		for i, want := range []time.Duration{d.cfg.GrantWait, 0, 0} {
			if took := look(keys[i]); took != want {
				t.Errorf("key %d took %v; want %v", i, took, want)
			}
		}
		if took := look(keysOf(1, soft.LimitName, 1)[0]); took != d.cfg.GrantWait {
			t.Errorf("a key of another leader took %v; want %v", took, d.cfg.GrantWait)
		}
	})
}

// TestSilentNode checks that a batch that is decided in parts, and draws, wait once for a node that leads several ranges
// and does not answer, and that draws ask it again a second later.
func TestSilentNode(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, n := far(t, time.Minute, central)
		defer d.Close()
		n.silent = -1
		decide, keys := d.Batch(), [2]quota.Key{keysOf(0, central.LimitName, 1)[0], keysOf(1, central.LimitName, 1)[0]}
		for what, ask := range map[string]func(quota.Key){
			"batch": func(k quota.Key) { decide(callsOf(k)) },
			"draw":  func(k quota.Key) { d.Draw(k, 8) },
		} {
			took := func(k quota.Key) time.Duration {
				began := time.Now()
				ask(k)
				return time.Since(began)
			}
			if first, second := took(keys[0]), took(keys[1]); first != d.cfg.AskWait || second != 0 {
				t.Errorf("%s: %v, then %v for another range; want %v and 0", what, first, second, d.cfg.AskWait)
			}
		}
		time.Sleep(time.Second)
		messages := n.messages.Load()
		if d.Draw(keys[1], 8); n.messages.Load() != messages+1 {
			t.Error("a second later, a draw does not ask the node")
		}
	})
}

// electedNode is a farNode where n2 leads range 1 until n3, the leader of range 0, leads both.
type electedNode struct {
	*farNode
	elected atomic.Bool
}

func (n *electedNode) Leader(r quota.RangeID) quota.NodeID {
	if r == 1 && !n.elected.Load() {
		return "n2"
	}
	return "n3"
}

// TestSilenceIsOfTheLeaderAsked checks that a leader that is elected while another one does not answer does not count as
// silent: other keys of it are asked about.
func TestSilenceIsOfTheLeaderAsked(t *testing.T) {
	central := limit("central", 10, quota.Soft)
	central.Decide = quota.AtLeader
	synctest.Test(t, func(t *testing.T) {
		d, far := far(t, 0, central)
		defer d.Close()
		n := &electedNode{farNode: far}
		d.node, far.silent = n, 1
		time.AfterFunc(d.cfg.AskWait/2, func() { n.elected.Store(true) })
		decide := d.Batch()
		for _, c := range []struct {
			of   quota.RangeID
			want quota.Why
		}{{1, quota.WhyLocal}, {0, quota.WhyLeader}} {
			calls := callsOf(keysOf(c.of, central.LimitName, 1)...)
			if decide(calls); calls[0].Out[0].Why != c.want {
				t.Errorf("a key of range %d was decided %v; want %v", c.of, calls[0].Out[0].Why, c.want)
			}
		}
	})
}
