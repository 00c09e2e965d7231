package backup

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protodelim"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/control"
	"github.com/quorate/quorate/internal/snapshotio"
)

// restoredMeta copies a snapshot of the meta group without the state that belongs only to the
// original cluster: its members, their placement, the join tokens, and
// the authority with its key. It copies everything else unchanged, including records that this
// version does not know. It needs memory for one record.
//
// Taking a backup uses it, so that no backup contains a key that can sign certificates.
// Restoring uses it too, so that this holds for any file.
func restoredMeta(w io.Writer, r io.Reader) error {
	in, out := bufio.NewReaderSize(r, snapshotio.BufferSize), bufio.NewWriterSize(w, snapshotio.BufferSize)
	if err := snapshotio.ReadMagic(in, control.MetaMagic); err != nil {
		return fmt.Errorf("meta snapshot: %w", err)
	}
	_, _ = out.WriteString(control.MetaMagic) // Flush returns the first error of a bufio.Writer
	from, to := protodelim.UnmarshalOptions{MaxSize: control.MaxMetaRecord}, protodelim.MarshalOptions{MarshalOptions: snapshotio.Canonical}
	head := &raftlogv1.MetaSnapshot{}
	if err := from.UnmarshalFrom(in, head); err != nil {
		return fmt.Errorf("meta snapshot: head: %w", snapshotio.NoEnd(err))
	}
	if _, err := to.MarshalTo(out, head); err != nil {
		return err
	}
	for n := 0; ; n++ {
		rec := &raftlogv1.MetaRecord{}
		if err := from.UnmarshalFrom(in, rec); err != nil {
			return fmt.Errorf("meta snapshot: record %d: %w", n, snapshotio.NoEnd(err))
		}
		if rec.GetMembers() != nil {
			continue
		}
		if _, err := to.MarshalTo(out, rec); err != nil {
			return err
		}
		if rec.GetEnd() != nil {
			return errors.Join(out.Flush(), nothingLeft(in))
		}
	}
}

// withoutMembers wraps the function that writes a snapshot so that it writes through restoredMeta.
func withoutMembers(write func(io.Writer) error) func(io.Writer) error {
	return func(w io.Writer) error {
		from, to := io.Pipe()
		go func() { _ = to.CloseWithError(write(to)) }() // ends with from
		err := restoredMeta(w, from)
		_ = from.CloseWithError(err)
		return err
	}
}

// nothingLeft returns an error unless the input has ended.
func nothingLeft(in *bufio.Reader) error {
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("there is data after its end")
	}
	return nil
}
