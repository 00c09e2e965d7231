package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/quorate/quorate/cluster/raftgroup"
)

// Reader reads and verifies a backup. It reads ahead. After an error, all calls return
// that error. Not safe for concurrent use.
type Reader struct {
	r        *bufio.Reader
	all      hash.Hash // of all bytes read
	offset   int64     // of the block being read
	read     int64     // bytes read
	number   uint64
	manifest Manifest
	whole    bool // the seal was read and fits
	content  []byte
	piece    []byte    // the unread rest of the data block
	group    hash.Hash // of the current group; nil outside of groups
	err      error
}

// NewReader reads the head of a backup. Its error is a *FormatError or wraps an error of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{r: bufio.NewReaderSize(r, 64<<10), all: sha256.New()}
	magic := make([]byte, len(Magic))
	n, err := io.ReadFull(b.r, magic)
	if err != nil && !isEnd(err) {
		return nil, fmt.Errorf("read backup: %w", err)
	}
	if string(magic[:n]) != Magic {
		return nil, b.bad("begins with %q, not with %q: this is not a Quorate backup", magic[:n], Magic)
	}
	b.all.Write(magic)
	b.read = int64(n)
	b.offset = b.read
	if kind, err := b.block(); err != nil {
		return nil, err
	} else if kind != kindHead {
		return nil, b.expected("the head", kind)
	}
	if err := b.json(&b.manifest.Head, false); err != nil {
		return nil, err
	}
	if err := b.manifest.check(); err != nil {
		return nil, b.bad("%v", err)
	}
	if err := b.json(&b.manifest.Head, true); err != nil {
		return nil, err
	}
	return b, nil
}

// Head returns the head. It is available before the backup is known to be whole.
func (b *Reader) Head() Head { return b.manifest.Head }

// Manifest returns what has been read so far. It is complete after Next has returned io.EOF.
func (b *Reader) Manifest() *Manifest { return &b.manifest }

// Offset returns the number of bytes read and verified so far.
func (b *Reader) Offset() int64 { return b.read }

