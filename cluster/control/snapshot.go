package control

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protodelim"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
	"github.com/quorate/quorate/internal/snapshotio"
)

// MetaMagic starts a snapshot of the meta group and identifies its format; see MetaSnapshot in the
// proto and docs/reference/formats.md.
const MetaMagic = "\x00meta1\n"

// MaxMetaRecord is the maximum size in bytes of a record read from a snapshot; the largest record
// holds the limits of one log entry.
const MaxMetaRecord = 64 << 20

// Snapshot implements raftgroup.StateMachine. It writes the same bytes on every replica. Versions
// and tables are immutable, so it does not copy them.
func (m *Machine) Snapshot() (func(io.Writer) error, error) {
	m.mu.Lock()
	versions := slices.Clone(m.history.list)
	head := &raftlogv1.MetaSnapshot{LimitsVersion: m.limits.Version}
	m.mu.Unlock()
	table, policies, security, group := m.overrides.Load(), m.Policies.Load(), m.Security.table.Load(), m.Members.Load()
	head.OverridesRevision, head.PoliciesRevision, head.Fence = table.revision, policies.Revision, m.fence.Load()
	return func(w io.Writer) error {
		b := bufio.NewWriterSize(w, snapshotio.BufferSize)
		if err := writeMeta(b, head, versions, table, policies, security, group); err != nil {
			return err
		}
		return b.Flush()
	}, nil
}

func writeMeta(w *bufio.Writer, head *raftlogv1.MetaSnapshot, versions []*pastLimits, table *overrideTable, policies *policyTable, security *rbac.Table, group *membership.Table) error {
	out := protodelim.MarshalOptions{MarshalOptions: snapshotio.Canonical}
	if _, err := w.WriteString(MetaMagic); err != nil {
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
		r := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Override{Override: &raftlogv1.StoredOverride{Key: limitproto.EncodeKey(k), Rule: rec.unpack()}}}
		if _, err := out.MarshalTo(w, r); err != nil {
			return err
		}
	}
	for _, c := range policies.configs {
		r := &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Policies{Policies: encodeConfig(c)}}
		if _, err := out.MarshalTo(w, r); err != nil {
			return err
		}
	}
	if s := security.Encode(); s != nil {
		if _, err := out.MarshalTo(w, &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Security{Security: s}}); err != nil {
			return err
		}
	}
	if group.Seeded() {
		if _, err := out.MarshalTo(w, &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_Members{Members: group.Proto()}}); err != nil {
			return err
		}
	}
	_, err := out.MarshalTo(w, &raftlogv1.MetaRecord{Record: &raftlogv1.MetaRecord_End{End: &raftlogv1.MetaEnd{
		Versions: uint64(len(versions)), Overrides: uint64(table.count), Policies: uint64(len(policies.configs)),
	}}})
	return err
}

// Restore implements raftgroup.StateMachine. If it cannot read the snapshot, the state is
// unchanged.
func (m *Machine) Restore(r io.Reader) error {
	parts, err := readMeta(bufio.NewReaderSize(r, snapshotio.BufferSize))
	if err != nil {
		return fmt.Errorf("meta snapshot: %w", err)
	}
	limits, err := parts.past.newest().decode()
	if err != nil {
		return fmt.Errorf("meta snapshot: %w", err)
	}
	m.mu.Lock()
	m.history, m.limits = parts.past, limits
	m.mu.Unlock()
	m.overrides.Store(parts.overrides)
	m.Policies.Store(parts.policies)
	m.Security.table.Store(parts.security)
	m.Members.Store(parts.members)
	m.fence.Store(parts.fence)
	m.changed(limits)
	m.overridden(nil)
	m.Reloaded()
	m.Regrouped(parts.members)
	return nil
}

// metaParts is the content of a snapshot.
type metaParts struct {
	past      limitVersions
	overrides *overrideTable
	policies  *policyTable
	security  *rbac.Table
	members   *membership.Table
	fence     uint64
}

// metaReader builds the parts from records that arrive in order.
type metaReader struct {
	head     raftlogv1.MetaSnapshot
	past     limitVersions
	table    tableBuilder
	policies policyTable
	security *rbac.Table
	members  *raftlogv1.Membership
}

// readMeta reads a snapshot record by record.
func readMeta(in *bufio.Reader) (metaParts, error) {
	if err := snapshotio.ReadMagic(in, MetaMagic); err != nil {
		return metaParts{}, err
	}
	opts := protodelim.UnmarshalOptions{MaxSize: MaxMetaRecord}
	r := metaReader{security: &rbac.Table{}}
	if err := opts.UnmarshalFrom(in, &r.head); err != nil {
		return metaParts{}, fmt.Errorf("head: %w", err)
	}
	for n := 0; ; n++ {
		var rec raftlogv1.MetaRecord
		if err := opts.UnmarshalFrom(in, &rec); err != nil {
			return metaParts{}, fmt.Errorf("record %d: %w", n, snapshotio.NoEnd(err))
		}
		if end := rec.GetEnd(); end != nil {
			r.policies.Revision = r.head.PoliciesRevision
			return metaParts{r.past, r.table.done(r.head.OverridesRevision), &r.policies, r.security, membership.New(r.members), r.head.Fence}, r.check(end)
		}
		if err := r.add(&rec); err != nil {
			return metaParts{}, fmt.Errorf("record %d: %w", n, err)
		}
	}
}

// add skips records of unknown kinds.
func (r *metaReader) add(rec *raftlogv1.MetaRecord) error {
	switch b := rec.Record.(type) {
	case *raftlogv1.MetaRecord_Version:
		if v := b.Version.GetNumber(); len(r.past.list) > 0 && v != r.past.newest().info.Number+1 {
			return fmt.Errorf("version %d follows %d", v, r.past.newest().info.Number)
		}
		r.past.add(&pastLimits{info: decodeVersion(b.Version), id: b.Version.GetRequestId(), limits: rec.Limits})
	case *raftlogv1.MetaRecord_Override:
		return r.table.add(b.Override)
	case *raftlogv1.MetaRecord_Policies:
		return r.policies.add(b.Policies)
	case *raftlogv1.MetaRecord_Security:
		var err error
		r.security, err = rbac.Decode(b.Security)
		return err
	case *raftlogv1.MetaRecord_Members:
		r.members = b.Members
	}
	return nil
}

func (r *metaReader) check(end *raftlogv1.MetaEnd) error {
	versions, configs := len(r.past.list), len(r.policies.configs)
	switch {
	case end.GetVersions() != uint64(versions) || end.GetOverrides() != uint64(r.table.count) || end.GetPolicies() != uint64(configs):
		return fmt.Errorf("it has %d versions, %d overrides and %d policy configs; must be %d, %d and %d",
			versions, r.table.count, configs, end.GetVersions(), end.GetOverrides(), end.GetPolicies())
	case r.past.newest().info.Number != r.head.LimitsVersion:
		return fmt.Errorf("its newest version is %d; must be the active one, %d", r.past.newest().info.Number, r.head.LimitsVersion)
	}
	return nil
}
