package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/phrase"
)

// State is the state of a cluster: a word and one line of text.
type State struct{ Word, Text string }

// The possible words of a state.
const (
	Healthy      = "healthy"
	Unreplicated = "unreplicated" // healthy with replicas: 1, so that the loss of a node stops its ranges
	Changing     = "changing"
	Degraded     = "degraded"
	Draining     = "draining"
	NotReady     = "not ready"
)

// Texts that nodes write into their statuses.
const (
	// Stopping is the reason for not being ready of a node that is about to stop.
	Stopping = "the node stops"
	// StepUnknown is the step of a range while it is unknown whether the range moves.
	StepUnknown = "unknown: the leader of the meta group does not answer"
)

// OK reports whether no operator action is needed.
func (v State) OK() bool {
	return v.Word == Healthy || v.Word == Unreplicated || v.Word == Changing
}

// Readiness is a node's own report of its readiness.
type Readiness struct {
	Node       string
	Reason     string // why it is not ready; empty if ready
	Leaderless string // the groups without a leader, as it sees them; empty if all have one
	Fault      string // why there is no answer; empty if it answered
}

// ReadinessOf returns the readiness of the node that returned the status.
func ReadinessOf(st *quoratev1.GetStatusResponse) Readiness {
	s := Readiness{Node: st.GetNode(), Reason: st.GetReason(), Leaderless: st.GetLeaderless()}
	if !st.GetReady() && s.Reason == "" {
		s.Reason = "it does not say why"
	}
	return s
}

// problem returns why the node is not ready, or the groups without a leader; empty if neither.
func (s *Readiness) problem() string {
	if s.Reason == "" && s.Leaderless != "" {
		return s.Leaderless + ", keys in these ranges follow when_cut_off"
	}
	return s.Reason
}

// Of returns the state of a cluster: faults first, then ongoing changes. The cluster is not ready
// if every node in list is unready or sees a group without a leader. Without a list only the node
// that returned the status counts.
func Of(st *quoratev1.GetStatusResponse, list ...Readiness) State {
	if len(list) == 0 {
		list = []Readiness{ReadinessOf(st)}
	}
	broken := slices.Concat(brokenNodes(st), brokenRanges(st))
	ongoing := changes(st)
	not, lost := unready(list), lostRanges(st)
	if t := tolerance(st); t != "" && lost == 0 { // with lost ranges the tolerance no longer matters
		broken = append(broken, t)
	}
	if id := givesBack(st, list); len(not) > 0 && id != "" && lost == 0 {
		return State{Draining, strings.Join(slices.Concat([]string{fmt.Sprintf("node %s hands over its leaderships", phrase.Show(id))}, broken, ongoing), "; ")}
	}
	if ready := answered(list) - len(not); ready > 0 {
		broken = slices.Concat(unreadyNodes(not), broken)
	}
	switch {
	case len(not) > 0 && len(not) == answered(list):
		own := ReadinessOf(st)
		return State{NotReady, strings.Join(slices.Concat([]string{phrase.Printable(own.problem())}, broken, ongoing), "; ")}
	case len(broken) > 0:
		return State{Degraded, strings.Join(append(broken, ongoing...), "; ")}
	case len(ongoing) > 0:
		return State{Changing, strings.Join(ongoing, "; ")}
	}
	text := fmt.Sprintf("%s, %s, %s", phrase.Plural(len(st.Nodes), "node"), phrase.Plural(len(st.Ranges), "range"), voters(st))
	if st.Tolerates != nil && *st.Tolerates == 0 {
		return State{Unreplicated, text + ", as replicas: 1 asks; tolerates the loss of 0 nodes"}
	}
	return State{Healthy, text}
}

// tolerance returns a text if the loss of one more node would stop ranges, with the reason if there
// are too few nodes. It is empty with replicas: 1.
func tolerance(st *quoratev1.GetStatusResponse) string {
	if st.Tolerates == nil || *st.Tolerates > 0 || st.Replicas == 1 {
		return ""
	}
	text, stay := "tolerates the loss of 0 nodes", 0
	for _, n := range st.Nodes {
		if n.State != quoratev1.NodeState_NODE_STATE_LEAVING {
			stay++
		}
	}
	if stay < int(st.Replicas) {
		text += fmt.Sprintf(" (replicas: %d needs %d nodes, the cluster has %d)", st.Replicas, st.Replicas, stay)
	}
	return text
}

// Moves reports whether a range is being reconfigured. A range whose step is unknown is not: without
// a leader of the meta group nothing moves.
func Moves(r *quoratev1.RangeStatus) bool {
	return len(r.Removed) > 0 || r.Step != "" && r.Step != StepUnknown
}

// voters describes the number of voters per range.
func voters(st *quoratev1.GetStatusResponse) string {
	least, most := len(st.Nodes), 0
	for _, r := range st.Ranges {
		least, most = min(least, len(r.Replicas)), max(most, len(r.Replicas))
	}
	if least >= most {
		return "all with " + phrase.Plural(most, "voter")
	}
	return fmt.Sprintf("with %d to %s", least, phrase.Plural(most, "voter"))
}

// maxNamed bounds the nodes that a state names one by one.
const maxNamed = 5