// Next advances to the next group and skips the unread rest of the current one. It returns
// io.EOF at the end of a complete backup.
func (b *Reader) Next() (*Group, error) {
	if b.group != nil && b.err == nil {
		if _, err := io.Copy(io.Discard, b); err != nil {
			return nil, err
		}
	}
	if b.err == nil {
		b.err = b.next()
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.current(), nil
}

func (b *Reader) current() *Group { return &b.manifest.Groups[len(b.manifest.Groups)-1] }

func (b *Reader) next() error {
	kind, err := b.block()
	if err != nil {
		return err
	}
	place := len(b.manifest.Groups)
	switch {
	case place > b.manifest.Ranges && kind == kindManifest:
		return b.end()
	case place > b.manifest.Ranges:
		return b.expected("the manifest", kind)
	case kind != kindGroup:
		return b.expected("group "+raftgroup.GroupName(uint32(place)), kind)
	}
	var g beginning
	if err := b.json(&g, true); err != nil {
		return err
	}
	if g.Name != raftgroup.GroupName(uint32(place)) {
		return b.bad("got group %q, want %q: groups are missing, duplicated or out of order", g.Name, raftgroup.GroupName(uint32(place)))
	}
	b.manifest.Groups = append(b.manifest.Groups, Group{Name: g.Name, Index: g.Index, Term: g.Term})
	b.group = sha256.New()
	return nil
}

// Read reads from the snapshot of the current group. When it returns io.EOF, the snapshot is known
// to be whole.
func (b *Reader) Read(p []byte) (int, error) {
	for len(b.piece) == 0 {
		switch {
		case b.err != nil:
			return 0, b.err
		case b.group == nil:
			return 0, io.EOF
		}
		b.err = b.more()
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}

// more reads the next piece of the group or its end, which it verifies.
func (b *Reader) more() error {
	kind, err := b.block()
	if err != nil {
		return err
	}
	g := b.current()
	switch {
	case kind == kindData && len(b.content) == 0:
		return b.bad("an empty piece")
	case kind == kindData:
		b.group.Write(b.content)
		g.Size += int64(len(b.content))
		b.piece = b.content
		return nil
	case kind != kindGroupEnd:
		return b.expected("a piece of the snapshot or its end", kind)
	}
	var end ending
	if err := b.json(&end, true); err != nil {
		return err
	}
	g.SHA256 = hex.EncodeToString(b.group.Sum(nil))
	if end != (ending{g.Size, g.SHA256}) {
		return b.bad("the snapshot has %d bytes and the checksum %s; must be %d and %s", g.Size, g.SHA256, end.Size, end.SHA256)
	}
	b.group = nil
	return nil
}

// end verifies the manifest and the seal, and that the file ends there. It then returns io.EOF.
func (b *Reader) end() error {
	var m Manifest
	if err := b.json(&m, true); err != nil {
		return err
	}
	if m.Head != b.manifest.Head || !slices.Equal(m.Groups, b.manifest.Groups) {
		return b.bad("the manifest does not match the content: the file contains parts of several backups")
	}
	sum := b.all.Sum(nil)
	switch kind, err := b.block(); {
	case err != nil:
		return err
	case kind != kindSeal:
		return b.expected("the seal", kind)
	case !bytes.Equal(b.content, sum):
		return b.bad("the seal does not match the content: the file contains parts of several backups, or is damaged")
	}
	b.offset = b.read
	switch _, err := b.r.ReadByte(); {
	case err == nil:
		return b.bad("there is data after the seal: something was appended to the file")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read backup: %w", err)
	}
	b.whole = true
	return io.EOF
}

// Whole reports whether the backup was read to its end and is complete.
func (b *Reader) Whole() bool { return b.whole }

// block reads the next block into b.content and verifies its checksum.
func (b *Reader) block() (kind byte, err error) {
	b.offset = b.read
	var head [blockHead]byte
	if err := b.readFull(head[:]); err != nil {
		return 0, err
	}
	kind = head[0]
	size, most := int(binary.BigEndian.Uint32(head[1:])), MaxPiece
	if kind != kindData {
		most = maxJSON
	}
	if size > most {
		return 0, b.bad("a block of %d bytes; at most %d: the file is damaged here", size, most)
	}
	b.content = b.content[:0]
	for len(b.content) < size { // allocate in steps: a damaged length may be too large
		from := len(b.content)
		b.content = slices.Grow(b.content, min(size-from, 64<<10))[:from+min(size-from, 64<<10)]
		if err := b.readFull(b.content[from:]); err != nil {
			return 0, err
		}
	}
	var sum [blockTail]byte
	if err := b.readFull(sum[:]); err != nil {
		return 0, err
	}
	if binary.BigEndian.Uint32(sum[:]) != checksum(b.number, head[:], b.content) {
		return 0, b.bad("the checksum of block %d is wrong: the file is damaged here, or blocks are missing, doubled or out of order", b.number)
	}
	b.number++
	return kind, nil
}

// readFull reads exactly p.
func (b *Reader) readFull(p []byte) error {
	n, err := io.ReadFull(b.r, p)
	b.all.Write(p[:n])
	b.read += int64(n)
	switch {
	case err == nil:
		return nil
	case isEnd(err):
		bad := b.bad("the file ends at byte %d, before its seal: it is truncated", b.read)
		bad.Err = io.ErrUnexpectedEOF
		return bad
	}
	return fmt.Errorf("read backup: %w", err)
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// json decodes the content of the block into v. If strict, an unknown field is an
// error.
func (b *Reader) json(v any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(b.content))
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(v)
	if err == nil && d.InputOffset() != int64(len(b.content)) {
		err = errors.New("there is data after it")
	}
	if err != nil {
		return b.bad("a description that cannot be read: %v", err)
	}
	return nil
}

func (b *Reader) expected(what string, kind byte) error {
	return b.bad("got %s, want %s", kindName(kind), what)
}

// bad returns an error about the block being read.
func (b *Reader) bad(format string, args ...any) *FormatError {
	e := &FormatError{Offset: b.offset, Reason: fmt.Sprintf(format, args...)}
	if b.group != nil {
		e.Group = b.current().Name
	}
	return e
}
