package shard

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Action is the kind of a step.
type Action uint8

// The actions. AddNonvoter, Promote, Demote and Remove change the Raft configuration by one node,
// Transfer the leader; Forget changes the placement.
const (
	Done        Action = iota // nothing to do: the wanted placement is reached
	Wait                      // nothing to do now, for the reason in Why: ask again
	AddNonvoter               // replicate the log to the node, without a vote
	Promote                   // make a non-voter a voter
	Transfer                  // transfer the leadership to the node
	Demote                    // make a voter a non-voter; in the meta group only
	Remove                    // remove the node from the configuration
	Forget                    // remove the node from Removed: no configuration contains it any more
)

func (a Action) String() string {
	return nameOf(a, "done", "wait", "add non-voter", "promote", "transfer", "demote", "remove", "forget")
}

// Actual is the state of a group as its leader reports it.
type Actual struct {
	Voters, Nonvoters []quota.NodeID        // the configuration, unordered
	Leader            quota.NodeID          // empty if unknown
	Ready             map[quota.NodeID]bool // nodes that have caught up; the leader always has
	Alive             map[quota.NodeID]bool // nodes of the cluster heard from recently, including the local one
}

// Step is one change of a group.
type Step struct {
	Do   Action
	Node quota.NodeID // empty for Done, and for a Wait for no particular node
	Why  string       // reason, for people
}

func (s Step) String() string {
	if s.Node == "" {
		return fmt.Sprintf("%s: %s", s.Do, s.Why)
	}
	return fmt.Sprintf("%s %s: %s", s.Do, s.Node, s.Why)
}

// Next returns the next step for a group, given the wanted and the actual state. The caller
// executes it and asks again with the new state. It may do so after a crash at any moment, and with
// another placement. A step is safe for any Actual that was true at one moment and whose
// configuration is still active. meta says that it is the meta group, which keeps all nodes of
// the cluster as non-voters. The package comment lists the rules.
func Next(want Placement, meta bool, is Actual) Step {
	if len(want.Voters) == 0 {
		return Step{Wait, "", "no voters are wanted; a group needs one"}
	}
	if len(is.Voters) == 0 {
		return Step{Wait, "", "its configuration is unknown"}
	}
	live := is.count(is.Voters, is.isAlive)
	if !majority(live, len(is.Voters)) {
		return Step{Wait, "", fmt.Sprintf("%d of %d voters are alive; no majority", live, len(is.Voters))}
	}
	if !slices.Contains(is.Voters, is.Leader) || !is.isAlive(is.Leader) {
		return Step{Wait, "", fmt.Sprintf("no live voter is known as leader, but %q", is.Leader)}
	}
	g := stepper{want, meta, is}
	var wait *Step
	for _, try := range []func() (Step, bool){g.promote, g.shrink, g.add, g.removeNonvoters, g.forget} {
		step, ok := try()
		if ok && step.Do != Wait {
			return step
		}
		if ok && wait == nil {
			wait = &step
		}
	}
	if wait != nil {
		return *wait
	}
	return Step{Done, "", "as wanted"}
}

func majority(live, voters int) bool { return live > voters/2 }

func (a Actual) isAlive(n quota.NodeID) bool { return a.Alive[n] }

// isReady reports whether a node is alive and has caught up with the leader.
func (a Actual) isReady(n quota.NodeID) bool { return a.Alive[n] && (a.Ready[n] || n == a.Leader) }

func (a Actual) count(nodes []quota.NodeID, is func(quota.NodeID) bool) (n int) {
	for _, id := range nodes {
		if is(id) {
			n++
		}
	}
	return n
}

// stepper finds a step of each kind. Its methods return false if there is nothing of that kind to
// do, and a Wait if it cannot be done now.
type stepper struct {
	want Placement
	meta bool
	is   Actual
}

