package shard

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/quota"
)

// Action is what a step does to a group.
type Action uint8

// The actions. AddNonvoter to Remove are changes of the Raft configuration, of
// one node each, or a transfer of the leadership; Forget is a change of the placement.
const (
	Done        Action = iota // nothing: what is wanted is reached
	Wait                      // nothing now: Why says what for; ask again
	AddNonvoter               // let the node have the log, without a vote
	Promote                   // let a non-voter vote
	Transfer                  // hand the leadership to the node
	Demote                    // take the vote, not the log; in the meta group only
	Remove                    // take the node out of the configuration
	Forget                    // take the node out of Removed: it is in no configuration any more
)

func (a Action) String() string {
	return nameOf(a, "done", "wait", "add non-voter", "promote", "transfer", "demote", "remove", "forget")
}

// Actual is what a group's leader says of it.
type Actual struct {
	Voters, Nonvoters []quota.NodeID        // the configuration, in no order
	Leader            quota.NodeID          // empty: none is known
	Ready             map[quota.NodeID]bool // caught up; the leader has, named or not
	Alive             map[quota.NodeID]bool // heard from recently, of all nodes of the cluster; oneself too
}

// Step is one thing to do for a group.
type Step struct {
	Do   Action
	Node quota.NodeID // empty for Done, and for Wait if no one node is waited for
	Why  string       // for people
}

func (s Step) String() string {
	if s.Node == "" {
		return fmt.Sprintf("%s: %s", s.Do, s.Why)
	}
	return fmt.Sprintf("%s %s: %s", s.Do, s.Node, s.Why)
}

// Next returns the next step for a group, given what is wanted of it and what
// is. The caller carries it out and asks again with what is then; it may do so
// after a crash at any moment, and with another placement. A step is safe with
// any Actual that was true at one moment and whose configuration is still in
// force. meta is true for the meta group, in which all nodes of the cluster
// stay as non-voters. The doc of the package lists the rules.
func Next(want Placement, meta bool, is Actual) Step {
	if len(want.Voters) == 0 {
		return Step{Wait, "", "no voters are wanted; a group needs one"}
	}
	if len(is.Voters) == 0 {
		return Step{Wait, "", "its configuration is not known"}
	}
	live := is.count(is.Voters, is.isAlive)
	if !majority(live, len(is.Voters)) {
		return Step{Wait, "", fmt.Sprintf("%d of %d voters are alive; no majority", live, len(is.Voters))}
	}
	if !slices.Contains(is.Voters, is.Leader) || !is.isAlive(is.Leader) {
		return Step{Wait, "", fmt.Sprintf("no leader is known that votes and is alive, but %q", is.Leader)}
	}
	g := stepper{want, meta, is}
	var wait *Step
	for _, try := range []func() (Step, bool){g.promote, g.shrink, g.add, g.tidy, g.forget} {
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

// isReady says whether a node is alive and has caught up, as the leader has.
func (a Actual) isReady(n quota.NodeID) bool { return a.Alive[n] && (a.Ready[n] || n == a.Leader) }

func (a Actual) count(nodes []quota.NodeID, is func(quota.NodeID) bool) (n int) {
	for _, id := range nodes {
		if is(id) {
			n++
		}
	}
	return n
}

// stepper finds a step of each kind. The answer is false if there is nothing
// of that kind to do, and a Wait if there is but not now.
type stepper struct {
	want Placement
	meta bool
	is   Actual
}

// promote lets one wanted non-voter vote that is ready, as long as there is at most
// one voter too many.
func (g stepper) promote() (Step, bool) {
	if len(g.is.Voters) > len(g.want.Voters) {
		return Step{}, false
	}
	for _, n := range g.want.Voters {
		if slices.Contains(g.is.Nonvoters, n) && g.is.isReady(n) {
			return Step{Promote, n, "it is wanted as a voter and has caught up"}, true
		}
	}
	return Step{}, false
}

// shrink takes out one voter that is not wanted, if there are more than wanted:
// the dead first, the leader last, after it has handed over.
func (g stepper) shrink() (Step, bool) {
	if len(g.is.Voters) <= len(g.want.Voters) {
		return Step{}, false
	}
	extra := g.notWanted(g.is.Voters)
	if i := slices.IndexFunc(extra, func(n quota.NodeID) bool { return !g.is.isAlive(n) }); i >= 0 {
		return g.takeOut(extra[i], "it is dead and not wanted"), true
	}
	for _, n := range extra {
		if n != g.is.Leader {
			return g.shrinkBy(n), true
		}
	}
	return g.handOver(), true
}

// shrinkBy takes out a voter that is alive, unless the rest could not go on
// without it.
func (g stepper) shrinkBy(n quota.NodeID) Step {
	rest := slices.DeleteFunc(slices.Clone(g.is.Voters), func(v quota.NodeID) bool { return v == n })
	if ready := g.is.count(rest, g.is.isReady); !majority(ready, len(rest)) {
		return Step{Wait, n, fmt.Sprintf("it is to go, but only %d of the other %d voters are ready", ready, len(rest))}
	}
	return g.takeOut(n, "it is not wanted as a voter")
}

func (g stepper) takeOut(n quota.NodeID, why string) Step {
	if g.meta && !slices.Contains(g.want.Removed, n) {
		return Step{Demote, n, why}
	}
	return Step{Remove, n, why}
}

// handOver moves the leadership off a node that is to go.
func (g stepper) handOver() Step {
	for _, n := range g.want.Voters {
		if slices.Contains(g.is.Voters, n) && g.is.isReady(n) {
			return Step{Transfer, n, fmt.Sprintf("%s leads and is not wanted as a voter", g.is.Leader)}
		}
	}
	return Step{Wait, g.is.Leader, "it leads and is to go, but no wanted voter is ready to lead"}
}

// add brings in one wanted node, as a non-voter; one at a time catches up.
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
		return Step{AddNonvoter, missing[0], "it is wanted as a voter and has nothing yet"}, true
	}
	if len(gone) > 0 {
		return Step{Wait, gone[0], "it is wanted as a voter, but not heard from"}, true
	}
	return Step{}, false
}

// tidy takes out non-voters that nobody wants: of the meta group only those
// who leave the cluster.
func (g stepper) tidy() (Step, bool) {
	for _, n := range g.notWanted(g.is.Nonvoters) {
		if !g.meta || slices.Contains(g.want.Removed, n) {
			return Step{Remove, n, "it is not wanted"}, true
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
