package control

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/machinetest"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/snapshotio"
)

// TestSecurityInSnapshots: a snapshot has all bindings and tokens; one from before there were any
// has none.
func TestSecurityInSnapshots(t *testing.T) {
	m := quietMeta()
	old := machinetest.Snapshot(t, m)
	b := rbac.Binding{Identity: "user:ann", Permissions: []string{"check", "report"}, By: "x", At: quota.Time(7)}
	tok := rbac.Token{ID: "i", Name: "ci", Hash: [32]byte{9}}
	m.Apply(1, 1, snapshotio.Encode(setBindingCommand(&b)))
	m.Apply(2, 1, snapshotio.Encode(addTokenCommand(&tok)))
	other := quietMeta()
	if err := other.Restore(bytes.NewReader(machinetest.Snapshot(t, m))); err != nil {
		t.Fatal(err)
	}
	if got, want := other.Security.table.Load().Encode(), m.Security.table.Load().Encode(); !proto.Equal(got, want) || len(want.Bindings) != 1 || len(want.Tokens) != 1 || want.Revision != 2 {
		t.Errorf("got %v; want %v", got, want)
	}
	if err := other.Restore(bytes.NewReader(old)); err != nil || other.Security.table.Load().Encode() != nil {
		t.Errorf("an old one: %v, %v", err, other.Security.table.Load().Encode())
	}
}

func setBindingCommand(b *rbac.Binding) *raftlogv1.MetaCommand {
	return securityCommand(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_SetBinding{SetBinding: rbac.EncodeBinding(b)}})
}

func addTokenCommand(t *rbac.Token) *raftlogv1.MetaCommand {
	return securityCommand(&raftlogv1.ChangeSecurity{Change: &raftlogv1.ChangeSecurity_AddToken{AddToken: rbac.EncodeToken(t)}})
}

func securityCommand(c *raftlogv1.ChangeSecurity) *raftlogv1.MetaCommand {
	return &raftlogv1.MetaCommand{Change: &raftlogv1.MetaCommand_ChangeSecurity{ChangeSecurity: c}}
}

// losing is a node that leads the meta group. Every other answer to a proposal is lost.
type losing struct {
	Node
	Group
	m         *Machine
	lost      bool
	meanwhile func() // if not nil, called when an answer is lost
}

func (n *losing) MetaGroup() Group { return n }

func (n *losing) Behind(func(Progress) bool) []quota.NodeID { return nil }

func (n *losing) AwaitMembership(context.Context, string) error { return nil }

func (n *losing) Now() quota.Time { return 5 }

func (n *losing) Apply(_ context.Context, data []byte) (any, error) {
	if bytes.Equal(data, advanceCommit) {
		return nil, nil
	}
	out := n.m.Apply(1, 1, data)
	if n.lost = !n.lost; n.lost {
		if n.meanwhile != nil {
			n.meanwhile()
		}
		return nil, raftgroup.ErrUncertain
	}
	return out, nil
}

// TestRevokedThoughAnswerLost: a token or binding that a call has deleted existed, also if the log's answer
// was lost.
func TestRevokedThoughAnswerLost(t *testing.T) {
	m := quietMeta()
	s := NewStore("n1", &losing{m: m}, m, slog.New(slog.DiscardHandler))
	b := rbac.Binding{Identity: "user:ann", Role: "admin", Scope: rbac.Everywhere}
	for range 2 {
		if err := s.AddToken(t.Context(), rbac.Token{ID: "i", Name: "ci", Hash: [32]byte{9}}); err != nil {
			t.Fatal(err)
		}
		if changed, err := s.SetBinding(t.Context(), b); err != nil || !changed {
			t.Fatalf("a new binding: %v, %v", changed, err)
		}
		if was, err := s.RevokeToken(t.Context(), "i"); err != nil || !was || s.Security().Token("i") != nil {
			t.Errorf("a token that existed: %v, %v", was, err)
		}
		if was, err := s.DeleteBinding(t.Context(), b); err != nil || !was || len(s.Security().Bindings()) != 0 {
			t.Errorf("a binding that existed: %v, %v", was, err)
		}
		if was, err := s.RevokeToken(t.Context(), "i"); err != nil || was {
			t.Errorf("a token that does not exist: %v, %v", was, err)
		}
		if was, err := s.DeleteBinding(t.Context(), b); err != nil || was {
			t.Errorf("a binding that does not exist: %v, %v", was, err)
		}
	}
}
