package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/attach"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
)

// process is a client process: the real aggregator and its driver.
type process struct {
	t   testing.TB
	id  quota.NodeID
	agg *aggregator.Aggregator

	mu      sync.Mutex
	number  quota.Term
	at      *attached
	unheard []attach.Settlement
	settled map[uint64]int
	said    []*quoratev1.AttachResponse // all but grants
}

// attached is one attachment of a process to a node.
type attached struct {
	node    *Node
	number  quota.Term
	session attach.Session
	cancel  context.CancelFunc
	done    chan struct{}
}

func newProcess(t testing.TB, id quota.NodeID) *process {
	return &process{t: t, id: id, agg: aggregator.New(aggregator.Config{Self: id, Incarnation: 7, Ranges: 1}, procNow()), settled: map[uint64]int{}}
}

func procNow() quota.Time { return quota.Time(time.Now().UnixNano()) }

// attach attaches the process to a node. The process must have left its last node.
func (p *process) attach(n *Node, namespaces ...string) error {
	p.mu.Lock()
	p.number++
	out := attach.NewOutbox()
	h := &attach.Hello{Client: p.id, Incarnation: 7, Attachment: p.number}
	if len(namespaces) > 0 {
		h.May = func(ns string) bool { return slices.Contains(namespaces, ns) }
	}
	s, err := n.Attach(h, out)
	if err != nil {
		p.mu.Unlock()
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	at := &attached{node: n, number: p.number, session: s, cancel: cancel, done: make(chan struct{})}
	p.at = at
	p.agg.SetLeader(0, n.cfg.Self, p.number)
	p.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { p.receive(ctx, at, out) })
	wg.Go(func() { p.send(ctx, at) })
	go func() { wg.Wait(); close(at.done) }()
	return nil
}

func (p *process) receive(ctx context.Context, at *attached, out *attach.Outbox) {
	for {
		m, err := out.Next(ctx)
		if m == nil || err != nil {
			return
		}
		p.mu.Lock()
		switch b := m.Body.(type) {
		case *quoratev1.AttachResponse_Grant:
			if g, err := peerproto.ParseGrant(at.node.cfg.Self, p.id, b.Grant); err != nil {
				p.t.Errorf("grant: %v", err)
			} else {
				p.agg.Apply(procNow(), g)
			}
		case *quoratev1.AttachResponse_Limits:
			limits, err := limitproto.DecodeLimits(b.Limits.Version, b.Limits.Limits)
			if err != nil {
				p.t.Errorf("limits: %v", err)
			} else {
				p.agg.SetLimits(procNow(), limits)
			}
			p.said = append(p.said, m)
		case *quoratev1.AttachResponse_Settled:
			p.settled[b.Settled.Attachment]++
		default:
			p.said = append(p.said, m)
		}
		p.mu.Unlock()
	}
}

func (p *process) send(ctx context.Context, at *attached) {
	for ctx.Err() == nil {
		p.mu.Lock()
		for _, r := range p.agg.Collect(procNow()) {
			at.session.Report(&r)
		}
		p.mu.Unlock()
		time.Sleep(2 * time.Millisecond) // the interval of its reports
	}
}

// leave breaks the stream. What the attachment leaves behind has to be settled.
func (p *process) leave() {
	p.at.cancel()
	<-p.at.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.agg.Leave(procNow(), 0) {
		p.unheard = append(p.unheard, attach.Settlement{Node: p.at.node.cfg.Self, Incarnation: p.at.node.inc, Part: 1, Parts: 1, Report: r})
	}
	p.at.session.End()
}

// settle sends the final reports of earlier attachments until all are settled.
func (p *process) settle() {
	for _, m := range p.unheard {
		number := uint64(m.Report.Term)
		for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			p.at.session.Settle(&m)
			if p.hasSettled(number) {
				break
			}
			if time.Now().After(end) {
				p.t.Fatalf("attachment %d is not settled", number)
			}
		}
	}
}

func (p *process) hasSettled(number uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settled[number] > 0
}

