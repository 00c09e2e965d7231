package systemtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
	"github.com/quorate/quorate/internal/sim/scenario"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestHeadline plays scenarios of examples/sim twice: on three processes, and in the simulator with
// the delay that was measured between the processes. It checks that the measurement matches the
// prediction, and so guards against a simulator that has drifted from the product.
func TestHeadline(t *testing.T) {
	testspeed.Full(t)
	c := newServers(t, 16)
	c.run(headlineLimits(t))
	var table strings.Builder
	fmt.Fprintf(&table, "%-12s  %-18s %8s   %-14s %8s %8s\n", "", "net %, predicted", "measured", "worst excess", "measured", "proven")
	for _, name := range headlines {
		all := readScenarios(t, name)
		keys, leader := c.keysOfOneLeader(all)
		plan := arrivals(t, all[0].Loads, len(c.nodes), all[0].Duration, rand.New(rand.NewPCG(1, 1)))
		v := fire(t.Context(), dial(t, c.nodes), keys, plan)
		delay := c.delay() // under this load
		down := c.faults(v.began, all[0].Faults, leader)
		v.wg.Wait()
		if least := len(plan) / 4; len(v.shots) < least { // the ideal covers only the requests that were sent
			t.Errorf("%s: only %d of %d requests were sent: the machine is too slow for this test", name, len(v.shots), len(plan))
		}
		stall := stalled(v.shots)
		for i, s := range all {
			m, p := measure(v.shots, i, &s.Limit), predict(s, delay)
			t.Logf("%s: one-way delay %v; %d requests, %d not sent, %d unanswered (a node down for %v), nodes stalled for %v; admitted %d, the ideal %d",
				s.Name, delay.Round(time.Microsecond), m.asked, v.unsent, m.unanswered, down.Round(10*time.Millisecond), stall.Round(time.Millisecond), m.admitted, m.ideal)
			fmt.Fprintf(&table, "%-12s  %+7.2f .. %+7.2f %+8.2f   %5.1f .. %5.1f %8.1f %8.1f\n",
				s.Name, p.net[0], p.net[1], m.net(), p.excess[0], p.excess[1], m.excess, m.proven)
			p.check(t, s, &m, stall)
		}
	}
	t.Logf("three processes, and the simulator's prediction:\n%s", &table)
}

// headlines are files of examples/sim. The documents of a file differ only in the limit, and the
// test plays them at the same time.
var headlines = []string{"headline-even", "headline-moving", "headline-killed"}

func readScenarios(t *testing.T, name string) []*scenario.Scenario {
	t.Helper()
	file := "../examples/sim/" + name + ".yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if a := all[0]; s.Nodes != 3 || s.Duration != a.Duration || !reflect.DeepEqual(s.Loads, a.Loads) || !reflect.DeepEqual(s.Faults, a.Faults) {
			t.Fatalf("%s: %s cannot be played with %s on three nodes", file, s.Name, a.Name)
		}
	}
	return all
}

// headlineLimits returns a limit file with one limit per scenario, named after it.
func headlineLimits(t *testing.T) string {
	t.Helper()
	b := strings.Builder{}
	b.WriteString("version: 1\nnamespaces:\n  headline:\n    limits:\n")
	for _, name := range headlines {
		for _, s := range readScenarios(t, name) {
			fmt.Fprintf(&b, "      %s: {rate: %v, burst: %d, ceiling: %v}\n", s.Name, s.Limit.Rate, s.Limit.Burst, s.Limit.Ceiling)
		}
	}
	return b.String()
}

// keysOfOneLeader returns a key for each scenario, all led by one node, and that node.
func (c *servers) keysOfOneLeader(all []*scenario.Scenario) ([]quota.Key, *server) {
	c.t.Helper()
	var limits []string
	for _, s := range all {
		limits = append(limits, "headline/"+s.Name)
	}
	leader := c.nodes[0] // as in the simulator
	return c.keysLedBy(leader.id, limits...), leader
}

// delay returns the one-way delay of a message between two nodes: half the median of the average
// round-trip times.
func (c *servers) delay() time.Duration {
	c.t.Helper()
	var trips []time.Duration
	for _, s := range c.nodes {
		var st struct {
			Nodes []struct {
				ID        string  `json:"id"`
				RoundTrip float64 `json:"round_trip"` // seconds
			} `json:"nodes"`
		}
		for range 10 { // calls to all other nodes, which measure the round trips
			if err := get("http://"+s.httpAddr+"/v1/rates", &struct{}{}); err != nil {
				c.t.Fatal(err)
			}
		}
		if err := get("http://"+s.httpAddr+"/v1/status", &st); err != nil {
			c.t.Fatal(err)
		}
		for _, n := range st.Nodes {
			if n.ID != s.id && n.RoundTrip > 0 {
				trips = append(trips, time.Duration(n.RoundTrip*float64(time.Second)))
			}
		}
	}
	if len(trips) == 0 {
		c.t.Fatal("no node has measured a round trip")
	}
	slices.Sort(trips)
	return trips[len(trips)/2] / 2
}

