package cluster

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
	"github.com/quorate/quorate/internal/snapshotio"
)

// rangeFSM is the state of a range's group: the levels of limits, the accounts, and the last
// hour of the history that is at home here.
type rangeFSM struct {
	levels   *levelsFSM
	accounts *accounts.Replica
	history  *recorder.Replica
}

func newRangeFSM(mono func() time.Duration) *rangeFSM {
	return &rangeFSM{levels: newLevelsFSM(mono), accounts: accounts.NewReplica(), history: recorder.NewReplica()}
}

// clear makes it as new: its replica was given away.
func (f *rangeFSM) clear() {
	f.levels.set(&raftlogv1.RangeSnapshot{})
	f.accounts.Clear()
	f.history.Restore(history.NewRecent(), history.NewRecentKeys())
}

// Apply implements raftgroup.StateMachine. A command that this version cannot read, or does not know, changes nothing.
func (f *rangeFSM) Apply(_, term uint64, data []byte) any {
	var cmd raftlogv1.RangeCommand
	if err := proto.Unmarshal(data, &cmd); err != nil {
		return fmt.Errorf("range command: %w", err)
	}
	switch c := cmd.Change.(type) {
	case *raftlogv1.RangeCommand_TermStart:
		f.levels.begin()
	case *raftlogv1.RangeCommand_Checkpoint:
		f.levels.checkpoint(term, c.Checkpoint)
	case *raftlogv1.RangeCommand_Accounts:
		return f.accounts.Apply(c.Accounts)
	case *raftlogv1.RangeCommand_History:
		return f.history.Apply(c.History)
	}
	return nil
}

// rangeMagic begins a snapshot of a range, and names its format; see docs/formats.md.
const rangeMagic = "\x00range1\n"

// Bounds of a part of a snapshot.
const (
	levelsPerPart = 4096
	bytesPerPart  = 16 << 20 // unless one level is larger
)

// Snapshot implements raftgroup.StateMachine. It copies no account: a view costs the
// same however many there are.
//
// The form is rangeMagic, RangeSnapshots of up to 4096 levels each behind its length
// as a varint, of which the last has fewer and says that no more follow, the history behind its
// length as a varint, and the accounts in their own form.
func (f *rangeFSM) Snapshot() (func(io.Writer) error, error) {
	levels, view, past := f.levels.parts(levelsPerPart, bytesPerPart), f.accounts.View(), f.history.Snapshot()
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

// Restore implements raftgroup.StateMachine. A snapshot that cannot be read changes
// nothing.
func (f *rangeFSM) Restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, snapshotio.BufferSize)
	levels, err := readLevels(in)
	if err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	past, keys, err := readHistory(in)
	if err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	if err := f.accounts.Restore(in); err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	f.levels.set(levels)
	f.history.Restore(past, keys)
	return nil
}

// maxHistoryPart bounds the history of a snapshot that is read, in bytes: that of 10,000 limits that
// are all at home in one range and busy in every second takes an eighth of it. It is read as it
// comes, so a damaged length allocates no more than there is.
const maxHistoryPart = 2 << 30

// readHistory reads the history in a snapshot.
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

// readLevels reads the levels' parts of a snapshot.
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

// maxRangePart bounds a part that is read, so that a damaged length allocates no
// more.
const maxRangePart = 64 << 20
