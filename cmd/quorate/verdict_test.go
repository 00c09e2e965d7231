package main

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster"
)

func TestVerdict(t *testing.T) {
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
		want   verdict
	}{
		"healthy":                          {"", []*quoratev1.NodeStatus{node("a"), node("b"), node("c")}, []*quoratev1.RangeStatus{three("a", "b", "c")}, verdict{healthy, "3 nodes, 1 range, all with 3 voters"}},
		"of before there were memberships": {"", []*quoratev1.NodeStatus{node("a", old)}, []*quoratev1.RangeStatus{three("a"), three("a")}, verdict{healthy, "1 node, 2 ranges, all with 1 voter"}},
		"some with fewer":                  {"", []*quoratev1.NodeStatus{node("a"), node("b"), node("c")}, []*quoratev1.RangeStatus{three("a", "b", "c"), three("a", "b")}, verdict{healthy, "3 nodes, 2 ranges, with 2 to 3 voters"}},
		"a dead node": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b"), node("c", dead)},
			[]*quoratev1.RangeStatus{three("a", "b", "c"), three("a", "b")},
			verdict{degraded, "node c does not answer, for 1m30s; 1 range with a voter that does not answer"},
		},
		"a majority is dead": {
			"1 of 1 ranges have no leader",
			[]*quoratev1.NodeStatus{node("a"), node("b", dead), node("c", dead)},
			[]*quoratev1.RangeStatus{{Replicas: []string{"a", "b", "c"}, Step: cluster.StepUnknown}},
			verdict{notReady, "1 of 1 ranges have no leader; node b does not answer, for 1m30s; node c does not answer, for 1m30s; 1 range without a majority of voters that answer; " + still},
		},
		"an election of the meta group": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b"), node("c")},
			[]*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a", "b", "c"}, Step: cluster.StepUnknown}},
			verdict{changing, still},
		},
		"a full disk": {
			"",
			[]*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.Faults = []string{"disk \x1b full"} })},
			[]*quoratev1.RangeStatus{three("a")},
			verdict{degraded, `node a: "disk \x1b full"`},
		},
		"drained":  {"", []*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.State = quoratev1.NodeState_NODE_STATE_DRAINING })}, []*quoratev1.RangeStatus{three("a")}, verdict{changing, "node a is drained"}},
		"draining": {"", []*quoratev1.NodeStatus{node("a", func(n *quoratev1.NodeStatus) { n.State, n.Leads = quoratev1.NodeState_NODE_STATE_DRAINING, 2 })}, []*quoratev1.RangeStatus{three("a")}, verdict{changing, "node a is draining, it still leads 2 ranges"}},
		"leaving": {
			"",
			[]*quoratev1.NodeStatus{node("a"), node("b", func(n *quoratev1.NodeStatus) { n.State, n.Replicas = quoratev1.NodeState_NODE_STATE_LEAVING, 1 })},
			[]*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a"}, Former: []string{"b"}}},
			verdict{changing, "node b leaves, 1 replica to go; 1 range to change"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := &quoratev1.GetStatusResponse{Ready: tt.reason == "", Reason: tt.reason, Nodes: tt.nodes, Ranges: tt.ranges}
			if got := verdictOf(st); got != tt.want {
				t.Errorf("%v\nwant %v", got, tt.want)
			}
		})
	}
}

// TestManyDeadNodes: the line does not grow with the cluster.
func TestManyDeadNodes(t *testing.T) {
	st := &quoratev1.GetStatusResponse{Ready: true}
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		st.Nodes = append(st.Nodes, &quoratev1.NodeStatus{Id: id})
	}
	const want = "node a does not answer; node b does not answer; node c does not answer; node d does not answer; node e does not answer; 7 nodes in all do not answer"
	if got := verdictOf(st); got.text != want {
		t.Error(got.text)
	}
}

