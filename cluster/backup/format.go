package backup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Magic is the first line of every backup.
const Magic = "quorate backup\n"

// Format is the version of the format that this package writes, and the only one that
// it reads.
const Format = 1

// Bounds of a file.
const (
	MaxPiece  = 256 << 10 // bytes of content of a data block
	MaxRanges = 1 << 12
	maxJSON   = 1 << 20
	maxName   = 1 << 10 // bytes of a name in the head
	blockHead = 5
	blockTail = 4
)

// The kinds of blocks.
const (
	kindHead     = 'H'
	kindGroup    = 'G'
	kindData     = 'D'
	kindGroupEnd = 'E'
	kindManifest = 'M'
	kindSeal     = 'S'
)

// kindName returns the name of a kind of block for errors.
func kindName(kind byte) string {
	switch kind {
	case kindHead:
		return "the head"
	case kindGroup:
		return "the beginning of a group"
	case kindData:
		return "a piece of a snapshot"
	case kindGroupEnd:
		return "the end of a group"
	case kindManifest:
		return "the manifest"
	case kindSeal:
		return "the seal"
	}
	return fmt.Sprintf("a block of kind %q", kind)
}

// Head describes the cluster and the moment of a backup.
type Head struct {
	Format   int       `json:"format"`   // the constant Format
	Cluster  string    `json:"cluster"`  // name of the cluster
	Software string    `json:"software"` // version of the node that took the backup
	Level    int       `json:"level"`    // feature level of the cluster; nodes of a lower level cannot read the content
	At       time.Time `json:"at"`       // start of the backup, UTC; it contains all that was acknowledged before
	Ranges   int       `json:"ranges"`   // 1 to MaxRanges
}

func (h *Head) check() error {
	switch {
	case h.Format != Format:
		return fmt.Errorf("the backup has format %d; this version of quorate reads format %d: use a version that reads it", h.Format, Format)
	case h.Ranges < 1 || h.Ranges > MaxRanges:
		return fmt.Errorf("ranges: %d; must be 1 to %d", h.Ranges, MaxRanges)
	case h.Cluster == "" || len(h.Cluster) > maxName:
		return fmt.Errorf("cluster: a name of %d bytes; must be 1 to %d", len(h.Cluster), maxName)
	case len(h.Software) > maxName:
		return fmt.Errorf("software: %d bytes; at most %d", len(h.Software), maxName)
	case h.Level < 0:
		return fmt.Errorf("level: %d; must be 0 or more", h.Level)
	}
	return nil
}

// Group is one snapshot in a backup.
type Group struct {
	Name   string `json:"name"`
	Index  uint64 `json:"index"` // the snapshot contains every log entry up to this one
	Term   uint64 `json:"term"`  // of the leader from which it was taken
	Size   int64  `json:"size"`  // bytes
	SHA256 string `json:"sha256"`
}

// Manifest lists the groups of a backup.
type Manifest struct {
	Head
	Groups []Group `json:"groups"`
}

// Size returns the total size of all snapshots in bytes.
func (m *Manifest) Size() (n int64) {
	for i := range m.Groups {
		n += m.Groups[i].Size
	}
	return n
}

// beginning and ending are the contents of the blocks around a group's pieces.
type beginning struct {
	Name  string `json:"name"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

type ending struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum returns the checksum of a block; head is its kind and length.
func checksum(number uint64, head, content []byte) uint32 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Update(crc32.Update(0, castagnoli, n[:]), castagnoli, head), castagnoli, content)
}

// FormatError says why a file is not a whole backup.
type FormatError struct {
	Offset int64  // of the faulty block, in bytes
	Group  string // that contains the block; empty outside of groups
	Reason string
	Err    error // the cause; may be nil
}

func (e *FormatError) Error() string {
	in := ""
	if e.Group != "" {
		in = ", in " + e.Group
	}
	return fmt.Sprintf("at byte %d%s: %s", e.Offset, in, e.Reason)
}

func (e *FormatError) Unwrap() error { return e.Err }