// use decides count requests of one token each.
func (p *process) use(k quota.Key, count int) (admitted int64) {
	for range count {
		if decideAlone(p.agg, procNow, k, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

// decideAlone decides one request with neither a grant nor a leader.
func decideAlone(a *aggregator.Aggregator, clock aggregator.Clock, k quota.Key, cost int64) quota.Decision {
	var c aggregator.Call
	c.Reset([]quota.Request{{Key: k, Cost: cost, MaxWait: quota.LimitsWait}}, make([]quota.Decision, 1))
	c.Final, c.Alone = true, true
	a.Decide(clock, &c)
	return c.Out[0]
}

// await waits for a message other than a grant.
func (p *process) await(what string, is func(*quoratev1.AttachResponse) bool) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		said := slices.ContainsFunc(p.said, is)
		p.mu.Unlock()
		if said {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s did not come", what)
		}
	}
}

// yearly is the burst of the test's limits.
const yearly = 1_000_000

// admits waits until the leaders report that want was admitted of a key.
func (c *threeNodes) admits(k quota.Key, want int64) {
	c.t.Helper()
	c.eventually(15*time.Second, fmt.Sprintf("%d admitted of %v", want, k), func() error {
		r, err := c.rate(k)
		if err == nil && r.Admitted != want {
			err = fmt.Errorf("%d are", r.Admitted)
		}
		return err
	})
}

// leaves waits until a key has want less than its limit allows.
func (c *threeNodes) leaves(k quota.Key, want int64) {
	c.t.Helper()
	c.eventually(15*time.Second, fmt.Sprintf("%d taken of %v", want, k), func() error {
		r, err := c.running()[0].Key(c.t.Context(), k)
		switch {
		case err != nil:
			return err
		case len(r) != 1:
			return fmt.Errorf("%d counters", len(r))
		case yearly-r[0].Remaining != want:
			return fmt.Errorf("%d are: %v", yearly-r[0].Remaining, r[0])
		}
		return nil
	})
}

// TestClients attaches processes to three nodes, and breaks their streams in every
// way. The leaders know exactly, to the token, what the processes admitted.
func TestClients(t *testing.T) {
	t.Parallel()
	c := newThreeNodes(t, 4) // with stable leaders, which count what was admitted
	year := quota.Window(quota.FixedWindow, yearly, 365*24*time.Hour)
	soft := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: "soft"}, Durable: true}
	soft.SetFirst(year)
	other := quota.Limit{LimitName: quota.LimitName{Namespace: "api", Limit: "other"}}
	other.SetFirst(year)
	c.apply(soft, other)
	n1, n2, n3 := c.nodes["n1"], c.nodes["n2"], c.nodes["n3"]
	led := func(prefix string) quota.Key { return c.keyLedBy(soft.LimitName, "n3", prefix) }

	lost := led("lost") // now, while every node leads its preferred ranges

	t.Run("counted", func(t *testing.T) {
		k := led("counted")
		total := int64(0)
		for i, n := range c.running() {
			p := newProcess(t, quota.NodeID(fmt.Sprintf("counts-%d", i)))
			if err := p.attach(n); err != nil {
				t.Fatal(err)
			}
			defer func() { p.leave() }()
			p.await("limits", func(m *quoratev1.AttachResponse) bool { return len(m.GetLimits().GetLimits()) == 2 })
			for range 5 {
				total += p.use(k, 20)
				time.Sleep(5 * time.Millisecond) // lets reports through in between
			}
		}
		c.admits(k, total)
		c.eventually(5*time.Second, "every node says how many clients each has", func() error {
			for _, s := range n1.Status().Nodes {
				if s.Clients != 1 {
					return fmt.Errorf("%s: %d", s.Id, s.Clients)
				}
			}
			return nil
		})
	})

	t.Run("stream broken", func(t *testing.T) {
		k := led("broken")
		p := newProcess(t, "breaks")
		total := int64(0)
		for round := range 4 {
			if err := p.attach([]*Node{n1, n2}[round%2]); err != nil {
				t.Fatal(err)
			}
			p.await("limits", func(m *quoratev1.AttachResponse) bool { return m.GetLimits() != nil })
			p.settle() // at the other node, and repeats all earlier settlements
			total += p.use(k, 30)
			time.Sleep(time.Duration(round) * 3 * time.Millisecond) // reported or not
			p.leave()
		}
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		p.settle()
		c.admits(k, total)
		p.leave()
	})

	t.Run("settled too late", func(t *testing.T) {
		k := led("late")
		p := newProcess(t, "late")
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		p.await("limits", func(m *quoratev1.AttachResponse) bool { return m.GetLimits() != nil })
		total := p.use(k, 50)
		c.admits(k, total)
		p.leave()
		for i := range p.unheard[0].Report.Entries { // as if all answers had been lost
			e := &p.unheard[0].Report.Entries[i]
			e.Unreported = e.Used + e.Overdrawn
		}
		n1.clients.Sweep(n1.clock.Now().Add(90 * time.Second)) // forgets the attachment, but not yet what was booked of it
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		p.settle()
		total += p.use(k, 3)
		c.admits(k, total)
		p.leave()
	})

	t.Run("attached twice", func(t *testing.T) {
		p := newProcess(t, "twice")
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		first := p.at
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		p.await("goodbye", func(m *quoratev1.AttachResponse) bool { return m.GetGoodbye() != nil })
		first.cancel()
		<-first.done
		first.session.End() // must not end the second
		if own, _ := n1.clients.Count(); own != 1 {
			t.Errorf("%d are attached; want the second", own)
		}
		p.number = 0
		if err := p.attach(n1); !errors.Is(err, attach.ErrStale) {
			t.Errorf("an earlier attachment: %v", err)
		}
		p.leave()
	})

	t.Run("without permission to report", func(t *testing.T) {
		out := attach.NewOutbox()
		s, err := n1.Attach(&attach.Hello{Client: "checker", Incarnation: 7, Attachment: 1, May: func(string) bool { return true }, MayReport: func(ns string) bool { return ns != "web" }}, out)
		if err != nil {
			t.Fatal(err)
		}
		defer s.End()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for {
			m, err := out.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if l := m.GetLimits(); l != nil {
				if got := l.GetNoReport(); len(got) != 1 || got[0] != "web" {
					t.Errorf("no permission to report in %q; want web alone", got)
				}
				return
			}
		}
	})

	t.Run("limits and overrides", func(t *testing.T) {
		k := led("told")
		p := newProcess(t, "told")
		if err := p.attach(n1, "web"); err != nil {
			t.Fatal(err)
		}
		defer p.leave()
		p.await("limits of one namespace", func(m *quoratev1.AttachResponse) bool {
			l := m.GetLimits().GetLimits()
			return len(l) == 1 && l[0].Namespace == "web" && len(m.GetLimits().GetNoReport()) == 0
		})
		if err := n2.SetOverrides(t.Context(), []quota.Override{{Key: k, Burst: 5}, {Key: led("nobody's"), Burst: 6}}); err != nil {
			t.Fatal(err)
		}
		p.use(k, 1)
		p.await("the override", func(m *quoratev1.AttachResponse) bool {
			o := m.GetOverrides().GetOverrides()
			return len(o) == 1 && o[0].GetOverride().GetRule().GetBurst() == 5
		})
		if _, err := n2.DeleteOverrides(t.Context(), []quota.Key{k}); err != nil {
			t.Fatal(err)
		}
		p.await("its end", func(m *quoratev1.AttachResponse) bool {
			o := m.GetOverrides().GetOverrides()
			return len(o) == 1 && o[0].GetOverride() == nil && limitproto.DecodeKey(o[0].GetKey()) == k
		})
		changed := soft
		changed.Near = 50
		c.apply(changed, other)
		p.await("new limits", func(m *quoratev1.AttachResponse) bool {
			l := m.GetLimits().GetLimits()
			return len(l) == 1 && l[0].Near == changed.Near
		})
	})

	t.Run("node killed", func(t *testing.T) {
		k := led("killed")
		p := newProcess(t, "survivor")
		if err := p.attach(n1); err != nil {
			t.Fatal(err)
		}
		p.await("limits", func(m *quoratev1.AttachResponse) bool { return m.GetLimits() != nil })
		total := p.use(k, 50)
		c.admits(k, total) // n1 has reported it before it dies
		c.kill("n1")
		total += p.use(k, 30)
		p.leave()
		if err := p.attach(n2); err != nil {
			t.Fatal(err)
		}
		p.settle()
		c.admits(k, total)
		p.leave()
		if err := p.attach(n3); err != nil { // n3 does not know that n2 has booked it
			t.Fatal(err)
		}
		p.mu.Lock()
		clear(p.settled)
		p.mu.Unlock()
		p.settle()
		total += p.use(k, 3)
		c.admits(k, total)
		p.leave()
	})

	t.Run("answer lost with the node", func(t *testing.T) {
		c.start("n1", nil)
		c.awaitReady(30 * time.Second)
		k := lost
		p := newProcess(t, "unheard")
		if err := p.attach(c.nodes["n1"]); err != nil {
			t.Fatal(err)
		}
		p.await("limits", func(m *quoratev1.AttachResponse) bool { return m.GetLimits() != nil })
		total := p.use(k, 50)
		c.admits(k, total)
		c.kill("n1")
		p.leave()
		for i := range p.unheard[0].Report.Entries { // as if n1 had booked it, and its answers had been lost
			e := &p.unheard[0].Report.Entries[i]
			e.Unreported = e.Used + e.Overdrawn
		}
		if err := p.attach(n2); err != nil {
			t.Fatal(err)
		}
		p.settle()
		c.admits(k, 2*total)
		c.start("n1", nil) // its journal shows that it was booked: the second booking is given back
		c.leaves(k, total)
		p.leave()
	})

	t.Run("node stops", func(t *testing.T) {
		p := newProcess(t, "leaves")
		if err := p.attach(n2); err != nil {
			t.Fatal(err)
		}
		stopped := make(chan struct{})
		go func() { n2.ReleaseClients(); close(stopped) }()
		p.await("goodbye", func(m *quoratev1.AttachResponse) bool { return m.GetGoodbye().GetReason() != "" })
		p.leave()
		<-stopped
		if err := p.attach(n2); !errors.Is(err, attach.ErrStopping) {
			t.Errorf("a node that stops: %v", err)
		}
	})
}
