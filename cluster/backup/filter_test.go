package backup

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// records writes a snapshot of the meta group.
func records(t testing.TB, list ...*raftlogv1.MetaRecord) []byte {
	t.Helper()
	out := bytes.NewBufferString(control.MetaMagic)
	write := func(m proto.Message) {
		if _, err := (protodelim.MarshalOptions{MarshalOptions: snapshotio.Canonical}).MarshalTo(out, m); err != nil {
			t.Fatal(err)
		}
	}
	write(&raftlogv1.MetaSnapshot{OverridesRevision: 3})
	for _, r := range list {
		write(r)
	}
	return out.Bytes()
}

// TestRestoredMeta checks that members, join tokens and the authority's key are gone, and that everything
// else is unchanged, including fields that this version does not know.
func TestRestoredMeta(t *testing.T) {
	override := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Override{Override: &raftlogv1.StoredOverride{
		Key: &raftlogv1.OverrideKey{Namespace: "api", Limit: "user", Key: []byte("acme")}, Rule: &raftlogv1.OverrideRule{Burst: new(int64)},
	}}}
	members := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Members{Members: &raftlogv1.Membership{
		Members: []*raftlogv1.StoredMember{{Id: "n1"}}, Tokens: []*raftlogv1.StoredJoinToken{{Id: "t"}}, Authority: &raftlogv1.StoredAuthority{Key: []byte("SECRET")},
	}}}
	later := &raftlogv1.MetaRecord{}
	later.ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'x'}) // field 2047
	end := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_End{End: &raftlogv1.MetaEnd{Overrides: 1}}}
	in := records(t, override, members, later, end)
	var out bytes.Buffer
	if err := restoredMeta(&out, bytes.NewReader(in)); err != nil {
		t.Fatal(err)
	}
	if want := records(t, override, later, end); !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%q\nwant %q", out.Bytes(), want)
	}
	m := control.NewMachine(func(*quota.Limits) {}, func([]quota.Key) {})
	if err := decodeAll(m, &out); err != nil || m.Content().Overrides != 1 {
		t.Errorf("read again: %v", err)
	}
	for n := range in {
		if restoredMeta(io.Discard, bytes.NewReader(in[:n])) == nil {
			t.Errorf("%d of %d bytes are taken", n, len(in))
		}
	}
	if restoredMeta(io.Discard, bytes.NewReader(append(bytes.Clone(in), 0))) == nil {
		t.Error("what follows the end is not noticed")
	}
}
