package transport

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
)

const lengthBytes = 4

// keepBuffer is the largest read buffer kept between frames.
const keepBuffer = 256 << 10

// encode returns a message with its length as a prefix.
func encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, lengthBytes, 256), m)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	return seal(b)
}

// encodeFrame returns an encoded frame with the given id.
//
// It appends the id to the encoded frame instead of setting it in f. The last value of a field
// wins, and the caller's frame stays unmodified, so one frame may be sent to several peers at
// once.
func encodeFrame(f *peerv1.Frame, id uint64, answer bool) ([]byte, error) {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, lengthBytes, 256), f)
	if err != nil {
		return nil, fmt.Errorf("encode frame: %w", err)
	}
	b = protowire.AppendTag(b, 1, protowire.VarintType)
	b = protowire.AppendVarint(b, id)
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, protowire.EncodeBool(answer))
	return seal(b)
}

func seal(b []byte) ([]byte, error) {
	n := len(b) - lengthBytes
	if n > MaxFrame {
		return nil, fmt.Errorf("%w: %d bytes; at most %d", ErrTooLarge, n, MaxFrame)
	}
	binary.BigEndian.PutUint32(b, uint32(n))
	return b, nil
}

// frameReader reads frames into a buffer that it reuses.
type frameReader struct {
	r   *bufio.Reader
	buf []byte
}

// next returns the next payload, valid until the next call. It rejects a length over limit before
// it allocates anything.
func (fr *frameReader) next(limit int) ([]byte, error) {
	var head [lengthBytes]byte
	if _, err := io.ReadFull(fr.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if uint64(n) > uint64(limit) {
		return nil, fmt.Errorf("%w: %d bytes announced; at most %d", ErrTooLarge, n, limit)
	}
	if cap(fr.buf) > keepBuffer && int(n) <= keepBuffer {
		fr.buf = nil
	}
	fr.buf = slices.Grow(fr.buf[:0], int(n))[:n]
	if _, err := io.ReadFull(fr.r, fr.buf); err != nil {
		return nil, fmt.Errorf("frame of %d bytes cut short: %w", n, err)
	}
	return fr.buf, nil
}

// more reports that another complete frame is buffered: reading it does not wait.
func (fr *frameReader) more() bool {
	have := fr.r.Buffered()
	if have < lengthBytes {
		return false
	}
	head, err := fr.r.Peek(lengthBytes)
	return err == nil && uint64(binary.BigEndian.Uint32(head)) <= uint64(have-lengthBytes)
}

var errMalformed = errors.New("malformed frame")

// frame reads one peerv1.Frame.
func (fr *frameReader) frame() (*peerv1.Frame, error) {
	b, err := fr.next(MaxFrame)
	if err != nil {
		return nil, err
	}
	f := &peerv1.Frame{}
	if err := proto.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return f, nil
}