// promote promotes one wanted non-voter that has caught up, unless there is already a voter too
// many.
func (g stepper) promote() (Step, bool) {
	if len(g.is.Voters) > len(g.want.Voters) {
		return Step{}, false
	}
	for _, n := range g.want.Voters {
		if slices.Contains(g.is.Nonvoters, n) && g.is.isReady(n) {
			return Step{Promote, n, "planned as a voter and caught up"}, true
		}
	}
	return Step{}, false
}

// shrink removes one unwanted voter if there are more voters than wanted: dead ones first, the
// leader last, after it has transferred the leadership.
func (g stepper) shrink() (Step, bool) {
	if len(g.is.Voters) <= len(g.want.Voters) {
		return Step{}, false
	}
	extra := g.notWanted(g.is.Voters)
	if i := slices.IndexFunc(extra, func(n quota.NodeID) bool { return !g.is.isAlive(n) }); i >= 0 {
		return g.remove(extra[i], "dead and no longer planned"), true
	}
	for _, n := range extra {
		if n != g.is.Leader {
			// The rest must be able to continue without it.
			rest := slices.DeleteFunc(slices.Clone(g.is.Voters), func(v quota.NodeID) bool { return v == n })
			if ready := g.is.count(rest, g.is.isReady); !majority(ready, len(rest)) {
				return Step{Wait, n, fmt.Sprintf("to be removed, but only %d of the other %d voters are ready", ready, len(rest))}, true
			}
			return g.remove(n, "not planned as a voter"), true
		}
	}
	for _, n := range g.want.Voters {
		if slices.Contains(g.is.Voters, n) && g.is.isReady(n) {
			return Step{Transfer, n, fmt.Sprintf("%s leads and is not wanted as a voter", g.is.Leader)}, true
		}
	}
	return Step{Wait, g.is.Leader, "it leads and is to go, but no wanted voter is ready to lead"}, true
}

func (g stepper) remove(n quota.NodeID, why string) Step {
	if g.meta && !slices.Contains(g.want.Removed, n) {
		return Step{Demote, n, why}
	}
	return Step{Remove, n, why}
}

// add adds one wanted node as a non-voter. Only one catches up at a time.
func (g stepper) add() (Step, bool) {
	var missing, gone []quota.NodeID
	for _, n := range g.want.Voters {
		switch {
		case slices.Contains(g.is.Voters, n):
		case !g.is.isAlive(n):
			gone = append(gone, n)
		case slices.Contains(g.is.Nonvoters, n):
			return Step{Wait, n, "it has to catch up before it votes"}, true
		default:
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return Step{AddNonvoter, missing[0], "planned as a voter, without data yet"}, true
	}
	if len(gone) > 0 {
		return Step{Wait, gone[0], "planned as a voter, but not reporting"}, true
	}
	return Step{}, false
}

// removeNonvoters removes unwanted non-voters. In the meta group these are only nodes that leave the cluster.
func (g stepper) removeNonvoters() (Step, bool) {
	for _, n := range g.notWanted(g.is.Nonvoters) {
		if !g.meta || slices.Contains(g.want.Removed, n) {
			return Step{Remove, n, "no longer planned"}, true
		}
	}
	return Step{}, false
}

func (g stepper) forget() (Step, bool) {
	for _, n := range g.want.Removed {
		if !slices.Contains(g.is.Voters, n) && !slices.Contains(g.is.Nonvoters, n) {
			return Step{Forget, n, "it has left the group"}, true
		}
	}
	return Step{}, false
}

// notWanted returns the nodes that are not wanted as voters, sorted.
func (g stepper) notWanted(nodes []quota.NodeID) []quota.NodeID {
	out := slices.DeleteFunc(slices.Clone(nodes), func(n quota.NodeID) bool { return slices.Contains(g.want.Voters, n) })
	slices.Sort(out)
	return out
}

// Steps returns the steps that reach the wanted placement if everything goes well: live nodes stay alive, and added
// ones catch up. They are the successive results of Next without the final Done; a last Wait names the obstacle.
// Steps does not modify its arguments.
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

// after returns the wanted and the actual state after a step.
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
