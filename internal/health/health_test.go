package health

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

func TestState(t *testing.T) {
	node := func(id string, change ...func(*quoratev1.NodeStatus)) *quoratev1.NodeStatus {
		n := &quoratev1.NodeStatus{Id: id, Connected: true, State: quoratev1.NodeState_NODE_STATE_ACTIVE}
		for _, f := range change {
			f(n)
		}
		return n
	}
	dead := func(n *quoratev1.NodeStatus) { n.Connected, n.Silent = false, durationpb.New(90*time.Second) }
	old := func(n *quoratev1.NodeStatus) { n.State = 0 }
	const still = "nothing moves while the meta group has no leader that answers"
	three := func(r ...string) *quoratev1.RangeStatus { return &quoratev1.RangeStatus{Leader: r[0], Replicas: r} }
	for name, tt := range map[string]struct {
		reason string
		nodes  []*quoratev1.NodeStatus
		ranges []*quoratev1.RangeStatus
		want   State
	}{
		"healthy":                          {"", []*quoratev1.NodeStatus{node("a"), node("b"), node("c")}, []*quoratev1.RangeStatus{three("a", "b", "c")}, State{Healthy, "3 nodes, 1 range, all with 3 voters"}},
		"of before there were memberships": {"", []*quoratev1.NodeStatus{node("a", old)}, []*quoratev1.RangeStatus{three("a"), three("a")}, State{Healthy, "1 node, 2 ranges, all with 1 voter"}},
		"some with fewer":                  {"", []*quoratev1.NodeStatus{node("a"), node("b"), node("c")}, []*quoratev1.RangeStatus{three("a", "b", "c"), three("a", "b")}, State{Healthy, "3 nodes, 2 ranges, with 2 to 3 voters"}},
		"a dead node": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b"), node("c", dead)},
			[]*quoratev1.RangeStatus{three("a", "b", "c"), three("a", "b")},
			State{Degraded, "node c does not answer, for 1m30s; 1 range with a voter that does not answer"},
		},
		"a majority is dead": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b", dead), node("c", dead)},
			[]*quoratev1.RangeStatus{{Replicas: []string{"a", "b", "c"}, Step: StepUnknown}},
			State{NotReady, "1 of 1 ranges have no leader, keys in these ranges follow when_cut_off; node b does not answer, for 1m30s; node c does not answer, for 1m30s; 1 range without a majority of voters that answer; " + still},
		},
		"an election of the meta group": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b"), node("c")},
			[]*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a", "b", "c"}, Step: StepUnknown}},
			State{Changing, still},
		},
		"two nodes of three": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b")},
			[]*quoratev1.RangeStatus{three("a", "b")},
			State{Degraded, "tolerates the loss of 0 nodes (replicas: 3 needs 3 nodes, the cluster has 2)"},
		},
		"one replica asked for": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b")},
			[]*quoratev1.RangeStatus{three("a"), three("b")},
			State{Unreplicated, "2 nodes, 2 ranges, all with 1 voter, as replicas: 1 asks; tolerates the loss of 0 nodes"},
		},
		"a full disk": {
			"",
			[]*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.Faults = []string{"disk \x1b full"} })},
			[]*quoratev1.RangeStatus{three("a")},
			State{Degraded, `node a: "disk \x1b full"`},
		},
		"drained":  {"", []*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.State = quoratev1.NodeState_NODE_STATE_DRAINING })}, []*quoratev1.RangeStatus{three("a")}, State{Changing, "node a is drained"}},
		"draining": {"", []*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.State, n.Leads = quoratev1.NodeState_NODE_STATE_DRAINING, 2 })}, []*quoratev1.RangeStatus{three("a")}, State{Changing, "node a is draining, it still leads 2 ranges"}},
		"leaving": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b", func(n *quoratev1.NodeStatus) { n.State, n.Replicas = quoratev1.NodeState_NODE_STATE_LEAVING, 1 })},
			[]*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a"}, Removed: []string{"b"}}},
			State{Changing, "node b leaves, 1 replica to go; 1 range to change"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := &quoratev1.GetStatusResponse{Ready: tt.reason == "", Reason: tt.reason, Nodes: tt.nodes, Ranges: tt.ranges}
			switch name {
			case "a majority is dead":
				st.Leaderless = "1 of 1 ranges have no leader"
			case "two nodes of three":
				st.Tolerates, st.Replicas = new(uint32(0)), 3
			case "one replica asked for":
				st.Tolerates, st.Replicas = new(uint32(0)), 1
			}
			if got := Of(st); got != tt.want {
				t.Errorf("%v\nwant %v", got, tt.want)
			}
		})
	}
}

// TestManyDeadNodes checks that the line does not grow with the number of dead nodes.
func TestManyDeadNodes(t *testing.T) {
	st := &quoratev1.GetStatusResponse{Ready: true}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		st.Nodes = append(st.Nodes, &quoratev1.NodeStatus{Id: id})
	}
	const want = "node a does not answer; node b does not answer; node c does not answer; node d does not answer; node e does not answer; 7 nodes in all do not answer"
	if got := Of(st); got.Text != want {
		t.Error(got.Text)
	}
}

// TestStateOfEach checks that the state counts each node's own readiness, whichever was asked first.
func TestStateOfEach(t *testing.T) {
	up := func(id string) *quoratev1.NodeStatus { return &quoratev1.NodeStatus{Id: id, Connected: true} }
	st := &quoratev1.GetStatusResponse{Node: "a", Ready: true, Nodes: []*quoratev1.NodeStatus{up("a"), up("b")}, Ranges: []*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a", "b"}}}}
	const blind = "18 of 64 ranges have no leader"
	for name, tt := range map[string]struct {
		list []Readiness
		want State
	}{
		"one of them sees no leaders": {[]Readiness{{Node: "a"}, {Node: "b", Reason: blind}}, State{Degraded, "node b is not ready: " + blind}},
		"the others do not answer":    {[]Readiness{{Node: "a", Reason: blind}, {Node: "b", Fault: "at x"}}, State{NotReady, "it does not say why"}},
		"one stops":                   {[]Readiness{{Node: "a", Reason: blind}, {Node: "b", Reason: Stopping}}, State{Draining, "node b hands over its leaderships"}},
		"all are ready":               {[]Readiness{{Node: "a"}, {Node: "b"}}, State{Healthy, "2 nodes, 1 range, all with 2 voters"}},
	} {
		t.Run(name, func(t *testing.T) {
			st.Ready = name != "the others do not answer"
			if got := Of(st, tt.list...); got != tt.want {
				t.Errorf("%v\nwant %v", got, tt.want)
			}
		})
	}
}
