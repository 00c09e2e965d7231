package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestBeforeTheMembership checks that, while a node has never connected, changes of members and access
// are refused with its name, and do not reach the log. Once the node connects, the cluster creates
// its membership by itself, and everything works.
func TestBeforeTheMembership(t *testing.T) {
	testspeed.Full(t)
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	c := unstarted(t, 2)
	c.start("n1", nil)
	c.start("n2", nil)
	c.awaitReady(time.Minute)
	n := c.nodes["n1"]
	var refusal *membership.Error
	_, err := n.SetBinding(t.Context(), rbac.Binding{Identity: "client:ci", Role: "checker", Scope: rbac.Everywhere})
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "[n3] not connected yet") {
		t.Errorf("a binding: %v", err)
	}
	_, err = n.ChangeCluster(t.Context(), "test", &quoratev1.CreateJoinTokenRequest{})
	if !errors.As(err, &refusal) || refusal.Kind != membership.Forbidden || !strings.Contains(err.Error(), "[n3] not connected yet") {
		t.Errorf("a join token: %v", err)
	}
	if n.Security().Revision() != 0 || n.meta.Members.Load().Seeded() {
		t.Error("something was changed nevertheless")
	}
	c.start("n3", nil)
	if _, err := n.SetBinding(t.Context(), rbac.Binding{Identity: "client:ci", Role: "checker", Scope: rbac.Everywhere}); err != nil {
		t.Errorf("with all nodes: %v", err)
	}
	if c.token() == "" {
		t.Error("no token")
	}
}

// unstarted returns a cluster of three nodes that are not running; nothing listens at their ports.
func unstarted(t testing.TB, ranges int) *threeNodes {
	t.Helper()
	c, listeners := bookThreeNodes(t, ranges)
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
