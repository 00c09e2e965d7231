package shard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/quorate/quorate/internal/quota"
)

// TestScenarios plays testdata/placement; -rewrite writes the results. Commands:
//
//	cluster ranges=8 replicas=3     a new cluster
//	node n1 n2 [zone=a]             nodes join, or return, as active nodes
//	    [state=draining]            or in another state
//	down n1, up n1                  a node stops, or runs again, without a change of its state
//	gone n1                         a node is no longer listed
//	place [meta=3]                  the wanted placement, and the counts of each node
//	moves [range=0]                 the steps of each range, or of one
//	run [steps=N]                   all groups execute their steps, or at most N each
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/placement", func(t *testing.T, path string) {
		var s *scenario
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				s = &scenario{cluster: &cluster{world: &world{}, down: map[quota.NodeID]bool{}}}
			}
			s.t = t
			return s.run(d)
		})
	})
}

// scenario is a cluster with the events of a file.
type scenario struct{ *cluster }

func (s *scenario) run(d *datadriven.TestData) string {
	s.t.Helper()
	switch d.Cmd {
	case "cluster":
		s.ranges, s.replicas = s.number(d, "ranges", 8), s.number(d, "replicas", 3)
	case "node":
		s.node(d)
	case "down", "up":
		for _, n := range names(d) {
			s.down[n] = d.Cmd == "down"
		}
	case "gone":
		s.nodes = slices.DeleteFunc(s.nodes, func(n Node) bool { return slices.Contains(names(d), n.ID) })
	case "place":
		return s.placeAll(d)
	case "moves":
		return s.moves(d)
	case "run":
		return s.runSteps(s.number(d, "steps", 1000))
	default:
		s.t.Fatalf("%s: no such word", d.Pos)
	}
	return ""
}

func arg(d *datadriven.TestData, name, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			return a.Vals[0]
		}
	}
	return otherwise
}

func names(d *datadriven.TestData) (out []quota.NodeID) {
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, quota.NodeID(a.Key))
		}
	}
	return out
}

func (s *scenario) number(d *datadriven.TestData, name string, otherwise int) int {
	s.t.Helper()
	n, err := strconv.Atoi(arg(d, name, strconv.Itoa(otherwise)))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *scenario) node(d *datadriven.TestData) {
	states := map[string]NodeState{"active": Active, "draining": Draining, "leaving": Leaving, "dead": Dead}
	for _, id := range names(d) {
		i := slices.IndexFunc(s.nodes, func(n Node) bool { return n.ID == id })
		if i < 0 {
			i = len(s.nodes)
			s.nodes = append(s.nodes, Node{ID: id, Zone: arg(d, "zone", "")})
		}
		s.nodes[i].State = states[arg(d, "state", "active")]
	}
}

// placeAll computes a placement; the first one also becomes the actual state.
func (s *scenario) placeAll(d *datadriven.TestData) string {
	if n := s.number(d, "meta", 0); n > 0 {
		s.asked = PlaceMeta(s.nodes, n, s.asked)
		return "meta " + join(s.asked) + "\n"
	}
	before := s.want
	want, err := Place(s.nodes, s.ranges, s.replicas, before)
	if err != nil {
		return err.Error() + "\n"
	}
	s.want = want
	if len(before) == 0 {
		before = make([]Placement, len(want))
		for _, p := range want {
			s.groups = append(s.groups, bootstrap(p.Voters))
		}
	}
	var b strings.Builder
	for r, p := range want {
		fmt.Fprintf(&b, "range %d: %s", r, join(p.Voters))
		if len(p.Removed) > 0 {
			fmt.Fprintf(&b, ", removed %s", join(p.Removed))
		}
		b.WriteByte('\n')
	}
	return b.String() + s.summary(moved(before, want))
}

func join(nodes []quota.NodeID) string {
	var out []string
	for _, n := range nodes {
		out = append(out, string(n))
	}
	return strings.Join(out, " ")
}

func (s *scenario) summary(moved int) string {
	leads := map[quota.NodeID]int{}
	for _, p := range s.want {
		leads[p.Voters[0]]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d new replicas; replicas/leaders:", moved)
	for _, n := range slices.SortedFunc(slices.Values(s.nodes), func(a, b Node) int { return strings.Compare(string(a.ID), string(b.ID)) }) {
		fmt.Fprintf(&b, " %s %d/%d", n.ID, held(s.want, n.ID), leads[n.ID])
	}
	return b.String() + "\n"
}

func (s *scenario) moves(d *datadriven.TestData) string {
	var is []Actual
	for _, g := range s.groups {
		is = append(is, s.actual(g))
	}
	only := s.number(d, "range", -1)
	var b strings.Builder
	for r := range min(len(s.want), len(is)) {
		steps := Steps(s.want[r], false, is[r])
		if len(steps) == 0 || only >= 0 && r != only {
			continue
		}
		fmt.Fprintf(&b, "range %d\n", r)
		for _, step := range steps {
			fmt.Fprintf(&b, "  %s\n", step)
		}
	}
	return b.String()
}

// runSteps prints how many steps of each kind were executed, the smallest and largest number of voters of a group on
// the way, and the reasons for which groups wait.
func (s *scenario) runSteps(limit int) string {
	taken, waits, least, most := map[Action]int{}, map[string]int{}, 1000, 0
	for r, g := range s.groups {
		for range limit {
			least, most = min(least, len(g.voters)), max(most, len(g.voters))
			step := s.step(g, &s.want[r], false)
			if step.Do == Done {
				break
			}
			if step.Do == Wait {
				waits[step.String()]++
				break
			}
			taken[step.Do]++
			for _, n := range slices.Concat(g.voters, g.nonvoters) {
				g.data[n] = g.data[n] || s.alive(n)
			}
		}
		least, most = min(least, len(g.voters)), max(most, len(g.voters))
	}
	var b strings.Builder
	for _, do := range slices.Sorted(maps.Keys(taken)) {
		fmt.Fprintf(&b, "%d x %s, ", taken[do], do)
	}
	fmt.Fprintf(&b, "%d to %d voters on the way\n", least, most)
	for _, w := range slices.Sorted(maps.Keys(waits)) {
		fmt.Fprintf(&b, "%d ranges %s\n", waits[w], w)
	}
	return b.String()
}

// TestNext plays testdata/next: the wanted and the actual state, and the next step.
//
//	next want=(a,b,c) is=(a,b,d) [removed=(d)] [nonvoters=(c)] [leader=a] [meta]
//	    [behind=(c)] [dead=(d)]
//
// A node that is neither behind nor dead is alive and has caught up; the leader is the first voter.
func TestNext(t *testing.T) {
	datadriven.RunTest(t, "testdata/next/rules.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		list := func(name string) (out []quota.NodeID) {
			for _, a := range d.CmdArgs {
				for _, v := range a.Vals {
					if a.Key == name && v != "" {
						out = append(out, quota.NodeID(v))
					}
				}
			}
			return out
		}
		want, is := Placement{list("want"), list("removed")}, Actual{Voters: list("is"), Nonvoters: list("nonvoters")}
		is.Leader = quota.NodeID(arg(d, "leader", join(is.Voters[:min(1, len(is.Voters))])))
		is.Alive, is.Ready = map[quota.NodeID]bool{}, map[quota.NodeID]bool{}
		for _, n := range slices.Concat(want.Voters, is.Voters, is.Nonvoters) {
			is.Alive[n] = !slices.Contains(list("dead"), n)
			is.Ready[n] = is.Alive[n] && !slices.Contains(list("behind"), n)
		}
		return Next(want, d.HasArg("meta"), is).String() + "\n"
	})
}
