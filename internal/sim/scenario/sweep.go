package scenario

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/config"
)

// sweep makes a scenario for each combination of its values. Unused dimensions are empty.
type sweep struct {
	nodes, clumps []int
}

const sweepExample = "{nodes: [3, 10, 50], clump: [1, 10]}"

// sweepFields are the fields of a sweep.
var sweepFields = []string{"nodes", "clump"}

// sweeps reads the sweep. The number of nodes must be given there or in nodes, not in both.
func (p *parser) sweeps(d part) {
	d.read("sweep", func(v config.Value) {
		s, ok := p.part(v, sweepExample, sweepFields...)
		if ok && len(s.given) == 0 {
			v.Fault("sweeps nothing; write nodes, clump or both, such as %s", sweepExample)
		}
		s.read("nodes", func(v config.Value) {
			p.sweep.nodes = different(v, MaxNodes, "[3, 10, 50]")
			if d.has("nodes") {
				v.Fault("cannot be combined with nodes; remove one")
			}
		})
		s.read("clump", func(v config.Value) { p.sweep.clumps = different(v, MaxClump, "[1, 10]") })
		if !s.has("nodes") && !d.has("nodes") {
			d.Missing("nodes", "is missing; write nodes: 10, or sweep: {nodes: [3, 10, 50]}")
		}
	})
	if !d.has("nodes") && !d.has("sweep") {
		d.Missing("nodes", "is missing; write nodes: 10, or sweep: {nodes: [3, 10, 50]}")
	}
}

// different reads a list of distinct integers from 1 to high.
func different(v config.Value, high int64, example string) (list []int) {
	v.Items(MaxSwept, example, func(v config.Value) {
		var n int64
		switch ok := v.Whole(&n, 1, high); {
		case ok && slices.Contains(list, int(n)):
			v.Fault("is %d, a duplicate; remove one", n)
		case ok:
			list = append(list, int(n))
		}
	})
	return list
}

// least returns the smallest number of nodes: the nodes in a scenario must exist in each variant.
func (s *sweep) least() int64 {
	if len(s.nodes) == 0 {
		return MaxNodes
	}
	return int64(slices.Min(s.nodes))
}

// count returns the number of variants.
func (s *sweep) count() int { return max(1, len(s.nodes)) * max(1, len(s.clumps)) }

// all returns the variants: sc alone if nothing is swept.
func (s *sweep) all(sc *Scenario) []*Scenario {
	sc.Base = sc.Name
	list := []*Scenario{sc}
	list = each(list, s.nodes, "n", func(sc *Scenario, n int) { sc.Nodes, sc.SweptNodes = n, true })
	return each(list, s.clumps, "c", func(sc *Scenario, n int) {
		sc.Loads = slices.Clone(sc.Loads)
		for i := range sc.Loads {
			sc.Loads[i].Clump = n
		}
	})
}

// each makes a copy of every scenario for every value, and adds the value to its name.
func each(list []*Scenario, values []int, letter string, set func(*Scenario, int)) (out []*Scenario) {
	if len(values) == 0 {
		return list
	}
	for _, sc := range list {
		for _, v := range values {
			made := *sc
			made.Name = fmt.Sprintf("%s-%s%d", sc.Name, letter, v)
			set(&made, v)
			out = append(out, &made)
		}
	}
	return out
}
