package cluster

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

// TestSecurityEverywhere: a change through any node is in force on all when it is
// answered, and outlives a restart of all of them.
func TestSecurityEverywhere(t *testing.T) {
	c := newTrio(t, 2)
	nodes := c.running()
	binding := rbac.Binding{Identity: "client:ci", Role: "limit-writer", Scope: rbac.Namespace("web"), By: "client:admin", At: 5}
	token := rbac.Token{ID: "t1", Name: "ci", Hash: [32]byte{1, 2}, Expires: 9, Comment: "for the builds", By: "client:admin", At: 6}
	for i, n := range nodes {
		changed, err := n.SetBinding(t.Context(), binding)
		if err != nil || changed != (i == 0) {
			t.Fatalf("%s: %v %v", n.cfg.Self, changed, err)
		}
		token.ID = "t" + string(n.cfg.Self)
		if err := n.AddToken(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		for _, other := range nodes {
			table := other.Security()
			if !table.Has([]string{"client:ci"}, rbac.LimitsWrite, rbac.Namespace("web")) || table.Token(token.ID) == nil || *table.Token(token.ID) != token {
				t.Errorf("changed on %s: %s has %v", n.cfg.Self, other.cfg.Self, table.Encode())
			}
		}
	}
	clash := token
	clash.Hash[0]++
	for _, n := range nodes {
		if err := n.AddToken(t.Context(), clash); err == nil || !strings.Contains(err.Error(), "there is a token of id") {
			t.Errorf("%s: another token of the same id: %v", n.cfg.Self, err)
		}
	}
	if was, err := nodes[1].RevokeToken(t.Context(), "tn2"); !was || err != nil {
		t.Errorf("revoke: %v %v", was, err)
	}
	if was, err := nodes[2].RevokeToken(t.Context(), "tn2"); was || err != nil {
		t.Errorf("revoke again: %v %v", was, err)
	}
	before := nodes[0].Security().Encode()
	for _, n := range nodes {
		if !proto.Equal(n.Security().Encode(), before) {
			t.Errorf("%s: %v", n.cfg.Self, n.Security().Encode())
		}
	}
	if was, err := nodes[0].DeleteBinding(t.Context(), rbac.Binding{Identity: "client:ci", Role: "limit-writer", Scope: rbac.Namespace("web")}); !was || err != nil {
		t.Errorf("delete: %v %v", was, err)
	}
	if nodes[2].Security().Somewhere([]string{"client:ci"}, rbac.LimitsWrite) {
		t.Error("still there")
	}
}

// TestSecurityInSnapshots: a snapshot has it all; one from before there was any has
// none.
func TestSecurityInSnapshots(t *testing.T) {
	m := quietMeta()
	old := snapshot(t, m)
	b := rbac.Binding{Identity: "user:ann", Permissions: []string{"check", "report"}, By: "x", At: quota.Time(7)}
	tok := rbac.Token{ID: "i", Name: "ci", Hash: [32]byte{9}}
	m.Apply(1, 1, encode(setBindingCommand(&b)))
	m.Apply(2, 1, encode(addTokenCommand(&tok)))
	other := quietMeta()
	if err := other.Restore(bytes.NewReader(snapshot(t, m))); err != nil {
		t.Fatal(err)
	}
	if got, want := other.security.table.Load().Encode(), m.security.table.Load().Encode(); !proto.Equal(got, want) || len(want.Bindings) != 1 || len(want.Tokens) != 1 || want.Revision != 2 {
		t.Errorf("got %v; want %v", got, want)
	}
	if err := other.Restore(bytes.NewReader(old)); err != nil || other.security.table.Load().Encode() != nil {
		t.Errorf("an old one: %v, %v", err, other.security.table.Load().Encode())
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
