package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/quorate/quorate/cluster/raftgroup"
)

// Writer writes a backup. It buffers one piece. After an error it writes nothing
// more, and all calls return that error: the file is not whole. Not safe
// for concurrent use.
type Writer struct {
	w        io.Writer
	all      hash.Hash // of all bytes written
	number   uint64
	manifest Manifest
	piece    []byte
	group    hash.Hash // of the current group; nil outside of groups
	err      error
}

// NewWriter writes the beginning of a backup. It sets the format of the head and converts its time
// to UTC.
func NewWriter(w io.Writer, h Head) (*Writer, error) {
	h.Format, h.At = Format, h.At.UTC()
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	b := &Writer{w: w, all: sha256.New(), manifest: Manifest{Head: h}, piece: make([]byte, 0, MaxPiece)}
	b.write([]byte(Magic))
	b.json(kindHead, &h)
	return b, b.err
}

// Begin starts the next group. name must be the raftgroup.GroupName of its place.
func (b *Writer) Begin(name string, index, term uint64) error {
	place := len(b.manifest.Groups)
	switch {
	case b.err != nil:
	case b.group != nil:
		b.err = errors.New("backup: a group begins within another")
	case place > b.manifest.Ranges || name != raftgroup.GroupName(uint32(place)):
		b.err = fmt.Errorf("backup: group %q is not number %d of %d", name, place+1, b.manifest.Ranges+1)
	default:
		b.group = sha256.New()
		b.manifest.Groups = append(b.manifest.Groups, Group{Name: name, Index: index, Term: term})
		b.json(kindGroup, &beginning{name, index, term})
	}
	return b.err
}

// Write writes a part of the current group's snapshot.
func (b *Writer) Write(p []byte) (int, error) {
	if b.err == nil && b.group == nil {
		b.err = errors.New("backup: data outside of a group")
	}
	n := 0
	for b.err == nil && n < len(p) {
		k := min(len(p)-n, MaxPiece-len(b.piece))
		b.piece = append(b.piece, p[n:n+k]...)
		if n += k; len(b.piece) == MaxPiece {
			b.flush()
		}
	}
	return n, b.err
}

func (b *Writer) flush() {
	if len(b.piece) == 0 {
		return
	}
	b.group.Write(b.piece) // never fails
	b.manifest.Groups[len(b.manifest.Groups)-1].Size += int64(len(b.piece))
	b.block(kindData, b.piece)
	b.piece = b.piece[:0]
}

// End ends the current group.
func (b *Writer) End() error {
	if b.err == nil && b.group == nil {
		b.err = errors.New("backup: no group to end")
	}
	if b.err == nil {
		b.flush()
		g := &b.manifest.Groups[len(b.manifest.Groups)-1]
		g.SHA256 = hex.EncodeToString(b.group.Sum(nil))
		b.group = nil
		b.json(kindGroupEnd, &ending{g.Size, g.SHA256})
	}
	return b.err
}

// Close completes the backup, which is not whole before. It does not close the underlying writer.
func (b *Writer) Close() error {
	if b.err == nil && (b.group != nil || len(b.manifest.Groups) != b.manifest.Ranges+1) {
		b.err = fmt.Errorf("backup: it has %d of %d groups", len(b.manifest.Groups), b.manifest.Ranges+1)
	}
	if b.err == nil {
		b.json(kindManifest, &b.manifest)
		b.block(kindSeal, b.all.Sum(nil))
	}
	err := b.err
	if b.err == nil {
		b.err = errors.New("backup: closed")
	}
	return err
}

func (b *Writer) json(kind byte, v any) {
	content, err := json.Marshal(v)
	if err != nil {
		b.err = fmt.Errorf("backup: %w", err)
		return
	}
	b.block(kind, content)
}

func (b *Writer) block(kind byte, content []byte) {
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
	sum := checksum(b.number, head, content)
	b.number++
	b.write(head)
	b.write(content)
	b.write(binary.BigEndian.AppendUint32(nil, sum))
}

func (b *Writer) write(p []byte) {
	if b.err != nil {
		return
	}
	b.all.Write(p) // never fails
	if _, err := b.w.Write(p); err != nil {
		b.err = fmt.Errorf("write backup: %w", err)
	}
}
