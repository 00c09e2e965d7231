package cluster

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/internal/rbac"
)

// TestSecurityEverywhere checks that a change through any node is active on all nodes once it is
// answered, and survives a restart of all of them.
func TestSecurityEverywhere(t *testing.T) {
	c := newThreeNodes(t, 2)
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
		if err := n.AddToken(t.Context(), clash); err == nil || !strings.Contains(err.Error(), "token id") {
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
