package snapshotio

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Canonical writes equal messages as equal bytes, on all nodes of one version
// of the program.
var Canonical = proto.MarshalOptions{Deterministic: true}

// BufferSize is how much of a snapshot is written and read at a time.
const BufferSize = 64 << 10

// ReadMagic reads the first bytes of a snapshot. The error says so where they are those of another
// format.
func ReadMagic(in *bufio.Reader, want string) error {
	head := make([]byte, len(want))
	if _, err := io.ReadFull(in, head); err != nil {
		return fmt.Errorf("format: %w", NoEnd(err))
	}
	if string(head) != want {
		return fmt.Errorf("format: begins with %q; this version of quorate reads %q", head, want)
	}
	return nil
}

// NoEnd names an end of the data between records, where there must be another.
func NoEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Encode marshals one of our own messages.
func Encode(m proto.Message) []byte {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err) // invariant: our own messages encode
	}
	return data
}
