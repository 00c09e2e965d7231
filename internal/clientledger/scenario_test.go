package clientledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// TestScenarios plays the files of testdata/scenarios: one leader, one node, its clients, and no
// network between them.
//
//	world rate=10 burst=10 [hard] [window] clients=2
//	ask client=0 [cost=1] [times=1]      checks at a client; messages are passed on, unless it is silent
//	pass d=100ms                         time passes
//	break client=0                       its stream breaks; it keeps the last report
//	attach client=0                      it attaches again
//	final client=0                       its last report arrives; inherit books it as of a dead node
//	show                                 what the node holds and has allocated, and what is booked
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scene{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.do(d)
			return s.out.String()
		})
	})
}

type scene struct {
	*world
	t     *testing.T
	out   strings.Builder
	limit quota.Limit
	lasts map[int][]quota.Report
}

func (s *scene) do(d *datadriven.TestData) {
	switch d.Cmd {
	case "world":
		s.begin(d)
	case "ask":
		s.askFor(d)
	case "pass":
		var text string
		d.ScanArgs(s.t, "d", &text)
		length, err := time.ParseDuration(text)
		if err != nil {
			s.t.Fatal(err)
		}
		s.run(length, 10*time.Millisecond)
	case "break", "attach", "final", "inherit":
		s.stream(d)
	}
	s.show()
}

func (s *scene) begin(d *datadriven.TestData) {
	var rate, burst int64
	var clients int
	d.ScanArgs(s.t, "rate", &rate)
	d.ScanArgs(s.t, "burst", &burst)
	d.ScanArgs(s.t, "clients", &clients)
	c := quota.Soft
	if d.HasArg("hard") {
		c = quota.Hard
	}
	s.limit = bucketLimit(c, rate, burst)
	if s.limit.Ceiling == quota.Hard {
		s.limit.Decide = quota.Locally // so that tokens are allocated
	}
	if d.HasArg("window") {
		s.limit.SetFirst(quota.Window(quota.FixedWindow, burst, time.Second))
	}
	s.world, s.lasts = newWorld(s.t, s.limit, clients), map[int][]quota.Report{}
}

func (s *scene) askFor(d *datadriven.TestData) {
	cost, times := int64(1), 1
	client := s.client(d)
	if d.HasArg("cost") {
		d.ScanArgs(s.t, "cost", &cost)
	}
	if d.HasArg("times") {
		d.ScanArgs(s.t, "times", &times)
	}
	admitted := 0
	for range times {
		p, asked := s.procs[client], s.ask
		if d.HasArg("silent") {
			asked = s.askSilently
		}
		if asked(p, s.limit.LimitName, "k", cost) {
			admitted++
		}
	}
	fmt.Fprintf(&s.out, "admitted %d of %d\n", admitted, times)
}

// ask waits for a grant if it would settle the decision, and delivers messages.
func (s *scene) ask(p *proc, l quota.LimitName, key string, cost int64) bool {
	for range 4 {
		if _, need := s.try(p.agg, l, key, 0); need == aggregator.Nothing {
			break
		}
		s.pump()
		s.now = s.now.Add(3 * time.Millisecond)
	}
	ok := s.world.ask(p, l, key, cost)
	s.pump()
	s.now = s.now.Add(3 * time.Millisecond)
	return ok
}

// askSilently delivers no messages.
func (s *scene) askSilently(p *proc, l quota.LimitName, key string, cost int64) bool {
	d := s.check(p.agg, l, key, cost)
	if d.Allowed {
		p.sum += cost
	}
	return d.Allowed
}

func (s *scene) client(d *datadriven.TestData) (i int) {
	d.ScanArgs(s.t, "client", &i)
	return i
}

func (s *scene) stream(d *datadriven.TestData) {
	i := s.client(d)
	p := s.procs[i]
	switch d.Cmd {
	case "break":
		s.b.Detach(s.now, p.id, 1, p.term)
		s.lasts[i] = append(s.lasts[i], p.agg.Leave(s.now, 0)...)
	case "attach":
		s.attach(p)
	case "final":
		for _, r := range s.lasts[i] {
			if err := s.b.Final(s.now, &r); err != nil {
				fmt.Fprintf(&s.out, "%v\n", err)
			}
		}
	case "inherit":
		for _, r := range s.lasts[i] {
			s.b.Inherit(s.now, &r)
		}
	}
	s.pump()
}

func (s *scene) show() {
	k := quota.Key{LimitName: s.limit.LimitName, Key: "k"}
	level, _ := s.ledger.Key(s.now, k)
	var sum int64
	for _, p := range s.procs {
		sum += p.sum
		fmt.Fprintf(&s.out, "%s holds %d, has admitted %d\n", p.id, p.agg.Held(k).Tokens(), p.sum)
	}
	fmt.Fprintf(&s.out, "node has lent %d; leader: %d remain, %d booked of %d\n", s.node.Allocated(k).Tokens(), level.Remaining, s.ledger.Booked(s.limit.LimitName).Tokens(), sum)
}
