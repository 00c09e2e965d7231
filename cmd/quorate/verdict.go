package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster"
)

// verdict is how a cluster is, in one line.
type verdict struct{ word, text string }

// The words of verdicts.
const (
	healthy  = "healthy"
	changing = "changing"
	degraded = "degraded"
	draining = "draining"
	notReady = "not ready"
)

// fine says that nobody has to do anything.
func (v verdict) fine() bool { return v.word == healthy || v.word == changing }

func (v verdict) colour() string {
	switch v.word {
	case healthy:
		return green
	case notReady:
		return red
	}
	return yellow
}

// verdictOf says how a cluster is: what is broken first, then what changes. What the nodes
// say of their own readiness counts each for itself: it is not ready when none of them is.
func verdictOf(st *quoratev1.GetStatusResponse, list ...said) verdict {
	if len(list) == 0 {
		list = []said{{node: st.Node, reason: whyUnready(st)}}
	}
	broken := slices.Concat(brokenNodes(st), brokenRanges(st))
	ongoing := changes(st)
	not, lost := unready(list), lostRanges(st)
	if id := givesBack(st, list); len(not) > 0 && id != "" && lost == 0 {
		return verdict{draining, strings.Join(slices.Concat([]string{fmt.Sprintf("node %s gives back what it leads", show(id))}, broken, ongoing), "; ")}
	}
	if ready := answered(list) - len(not); ready > 0 {
		broken = slices.Concat(unreadyNodes(not), broken)
	}
	switch {
	case len(not) > 0 && len(not) == answered(list):
		return verdict{notReady, strings.Join(slices.Concat([]string{show(whyUnready(st))}, broken, ongoing), "; ")}
	case len(broken) > 0:
		return verdict{degraded, strings.Join(append(broken, ongoing...), "; ")}
	case len(ongoing) > 0:
		return verdict{changing, strings.Join(ongoing, "; ")}
	}
	return verdict{healthy, fmt.Sprintf("%s, %s, %s", plural(len(st.Nodes), "node"), plural(len(st.Ranges), "range"), voters(st))}
}

// addVerdict writes into a status what the table says: how the cluster is, and what each
// node says of its own readiness.
func addVerdict(st *quoratev1.GetStatusResponse, list []said, v verdict) {
	st.Health, st.HealthText, st.Ready = v.word, v.text, false
	for _, n := range st.Nodes {
		n.Ready, n.Reason = nil, ""
	}
	for _, s := range list {
		st.Ready = st.Ready || s.fault == "" && s.reason == ""
		i := slices.IndexFunc(st.Nodes, func(n *quoratev1.NodeStatus) bool { return n.Id == s.node })
		if i < 0 {
			continue
		}
		if st.Nodes[i].Reason = s.reason; s.fault == "" {
			st.Nodes[i].Ready = new(s.reason == "")
		}
	}
	if st.Ready {
		st.Reason = ""
	}
}

// moves says whether a range is not as wanted yet. One of which that is not known does not:
// without a leader of the meta group nothing moves.
func moves(r *quoratev1.RangeStatus) bool {
	return len(r.Former) > 0 || r.Step != "" && r.Step != cluster.StepUnknown
}

// voters says how many voters ranges have.
func voters(st *quoratev1.GetStatusResponse) string {
	least, most := len(st.Nodes), 0
	for _, r := range st.Ranges {
		least, most = min(least, len(r.Replicas)), max(most, len(r.Replicas))
	}
	if least >= most {
		return "all with " + plural(most, "voter")
	}
	return fmt.Sprintf("with %d to %s", least, plural(most, "voter"))
}

// maxNamed bounds the nodes that a verdict names one by one.
const maxNamed = 5

