package control

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
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
