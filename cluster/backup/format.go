package backup

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Magic begins every backup.
const Magic = "quorate backup\n"

// Format is the version of the form that this package writes, and the only one that
// it reads.
const Format = 1

// Bounds of a file.
const (
	MaxPiece  = 256 << 10 // bytes of a block of data
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

// kindName is what an error calls a kind.
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

// Head says whose backup it is.
type Head struct {
	Format   int       `json:"format"`   // Format
	Cluster  string    `json:"cluster"`  // whose state it is
	Software string    `json:"software"` // version of the node that made it
	Level    int       `json:"level"`    // feature level of the cluster: an older node cannot read what is in it
	At       time.Time `json:"at"`       // when it began, UTC: all that was acknowledged before is in it
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
	Index  uint64 `json:"index"` // every entry of the group's log up to this one is in the snapshot
	Term   uint64 `json:"term"`  // of the leader that it was taken from
	Size   int64  `json:"size"`  // bytes
	SHA256 string `json:"sha256"`
}

// Manifest is what is in a backup.
type Manifest struct {
	Head
	Groups []Group `json:"groups"`
}

// Size is the bytes of all snapshots.
func (m *Manifest) Size() (n int64) {
	for i := range m.Groups {
		n += m.Groups[i].Size
	}
	return n
}

// beginning and ending are what stands around a group's pieces.
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

// checksum is that of a block; head is its kind and length.
func checksum(number uint64, head, content []byte) uint32 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Update(crc32.Update(0, castagnoli, n[:]), castagnoli, head), castagnoli, content)
}

// FormatError says why a file is not a whole backup.
type FormatError struct {
	Offset int64  // bytes before the block at fault
	Group  string // in which that is; empty outside of groups
	Reason string
	Err    error // perhaps nil
}

func (e *FormatError) Error() string {
	in := ""
	if e.Group != "" {
		in = ", in " + e.Group
	}
	return fmt.Sprintf("at byte %d%s: %s", e.Offset, in, e.Reason)
}

func (e *FormatError) Unwrap() error { return e.Err }
