package snapshotio

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Canonical encodes equal messages as equal bytes, on all nodes that run the same version of the
// program.
var Canonical = proto.MarshalOptions{Deterministic: true}

// BufferSize is the size of a snapshot's read and write buffers, in bytes.
const BufferSize = 64 << 10

// ReadMagic reads the magic bytes of a snapshot. If they are another format's, the error says so.
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

// NoEnd turns an end of file where another record must follow into io.ErrUnexpectedEOF.
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
