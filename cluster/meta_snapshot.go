package cluster

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// metaMagic begins a snapshot of records; see MetaSnapshot in the proto. No
// message begins with a zero, so older snapshots are told apart.
const metaMagic = "\x00meta2\n"

// maxMetaRecord bounds a record read from a snapshot; the largest holds the
// limits of one log entry.
const maxMetaRecord = 64 << 20

// snapshotBuffer is how much of a snapshot is written and read at a time.
const snapshotBuffer = 64 << 10

// Snapshot implements multiraft.StateMachine. Its bytes are the same on every
// replica. Versions and tables of overrides are never changed, so it copies
// none of them.
func (m *metaFSM) Snapshot() (func(io.Writer) error, error) {
	m.mu.Lock()
	versions := slices.Clone(m.history.list)
	head := &raftlogv1.MetaSnapshot{LimitsVersion: m.limits.Version}
	m.mu.Unlock()
	table := m.overrides.Load()
	head.OverridesRevision = table.revision
	return func(w io.Writer) error {
		b := bufio.NewWriterSize(w, snapshotBuffer)
		if err := writeMeta(b, head, versions, table); err != nil {
			return err
		}
		return b.Flush()
	}, nil
}

func writeMeta(w *bufio.Writer, head *raftlogv1.MetaSnapshot, versions []*pastLimits, table *overrideTable) error {
	out := protodelim.MarshalOptions{MarshalOptions: canonical}
	if _, err := w.WriteString(metaMagic); err != nil {
		return err
	}
	if _, err := out.MarshalTo(w, head); err != nil {
		return err
	}
	for _, v := range versions {
		r := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Version{Version: encodeVersion(&v.info, v.id)}, Limits: v.limits}
		if _, err := out.MarshalTo(w, r); err != nil {
			return err
		}
	}
	for k, rec := range table.after(quota.Key{}) {
		r := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Override{Override: &raftlogv1.StoredOverride{Key: encodeKey(k), Rule: rec.unpack()}}}
		if _, err := out.MarshalTo(w, r); err != nil {
			return err
		}
	}
	_, err := out.MarshalTo(w, &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_End{End: &raftlogv1.MetaEnd{
		Versions: uint64(len(versions)), Overrides: uint64(table.count),
	}}})
	return err
}

// Restore implements multiraft.StateMachine. A snapshot that cannot be read
// changes nothing.
func (m *metaFSM) Restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, snapshotBuffer)
	restore := readMeta
	if head, _ := in.Peek(len(metaMagic)); !bytes.Equal(head, []byte(metaMagic)) { // short: an old one
		restore = readOldMeta
	}
	past, table, err := restore(in)
	if err != nil {
		return fmt.Errorf("meta snapshot: %w", err)
	}
	limits, err := past.newest().decode()
	if err != nil {
		return fmt.Errorf("meta snapshot: %w", err)
	}
	m.mu.Lock()
	m.history, m.limits = past, limits
	m.mu.Unlock()
	m.overrides.Store(table)
	m.changed(limits)
	m.overridden(nil)
	return nil
}

// readOldMeta reads a snapshot from before there was a history.
func readOldMeta(in *bufio.Reader) (history, *overrideTable, error) {
	var past history
	var snap raftlogv1.MetaSnapshot
	if err := read(in, &snap); err != nil || snap.LimitsVersion == 0 {
		return past, &overrideTable{}, err
	}
	encoded, err := canonical.Marshal(&raftlogv1.LimitList{Limits: snap.GetLimits().GetLimits()})
	past.add(&pastLimits{limits: encoded, info: quota.Version{
		Number: snap.LimitsVersion, At: quota.Time(snap.GetLimits().GetAtUnixNanos()), Limits: len(snap.GetLimits().GetLimits()),
	}})
	return past, &overrideTable{}, err
}

// readMeta reads a snapshot of records, one at a time.
func readMeta(in *bufio.Reader) (history, *overrideTable, error) {
	var past history
	if _, err := in.Discard(len(metaMagic)); err != nil {
		return past, nil, err
	}
	opts := protodelim.UnmarshalOptions{MaxSize: maxMetaRecord}
	var head raftlogv1.MetaSnapshot
	if err := opts.UnmarshalFrom(in, &head); err != nil {
		return past, nil, fmt.Errorf("head: %w", err)
	}
	table := tableBuilder{}
	for n := 0; ; n++ {
		var rec raftlogv1.MetaRecord
		if err := opts.UnmarshalFrom(in, &rec); err != nil {
			return past, nil, fmt.Errorf("record %d: %w", n, noEnd(err))
		}
		switch b := rec.Record.(type) {
		case *raftlogv1.MetaRecord_Version:
			if v := b.Version.GetNumber(); len(past.list) > 0 && v != past.newest().info.Number+1 {
				return past, nil, fmt.Errorf("record %d: version %d follows %d", n, v, past.newest().info.Number)
			}
			past.add(&pastLimits{info: decodeVersion(b.Version), id: b.Version.GetRequestId(), limits: rec.Limits})
		case *raftlogv1.MetaRecord_Override:
			if err := table.add(b.Override); err != nil {
				return past, nil, fmt.Errorf("record %d: %w", n, err)
			}
		case *raftlogv1.MetaRecord_End:
			err := checkMeta(&head, &past, &table, b.End)
			return past, table.done(head.OverridesRevision), err
		}
	}
}

// noEnd names an end of the data between records, where there must be another.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func checkMeta(head *raftlogv1.MetaSnapshot, past *history, table *tableBuilder, end *raftlogv1.MetaEnd) error {
	switch {
	case end.GetVersions() != uint64(len(past.list)) || end.GetOverrides() != uint64(table.count):
		return fmt.Errorf("it has %d versions and %d overrides; written were %d and %d",
			len(past.list), table.count, end.GetVersions(), end.GetOverrides())
	case past.newest().info.Number != head.LimitsVersion:
		return fmt.Errorf("its newest version is %d; in force was %d", past.newest().info.Number, head.LimitsVersion)
	}
	return nil
}

func writer(m proto.Message) func(io.Writer) error {
	return func(w io.Writer) error {
		data, err := canonical.Marshal(m)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	}
}

func read(r io.Reader, m proto.Message) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}
