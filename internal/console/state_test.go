package console

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/health"
)

// TestDrainingIsNoFault checks that what is drained or stopped on purpose is not shown as broken,
// and that what breaks meanwhile is.
func TestDrainingIsNoFault(t *testing.T) {
	node := func(up bool, s quoratev1.NodeState, leads int32) *quoratev1.NodeStatus {
		return &quoratev1.NodeStatus{Id: "b", Connected: up, State: s, Leads: leads}
	}
	const active, draining = quoratev1.NodeState_NODE_STATE_ACTIVE, quoratev1.NodeState_NODE_STATE_DRAINING
	a, c := &quoratev1.NodeStatus{Id: "a", Connected: true}, &quoratev1.NodeStatus{Id: "c", Connected: true}
	blind := "1 of 2 ranges have no leader"
	for _, at := range []struct {
		name          string
		reason        string
		b             *quoratev1.NodeStatus
		away          bool // c is out of reach too
		nodes, states Badge
	}{
		{"ready", "", node(true, active, 1), false, Badge{"good", "active"}, Badge{"good", "Healthy"}},
		{"drains", blind, node(true, draining, 1), false, Badge{"warn", "draining"}, Badge{"warn", "Draining"}},
		{"stops", health.Stopping, node(true, active, 1), false, Badge{"good", "active"}, Badge{"warn", "Draining"}},
		{"is drained and down", "", node(false, draining, 0), false, Badge{"warn", "draining, unreachable"}, Badge{"warn", "Degraded"}},
		{"is down", blind, node(false, active, 0), false, Badge{"bad", "unreachable"}, Badge{"bad", "Not ready"}},
		{"another is down too", blind, node(false, draining, 1), true, Badge{"warn", "draining, unreachable"}, Badge{"bad", "Not ready"}},
	} {
		c.Connected = !at.away
		st := &quoratev1.GetStatusResponse{
			Node: "a", Ready: at.reason == "", Reason: at.reason, Nodes: []*quoratev1.NodeStatus{a, at.b, c},
			Ranges: []*quoratev1.RangeStatus{{Leader: "a", Replicas: []string{"a", "b", "c"}}},
		}
		if got := nodeState(at.b); got != at.nodes {
			t.Errorf("%s: the node is shown as %v, want %v", at.name, got, at.nodes)
		}
		if got := clusterState(health.Of(st)); got != at.states {
			t.Errorf("%s: the cluster is shown as %v, want %v", at.name, got, at.states)
		}
	}
}

// TestForgottenKey checks that the page shows no zero counts for a key of which the leader holds
// nothing.
func TestForgottenKey(t *testing.T) {
	f := newFake()
	for attempted, want := range map[int64]string{0: "No requests. The count restarts", 5: "2 admitted, 3 refused of 5"} {
		f.answer["GetKey"] = func(context.Context, any) (proto.Message, error) {
			return &quoratev1.GetKeyResponse{Counters: []*quoratev1.KeyRate{{Namespace: "web", Limit: "login", Key: "k", Attempted: attempted, Admitted: attempted * 2 / 5, Refused: attempted * 3 / 5}}}, nil
		}
		if _, body := get(New(Deps{Conn: f, Self: "n1"}), "/console/key?namespace=web&limit=login&key=k"); !strings.Contains(body, want) {
			t.Errorf("%d attempted: %q is not in\n%s", attempted, want, body)
		}
	}
}