func brokenNodes(st *quoratev1.GetStatusResponse) (out []string) {
	silent := 0
	for _, n := range st.Nodes {
		switch {
		case !n.Connected && silent < maxNamed:
			silent++
			text := fmt.Sprintf("node %s does not answer", show(n.Id))
			if n.Silent != nil {
				text += ", for " + span(n.Silent.AsDuration().Round(time.Second))
			}
			out = append(out, text)
		case !n.Connected:
			silent++
		case len(n.Faults) > 0:
			out = append(out, fmt.Sprintf("node %s: %s", show(n.Id), printable(n.Faults[0])))
		}
	}
	if silent > maxNamed {
		out = append(out, fmt.Sprintf("%d nodes in all do not answer", silent))
	}
	return out
}

func unreadyNodes(not []said) (out []string) {
	for _, s := range not[:min(len(not), maxNamed)] {
		out = append(out, fmt.Sprintf("node %s is not ready: %s", show(s.node), printable(s.reason)))
	}
	return out
}

// answered counts the nodes that say whether they are ready.
func answered(list []said) (n int) {
	for _, s := range list {
		if s.fault == "" {
			n++
		}
	}
	return n
}

// lostRanges counts the ranges without a majority of voters that answer.
func lostRanges(st *quoratev1.GetStatusResponse) (lost int) {
	up := connected(st)
	for _, r := range st.Ranges {
		if !moves(r) && 2*answering(r, up) <= len(r.Replicas) && len(r.Replicas) > 0 {
			lost++
		}
	}
	return lost
}

func brokenRanges(st *quoratev1.GetStatusResponse) (out []string) {
	up, missing, lost := connected(st), 0, lostRanges(st)
	for _, r := range st.Ranges {
		have := answering(r, up)
		switch {
		case moves(r): // its voters are not those that are wanted yet: whether it has a leader says how it is
		case 2*have > len(r.Replicas) && have < len(r.Replicas):
			missing++
		}
	}
	if lost > 0 {
		out = append(out, fmt.Sprintf("%s without a majority of voters that answer", plural(lost, "range")))
	}
	if missing > 0 {
		out = append(out, fmt.Sprintf("%s with a voter that does not answer", plural(missing, "range")))
	}
	return out
}

// changes is what nodes and ranges are doing.
func changes(st *quoratev1.GetStatusResponse) (out []string) {
	moving := 0
	for _, r := range st.Ranges {
		if moves(r) {
			moving++
		}
	}
	for _, n := range st.Nodes {
		switch n.State { //nolint:exhaustive // the others are no change
		case quoratev1.NodeState_NODE_STATE_DRAINING:
			text := fmt.Sprintf("node %s is drained", show(n.Id))
			if n.Leads > 0 {
				text = fmt.Sprintf("node %s is draining, it still leads %s", show(n.Id), plural(int(n.Leads), "range"))
			}
			out = append(out, text)
		case quoratev1.NodeState_NODE_STATE_LEAVING:
			out = append(out, fmt.Sprintf("node %s leaves, %s to go", show(n.Id), plural(int(n.Replicas), "replica")))
		}
	}
	if moving > 0 {
		out = append(out, plural(moving, "range")+" to change")
	}
	if blind := func(r *quoratev1.RangeStatus) bool { return r.Step == cluster.StepUnknown }; slices.ContainsFunc(st.Ranges, blind) {
		out = append(out, "nothing moves while the meta group has no leader that answers")
	}
	return out
}

// connected are the nodes that answer.
func connected(st *quoratev1.GetStatusResponse) map[string]bool {
	up := map[string]bool{}
	for _, n := range st.Nodes {
		up[n.Id] = n.Connected
	}
	return up
}

func answering(r *quoratev1.RangeStatus, up map[string]bool) (n int) {
	for _, id := range r.Replicas {
		if up[id] {
			n++
		}
	}
	return n
}

// muchLag is how many entries a voter may be behind without a word.
const muchLag = 1000

// odd says whether a range is not as it should be.
func odd(r *quoratev1.RangeStatus, up map[string]bool) bool {
	return r.Leader == "" || moves(r) || r.GetLag() > muchLag || answering(r, up) < len(r.Replicas)
}