// TestVerdictOfEach: each node speaks for itself, whichever was asked first.
func TestVerdictOfEach(t *testing.T) {
	up := func(id string) *quoratev1.NodeStatus { return &quoratev1.NodeStatus{Id: id, Connected: true} }
	st := &quoratev1.GetStatusResponse{Node: "a", Ready: true, Nodes: []*quoratev1.NodeStatus{up("a"), up("b")}, Ranges: []*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a", "b"}}}}
	const blind = "18 of 64 ranges have no leader"
	for name, tt := range map[string]struct {
		list []said
		want verdict
	}{
		"one of them sees no leaders": {[]said{{node: "a"}, {node: "b", reason: blind}}, verdict{degraded, "node b is not ready: " + blind}},
		"the others do not answer":    {[]said{{node: "a", reason: blind}, {node: "b", fault: "at x"}}, verdict{notReady, "it does not say why"}},
		"one stops":                   {[]said{{node: "a", reason: blind}, {node: "b", reason: cluster.Stopping}}, verdict{draining, "node b gives back what it leads"}},
		"all are ready":               {[]said{{node: "a"}, {node: "b"}}, verdict{healthy, "2 nodes, 1 range, all with 2 voters"}},
	} {
		t.Run(name, func(t *testing.T) {
			st.Ready = name != "the others do not answer"
			if got := verdictOf(st, tt.list...); got != tt.want {
				t.Errorf("%v\nwant %v", got, tt.want)
			}
		})
	}
}

// TestManyRanges: one dead node is a line and not a row for each range.
func TestManyRanges(t *testing.T) {
	st := &quoratev1.GetStatusResponse{Nodes: []*quoratev1.NodeStatus{{Id: "a", Connected: true}, {Id: "b", Connected: true}, {Id: "c"}}}
	for id := range uint32(64) {
		r := &quoratev1.RangeStatus{Id: id, Leader: "a", Replicas: []string{"a", "b", "c"}}
		if id == 20 || id == 40 {
			r.Leader = ""
		}
		st.Ranges = append(st.Ranges, r)
	}
	var b strings.Builder
	if err := printRanges(&b, st, false); err != nil {
		t.Fatal(err)
	}
	const want = "\n62 ranges without c: 0-19, 21-39, 41-63\n2 ranges without a leader: 20, 40\n--ranges prints them one by one\n"
	if b.String() != want {
		t.Errorf("%s\nwant %s", b.String(), want)
	}
	if got := runs([]uint32{0, 2, 4, 6, 8, 10, 12}); got != "0, 2, 4, 6, 8 and 2 more" {
		t.Error(got)
	}
}

// TestVerdictInJSON: what is printed for programs says of the cluster what the table does, and
// of each node what it says itself, whichever answered first.
func TestVerdictInJSON(t *testing.T) {
	status := func() *quoratev1.GetStatusResponse {
		return &quoratev1.GetStatusResponse{Node: "a", Reason: "the node stops", Nodes: []*quoratev1.NodeStatus{
			{Id: "a", Connected: true, Ready: new(bool)}, {Id: "b", Connected: true}, {Id: "c"},
		}}
	}
	list := []said{{node: "a", reason: "the node stops"}, {node: "b"}, {node: "c", fault: "at c:1: refused"}}
	st := status()
	addVerdict(st, list, verdictOf(status(), list...))
	if !st.Ready || st.Reason != "" || st.Health != draining || !strings.HasPrefix(st.HealthText, "node a gives back what it leads") {
		t.Errorf("%v %q, %s: %s", st.Ready, st.Reason, st.Health, st.HealthText)
	}
	for i, want := range []struct {
		known, ready bool
		reason       string
	}{{true, false, "the node stops"}, {true, true, ""}, {false, false, ""}} {
		if n := st.Nodes[i]; (n.Ready != nil) != want.known || n.GetReady() != want.ready || n.Reason != want.reason {
			t.Errorf("%s: %v", n.Id, n)
		}
	}
	st = status()
	addVerdict(st, list[:1], verdictOf(status(), list[:1]...))
	if st.Ready || st.Reason != "the node stops" {
		t.Errorf("nobody is ready, and it says %v %q", st.Ready, st.Reason)
	}
}
