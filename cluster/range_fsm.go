package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/accounts"
)

// rangeFSM is the state of a range's group: the levels of limits, and the accounts.
type rangeFSM struct {
	levels   *levelsFSM
	accounts *accounts.Replica
}

func newRangeFSM(mono func() time.Duration) *rangeFSM {
	return &rangeFSM{levels: newLevelsFSM(mono), accounts: accounts.NewReplica()}
}

// clear makes it as new: its replica was given away.
func (f *rangeFSM) clear() {
	f.levels.set(&raftlogv1.RangeSnapshot{})
	f.accounts.Clear()
}

// Apply implements multiraft.StateMachine.
func (f *rangeFSM) Apply(index, term uint64, data []byte) any {
	if batch, ok := accounts.Batch(data); ok {
		return f.accounts.Apply(batch)
	}
	return f.levels.Apply(index, term, data)
}

// rangeMagic begins a snapshot of both. No encoded RangeSnapshot, which is what a
// snapshot of levels alone was, begins so: there is no field 0.
const rangeMagic = "\x00range2\n"

// levelsPerPart bounds a part of a snapshot.
const levelsPerPart = 4096

// Snapshot implements multiraft.StateMachine. It copies no account: a view costs the
// same however many there are.
//
// The form is rangeMagic, RangeSnapshots of up to 4096 levels each behind its length
// as a varint, of which the last has fewer, and the accounts in their own form.
func (f *rangeFSM) Snapshot() (func(io.Writer) error, error) {
	levels, view := f.levels.parts(levelsPerPart), f.accounts.View()
	return func(w io.Writer) error {
		out := bufio.NewWriterSize(w, snapshotBuffer)
		if _, err := out.WriteString(rangeMagic); err != nil {
			return err
		}
		for part := range levels {
			if _, err := (protodelim.MarshalOptions{MarshalOptions: canonical}).MarshalTo(out, part); err != nil {
				return err
			}
		}
		if err := view.Write(out); err != nil {
			return err
		}
		return out.Flush()
	}, nil
}

// Restore implements multiraft.StateMachine. A snapshot that cannot be read changes
// nothing.
func (f *rangeFSM) Restore(r io.Reader) error {
	in := bufio.NewReaderSize(r, snapshotBuffer)
	if head, _ := in.Peek(len(rangeMagic)); !bytes.Equal(head, []byte(rangeMagic)) { // of levels alone
		if err := f.levels.Restore(in); err != nil {
			return err
		}
		f.accounts.Clear()
		return nil
	}
	levels, err := readLevels(in)
	if err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	if err := f.accounts.Restore(in); err != nil {
		return fmt.Errorf("range snapshot: %w", err)
	}
	f.levels.set(levels)
	return nil
}

// readLevels reads the levels' parts of a snapshot.
func readLevels(in *bufio.Reader) (*raftlogv1.RangeSnapshot, error) {
	if _, err := in.Discard(len(rangeMagic)); err != nil {
		return nil, err
	}
	all := &raftlogv1.RangeSnapshot{}
	for n := 0; ; n++ {
		part := &raftlogv1.RangeSnapshot{}
		if err := (protodelim.UnmarshalOptions{MaxSize: maxRangePart}).UnmarshalFrom(in, part); err != nil {
			return nil, fmt.Errorf("levels, part %d: %w", n, noEnd(err))
		}
		all.Levels, all.NowUnixNanos = append(all.Levels, part.Levels...), part.NowUnixNanos
		if len(part.Levels) < levelsPerPart {
			return all, nil
		}
	}
}

// maxRangePart bounds a part that is read, so that a damaged length allocates no
// more: that of 4096 levels with all their marks is smaller.
const maxRangePart = 64 << 20
