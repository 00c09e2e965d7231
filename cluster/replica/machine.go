package replica

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/accounts"
	"github.com/quorate/quorate/cluster/recorder"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// Machine is the state machine of a range's group: the levels of limits, the accounts, and the last hour
// of the history that this range keeps.
type Machine struct {
	levels   *levels
	Accounts *accounts.Replica
	History  *recorder.Replica
}

// NewMachine returns an empty machine. mono returns how long the process has been running.
func NewMachine(mono func() time.Duration) *Machine {
	return &Machine{levels: newLevels(mono), Accounts: accounts.NewReplica(), History: recorder.NewReplica()}
}

// Clear empties the machine when the replica has moved to another node.
func (m *Machine) Clear() {
	m.levels.set(&raftlogv1.RangeSnapshot{})
	m.Accounts.Clear()
	m.History.Restore(history.NewRecent(), history.NewRecentKeys())
}

// Levels returns the levels of keys that are not full, by the log's clock.
func (m *Machine) Levels() []quota.KeyLevel { return m.levels.all() }

// Apply implements raftgroup.StateMachine. A command that this version cannot read or does not know changes nothing.
func (m *Machine) Apply(_, term uint64, data []byte) any {
	var cmd raftlogv1.RangeCommand
	if err := proto.Unmarshal(data, &cmd); err != nil {
		return fmt.Errorf("range command: %w", err)
	}
	switch c := cmd.Change.(type) {
	case *raftlogv1.RangeCommand_TermStart:
		m.levels.begin()
	case *raftlogv1.RangeCommand_Checkpoint:
		if err := m.levels.checkpoint(term, c.Checkpoint); err != nil {
			return err
		}
	case *raftlogv1.RangeCommand_Accounts:
		return m.Accounts.Apply(c.Accounts)
	case *raftlogv1.RangeCommand_History:
		return m.History.Apply(c.History)
	case *raftlogv1.RangeCommand_Barrier: // applying it is enough to answer the waiting caller
	}
	return nil
}

// rangeMagic begins a snapshot of a range and identifies its format; see docs/reference/formats.md.
const rangeMagic = "\x00range1\n"

// Bounds on a part of a snapshot.
const (
	levelsPerPart = 4096
	bytesPerPart  = 16 << 20 // exceeded only by a single larger level
)

// Snapshot implements raftgroup.StateMachine. It copies no account: a view has constant cost, whatever
// their number.
//
// The format is rangeMagic; RangeSnapshots of up to 4096 levels, each preceded by its length as a
// varint, of which the last has fewer levels and More unset; the history, preceded by its length as a
// varint; and the accounts in their own format.
func (m *Machine) Snapshot() (func(io.Writer) error, error) {
	levels, view, past := m.levels.parts(levelsPerPart, bytesPerPart), m.Accounts.View(), m.History.Snapshot()
	return func(w io.Writer) error {
		out := bufio.NewWriterSize(w, snapshotio.BufferSize)
		if _, err := out.WriteString(rangeMagic); err != nil {
			return err
		}
		for part := range levels {
			if _, err := (protodelim.MarshalOptions{MarshalOptions: snapshotio.Canonical}).MarshalTo(out, part); err != nil {
				return err
			}
		}
		if _, err := out.Write(append(binary.AppendUvarint(nil, uint64(len(past))), past...)); err != nil {
			return err
		}
		if err := view.Write(out); err != nil {
			return err
		}
		return out.Flush()
	}, nil
}

// Restore implements raftgroup.StateMachine. A snapshot that cannot be read changes nothing.
func (m *Machine) Restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, snapshotio.BufferSize)
	levels, err := readLevels(in)
	if err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	past, keys, err := readHistory(in)
	if err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	if err := m.Accounts.Restore(in); err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	m.levels.set(levels)
	m.History.Restore(past, keys)
	return nil
}

// maxHistoryPart bounds the history in a snapshot that is read, in bytes. The history of 10,000 limits
// that all live in one range and are busy every second takes an eighth of it. readHistory allocates as
// data arrives, so a damaged length allocates no more than the data present.
const maxHistoryPart = 2 << 30

// readHistory reads the history part of a snapshot.
func readHistory(in *bufio.Reader) (*history.Recent, *history.RecentKeys, error) {
	size, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, nil, fmt.Errorf("history: %w", snapshotio.NoEnd(err))
	}
	if size > maxHistoryPart {
		return nil, nil, fmt.Errorf("history: %d bytes; at most %d", size, maxHistoryPart)
	}
	data, err := io.ReadAll(io.LimitReader(in, int64(size)))
	if err == nil && uint64(len(data)) < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	return recorder.Decode(data)
}

// readLevels reads the level parts of a snapshot.
func readLevels(in *bufio.Reader) (*raftlogv1.RangeSnapshot, error) {
	if err := snapshotio.ReadMagic(in, rangeMagic); err != nil {
		return nil, err
	}
	all := &raftlogv1.RangeSnapshot{}
	for n := 0; ; n++ {
		part := &raftlogv1.RangeSnapshot{}
		if err := (protodelim.UnmarshalOptions{MaxSize: maxRangePart}).UnmarshalFrom(in, part); err != nil {
			return nil, fmt.Errorf("levels, part %d: %w", n, snapshotio.NoEnd(err))
		}
		all.Levels = append(all.Levels, part.Levels...)
		all.NowUnixNanos, all.Term, all.LastUnixNanos = part.NowUnixNanos, part.Term, part.LastUnixNanos
		if partEnds(part) {
			return all, nil
		}
	}
}

// maxRangePart bounds a part that is read, in bytes, so that a damaged length allocates no more.
const maxRangePart = 64 << 20

// CopyForRestore converts a snapshot of a range for use in another cluster. It copies the accounts and
// the history unchanged, and of limits only the levels: the counts as they were booked. What members of
// the old cluster held or were promised becomes free: they will never report here, and what they used
// of it after the backup is as unknown as everything else that happened then.
func CopyForRestore(w io.Writer, r io.Reader) error {
	in, out := bufio.NewReaderSize(r, snapshotio.BufferSize), bufio.NewWriterSize(w, snapshotio.BufferSize)
	if err := snapshotio.ReadMagic(in, rangeMagic); err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	_, _ = out.WriteString(rangeMagic) // a bufio.Writer keeps errors until Flush
	for n := 0; ; n++ {
		part := &raftlogv1.RangeSnapshot{}
		if err := (protodelim.UnmarshalOptions{MaxSize: maxRangePart}).UnmarshalFrom(in, part); err != nil {
			return fmt.Errorf("range snapshot: levels, part %d: %w", n, snapshotio.NoEnd(err))
		}
		part.Term, part.LastUnixNanos = 0, 0 // terms start over
		for _, l := range part.Levels {
			l.Marks, l.ImplicitMicroTokens, l.AnswersMicroTokens, l.AnswersUntilUnixNanos = nil, 0, 0, 0
		}
		if _, err := (protodelim.MarshalOptions{MarshalOptions: snapshotio.Canonical}).MarshalTo(out, part); err != nil {
			return err
		}
		if partEnds(part) {
			break
		}
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Flush()
}
