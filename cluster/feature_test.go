package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/members"
	"github.com/quorate/quorate/internal/rbac"
)

// TestBeforeTheMembership: while a node has never been seen, nobody knows what it
// understands. What it might not is refused, with its name, and nothing of it is in
// the log; once it is here the cluster has a membership by itself, and all works.
func TestBeforeTheMembership(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nodes for many seconds; left out by -short")
	}
	c := unstarted(t, 2)
	c.start("n1", nil)
	c.start("n2", nil)
	c.awaitReady(time.Minute)
	n := c.nodes["n1"]
	var refusal *members.Error
	_, err := n.SetBinding(t.Context(), rbac.Binding{Identity: "client:ci", Role: "checker", Scope: rbac.Everywhere})
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "[n3] not connected yet") {
		t.Errorf("a binding: %v", err)
	}
	_, err = n.ChangeCluster(t.Context(), "test", &quoratev1.CreateJoinTokenRequest{})
	if !errors.As(err, &refusal) || refusal.Kind != members.Forbidden || !strings.Contains(err.Error(), "[n3] not connected yet") {
		t.Errorf("a join token: %v", err)
	}
	if n.Security().Revision() != 0 || n.meta.members.Load().Seeded() {
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

// TestEarlierNodeIsNamed: what an earlier version would not understand is refused at
// once while a node of it is connected.
func TestEarlierNodeIsNamed(t *testing.T) {
	c := unstarted(t, 1)
	c.start("n1", nil)
	n := c.nodes["n1"]
	n.routes.peer("n2", func(p *peer) { p.up = true }) // it has said no level: it has not even connected
	ctx := t.Context()
	for what, call := range map[string]func() error{
		"binding": func() error {
			_, err := n.SetBinding(ctx, rbac.Binding{Identity: "client:ci", Role: "checker", Scope: rbac.Everywhere})
			return err
		},
		"token":  func() error { return n.AddToken(ctx, rbac.Token{ID: "t"}) },
		"join":   func() error { _, err := n.ChangeCluster(ctx, "test", &quoratev1.JoinRequest{Node: "n4"}); return err },
		"backup": func() error { return n.Backup(ctx, io.Discard, func(int, int) {}) },
	} {
		var refusal *members.Error
		if err := call(); !errors.As(err, &refusal) || refusal.Kind != members.Forbidden || !strings.Contains(err.Error(), "upgrade [n2] first") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := encode(n.Security().Encode()); !bytes.Equal(got, encode((&rbac.Table{}).Encode())) {
		t.Errorf("%q", got)
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
