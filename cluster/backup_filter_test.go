package cluster

import (
	"bytes"
	"io"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
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

// TestRestoredMeta: members, join tokens and the authority's key are gone, and all else
// is as it was, also what this version does not know.
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
	if m, err := readBackupMeta(&out); err != nil || m.Content().Overrides != 1 {
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

// TestRestoredRange: of levels the members' part is gone; accounts are as they were.
func TestRestoredRange(t *testing.T) {
	f := newRangeFSM(func() time.Duration { return 0 })
	level := &raftlogv1.KeyLevel{
		Namespace: "api", Limit: "user", Key: "acme", LevelMicroTokens: 5, FullAtUnixNanos: 1 << 60,
		Marks: []*raftlogv1.Mark{{Node: "n1", Out: 3}}, UnloggedMicroTokens: 7, AnswersMicroTokens: 9, AnswersUntilUnixNanos: 1 << 60,
	}
	f.Apply(1, 1, snapshotio.Encode(&raftlogv1.RangeCommand{Change: &raftlogv1.RangeCommand_Checkpoint{Checkpoint: &raftlogv1.Checkpoint{AtUnixNanos: 4, Levels: []*raftlogv1.KeyLevel{level}}}}))
	write, err := f.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var in, out bytes.Buffer
	if err := write(&in); err != nil {
		t.Fatal(err)
	}
	whole := bytes.Clone(in.Bytes())
	if err := restoredRange(&out, &in); err != nil {
		t.Fatal(err)
	}
	again, err := readBackupRange(&out)
	if err != nil {
		t.Fatal(err)
	}
	list := again.levels.all(0, 0)
	if len(list) != 1 {
		t.Fatalf("%d levels", len(list))
	}
	if l := list[0]; l.Level != 5 || len(l.Marks) != 0 || l.Unlogged != 0 || l.Answers != 0 || l.AnswersUntil != 0 {
		t.Errorf("%+v", l)
	}
	for n := range whole {
		var out bytes.Buffer
		if restoredRange(&out, bytes.NewReader(whole[:n])) == nil {
			if _, err := readBackupRange(&out); err == nil {
				t.Errorf("%d of %d bytes are taken", n, len(whole))
			}
		}
	}
}