func brokenNodes(st *quoratev1.GetStatusResponse) (out []string) {
	silent := 0
	for _, n := range st.Nodes {
		switch {
		case !n.Connected && silent < maxNamed:
			silent++
			text := fmt.Sprintf("node %s does not answer", phrase.Show(n.Id))
			if n.Silent != nil {
				text += ", for " + phrase.Span(n.Silent.AsDuration().Round(time.Second))
			}
			out = append(out, text)
		case !n.Connected:
			silent++
		case len(n.Faults) > 0:
			out = append(out, fmt.Sprintf("node %s: %s", phrase.Show(n.Id), phrase.Printable(n.Faults[0])))
		}
	}
	if silent > maxNamed {
		out = append(out, fmt.Sprintf("%d nodes in all do not answer", silent))
	}
	return out
}

func unreadyNodes(not []Readiness) (out []string) {
	for _, s := range not[:min(len(not), maxNamed)] {
		format := "node %s is not ready: %s"
		if s.Reason == "" {
			format = "node %s: %s"
		}
		out = append(out, fmt.Sprintf(format, phrase.Show(s.Node), phrase.Printable(s.problem())))
	}
	return out
}

// answered counts the nodes that answered.
func answered(list []Readiness) (n int) {
	for _, s := range list {
		if s.Fault == "" {
			n++
		}
	}
	return n
}

// lostRanges counts the ranges without a majority of voters that answer.
func lostRanges(st *quoratev1.GetStatusResponse) (lost int) {
	up := Connected(st)
	for _, r := range st.Ranges {
		if !Moves(r) && 2*Answering(r, up) <= len(r.Replicas) && len(r.Replicas) > 0 {
			lost++
		}
	}
	return lost
}

func brokenRanges(st *quoratev1.GetStatusResponse) (out []string) {
	up, missing, lost := Connected(st), 0, lostRanges(st)
	for _, r := range st.Ranges {
		have := Answering(r, up)
		switch {
		case Moves(r): // its voters are changing, so only a missing leader matters
		case 2*have > len(r.Replicas) && have < len(r.Replicas):
			missing++
		}
	}
	if lost > 0 {
		out = append(out, fmt.Sprintf("%s without a majority of voters that answer", phrase.Plural(lost, "range")))
	}
	if missing > 0 {
		out = append(out, fmt.Sprintf("%s with a voter that does not answer", phrase.Plural(missing, "range")))
	}
	return out
}

// changes lists the ongoing changes of nodes and ranges.
func changes(st *quoratev1.GetStatusResponse) (out []string) {
	moving := 0
	for _, r := range st.Ranges {
		if Moves(r) {
			moving++
		}
	}
	for _, n := range st.Nodes {
		switch n.State { //nolint:exhaustive // the other states are no change
		case quoratev1.NodeState_NODE_STATE_DRAINING:
			text := fmt.Sprintf("node %s is drained", phrase.Show(n.Id))
			if n.Leads > 0 {
				text = fmt.Sprintf("node %s is draining, it still leads %s", phrase.Show(n.Id), phrase.Plural(int(n.Leads), "range"))
			}
			out = append(out, text)
		case quoratev1.NodeState_NODE_STATE_LEAVING:
			out = append(out, fmt.Sprintf("node %s leaves, %s to go", phrase.Show(n.Id), phrase.Plural(int(n.Replicas), "replica")))
		}
	}
	if moving > 0 {
		out = append(out, phrase.Plural(moving, "range")+" to change")
	}
	if blind := func(r *quoratev1.RangeStatus) bool { return r.Step == StepUnknown }; slices.ContainsFunc(st.Ranges, blind) {
		out = append(out, "nothing moves while the meta group has no leader that answers")
	}
	return out
}

// Connected returns the nodes that answer.
func Connected(st *quoratev1.GetStatusResponse) map[string]bool {
	up := map[string]bool{}
	for _, n := range st.Nodes {
		up[n.Id] = n.Connected
	}
	return up
}

// Answering counts the voters of a range that answer.
func Answering(r *quoratev1.RangeStatus, up map[string]bool) (n int) {
	for _, id := range r.Replicas {
		if up[id] {
			n++
		}
	}
	return n
}

// MuchLag is the lag of a voter, in log entries, above which it is reported.
const MuchLag = 1000

// NeedsAttention reports whether a range has no leader, moves, or has a voter that lags or does not answer.
func NeedsAttention(r *quoratev1.RangeStatus, up map[string]bool) bool {
	return r.Leader == "" || Moves(r) || r.GetLag() > MuchLag || Answering(r, up) < len(r.Replicas)
}

// unready returns the nodes that are not ready or see a group without a leader.
func unready(list []Readiness) (out []Readiness) {
	for _, s := range list {
		if s.problem() != "" {
			out = append(out, s)
		}
	}
	return out
}

// givesBack returns a node that hands over its leaderships because it stops or is drained; empty if
// none does. During this, ranges are briefly without a leader.
func givesBack(st *quoratev1.GetStatusResponse, list []Readiness) string {
	for _, s := range list {
		if s.Reason == Stopping {
			return s.Node
		}
	}
	for _, n := range st.Nodes {
		if n.State == quoratev1.NodeState_NODE_STATE_DRAINING && n.Leads > 0 {
			return n.Id
		}
	}
	return ""
}