// faults injects the faults of a scenario that began at began: it kills a leader and restarts it.
// It returns when the faults are over and says how long the node was down.
func (c *servers) faults(began time.Time, faults []sim.Fault, leader *server) (down time.Duration) {
	c.t.Helper()
	for _, f := range faults {
		if f.Kind != sim.Kill || !f.Leader || f.For == 0 || len(faults) > 1 {
			c.t.Fatalf("%+v: only one kill of the leader, for a while, is played on real processes", f)
		}
		time.Sleep(time.Until(began.Add(f.At))) // the scenario's times
		leader.kill()
		killed := time.Now()
		time.Sleep(f.For) // the scenario's times
		c.start(leader)
		c.awaitReady(leader, 10*time.Second)
		down += time.Since(killed)
	}
	return down
}

// prediction is the simulator's result for a scenario: the minimum and maximum over its seeds.
type prediction struct{ net, excess [2]float64 }

func predict(s *scenario.Scenario, delay time.Duration) (p prediction) {
	s.Network.Delay = delay
	for i, seed := range s.Seeds {
		o := s.Run(sim.Quorate, seed, nil)
		if i == 0 {
			p = prediction{[2]float64{o.NetPct, o.NetPct}, [2]float64{o.WorstExcess.Tokens, o.WorstExcess.Tokens}}
		}
		p.net = [2]float64{min(p.net[0], o.NetPct), max(p.net[1], o.NetPct)}
		p.excess = [2]float64{min(p.excess[0], o.WorstExcess.Tokens), max(p.excess[1], o.WorstExcess.Tokens)}
	}
	return p
}

// A shared machine does not give every process a processor at once, so the test widens the
// prediction. The margins come from eleven runs on two processors, six of them beside two or three
// processes that only computed:
//
//   - of net: 2.5 % of the ideal. Without such a process the largest deviation was 1.6 %, for a
//     load that moves: what the last node holds is not back when the run ends.
//   - of the worst excess, under soft: 20 tokens, a tenth of the burst. The largest deviation
//     was 12.
//   - of both: what refills in twice the time that nodes were stalled, of which at most half a
//     second counts. It covers what a stalled node should admit and what it holds meanwhile. The
//     largest deviation was 8.6 % below, under hard.
//   - of net, when a leader is killed: what refills in 0.4 s. Real elections took 0.55 to 1.1 s
//     here (docs/development/faults.md), and the simulator's network does not model processes that wait for
//     a disk. The largest deviation was 2.6 % below, under hard.
//
// A hard limit gets no margin above the limit, ever. Only the proven excess is held to that,
// because callers know the moments of decisions only approximately.
const (
	netMargin    = 2.5
	excessMargin = 20
	mostStalled  = 500 * time.Millisecond
	election     = 400 * time.Millisecond
)

// check compares the measurement with the prediction.
func (p *prediction) check(t *testing.T, s *scenario.Scenario, m *measured, stalled time.Duration) {
	t.Helper()
	perSecond := float64(s.Limit.Rate.Tokens) / s.Limit.Rate.Per.Seconds()
	tokens := 2 * perSecond * min(stalled, mostStalled).Seconds()
	net := netMargin + 100*tokens/float64(m.ideal)
	if len(s.Faults) > 0 {
		net += 100 * perSecond * election.Seconds() / float64(m.ideal)
	}
	if m.net() < p.net[0]-net || m.net() > p.net[1]+net {
		t.Errorf("%s: net %+.2f %%, predicted %+.2f to %+.2f, and %.1f more for a machine that stalled for %v", s.Name, m.net(), p.net[0], p.net[1], net, stalled)
	}
	if s.Limit.Ceiling == quota.Hard {
		if m.proven > 0 {
			t.Errorf("%s: %.2f tokens too many for certain; a hard limit admits none", s.Name, m.proven)
		}
		return
	}
	if most := p.excess[1] + excessMargin + tokens; m.excess > most {
		t.Errorf("%s: %.1f tokens beyond the limit's envelope, predicted %.1f to %.1f; for a machine that stalled for %v at most %.1f", s.Name, m.excess, p.excess[0], p.excess[1], stalled, most)
	}
}
