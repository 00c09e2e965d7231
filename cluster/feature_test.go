package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/testspeed"
)

// TestBeforeTheMembership: while a node has never been seen, changes of members and of access are
// refused, with its name, and nothing of them is in the log; once it is connected the cluster makes
// its membership by itself, and all works.
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

// TestRaised: a release that brings level 2 raises the cluster to it when every living member has
// it, and not before; the next restart of an older node is refused in the handshake
// (transport.TestLevels) and a join of one by the meta leader (TestJoinOfALowerLevel).
func TestRaised(t *testing.T) {
	for name, tt := range map[string]struct {
		levels [3]uint32
		dead   int // which member is given up; 0 is none
		want   uint32
	}{
		"all have it":             {[3]uint32{2, 2, 2}, 0, 2},
		"one has not":             {[3]uint32{2, 1, 2}, 0, 0},
		"the one without is dead": {[3]uint32{2, 1, 2}, 2, 2},
		"nobody else has":         {[3]uint32{1, 1, 1}, 0, 0},
	} {
		stored := &raftlogv1.Membership{Level: 1, Replicas: 3}
		for i, level := range tt.levels {
			stored.Members = append(stored.Members, &raftlogv1.StoredMember{
				Id: fmt.Sprintf("n%d", i+1), Peer: fmt.Sprintf("h:%d", i+1), State: uint32(membership.Active), Level: level, Dead: tt.dead == i+1,
			})
		}
		table := membership.New(stored)
		if got := raised(table, 2).GetLevel().GetLevel(); got != tt.want {
			t.Errorf("%s: raised to %d, want %d", name, got, tt.want)
		}
		if c := raised(table, 2); c != nil {
			next, err := table.Apply(c)
			if err != nil || next.Level() != 2 || raised(next, 2) != nil {
				t.Errorf("%s: level %d, %v", name, next.Level(), err)
			}
		}
		if raised(table, 1) != nil {
			t.Errorf("%s: software of level 1 raises it", name)
		}
	}
}

// TestJoinOfALowerLevel: a node whose software has a lower level than the cluster does not join.
func TestJoinOfALowerLevel(t *testing.T) {
	table := membership.New(&raftlogv1.Membership{Level: 2, Replicas: 3})
	_, err := admit(table, "", &quoratev1.JoinRequest{Node: "n4", Version: "0.1.0", Level: 1}, time.Now())
	if err == nil || err.Error() != `version "0.1.0" of the new node has feature level 1; the cluster needs 2: use the cluster's version` {
		t.Error(err)
	}
	if _, err := admit(table, "", &quoratev1.JoinRequest{Node: "n4", Level: 2}, time.Now()); err == nil || !strings.HasPrefix(err.Error(), "token: ") {
		t.Error(err)
	}
}

// unstarted is a trio none of whose nodes runs yet: nobody listens at their ports.
func unstarted(t testing.TB, ranges int) *trio {
	t.Helper()
	c, listeners := bookTrio(t, ranges)
	for _, l := range listeners {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return c
}
