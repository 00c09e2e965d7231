package shard

import (
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Steps returns what is to be done until a group is as wanted, provided that
// everything goes well: who is alive stays alive, and who is added catches up. It is
// the answers of Next, one after the other, without the final Done; a last Wait says
// what stands in the way. It changes none of its arguments.
func Steps(want Placement, meta bool, is Actual) []Step {
	is = Actual{slices.Clone(is.Voters), slices.Clone(is.Nonvoters), is.Leader, map[quota.NodeID]bool{}, is.Alive}
	for _, n := range slices.Concat(is.Voters, is.Nonvoters) {
		is.Ready[n] = is.isAlive(n)
	}
	var out []Step
	// Each node is added, promoted, taken out and forgotten at most once.
	for range 4*(len(want.Voters)+len(want.Removed)+len(is.Voters)+len(is.Nonvoters)) + 1 {
		step := Next(want, meta, is)
		if step.Do == Done {
			break
		}
		out = append(out, step)
		if step.Do == Wait {
			break
		}
		want, is = after(step, want, is)
	}
	return out
}

// after returns what is wanted and what is when a step has been done.
func after(s Step, want Placement, is Actual) (Placement, Actual) {
	others := func(nodes []quota.NodeID) []quota.NodeID {
		return slices.DeleteFunc(nodes, func(n quota.NodeID) bool { return n == s.Node })
	}
	switch s.Do {
	case AddNonvoter:
		is.Nonvoters = append(is.Nonvoters, s.Node)
		is.Ready[s.Node] = true
	case Promote:
		is.Nonvoters = others(is.Nonvoters)
		is.Voters = append(is.Voters, s.Node)
	case Transfer:
		is.Leader = s.Node
	case Demote:
		is.Voters = others(is.Voters)
		is.Nonvoters = append(is.Nonvoters, s.Node)
	case Remove:
		is.Voters, is.Nonvoters = others(is.Voters), others(is.Nonvoters)
	case Forget:
		want = want.Forget(s.Node)
	case Done, Wait:
	}
	return want, is
}
