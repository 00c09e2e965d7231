package sharedlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"
)

const (
	indexBits = 40
	stableBit = 1 << 63

	// MaxIndex is the largest index of an entry: a million entries a second for twelve days, or a
	// thousand a second for 34 years.
	MaxIndex = 1<<indexBits - 1
	// MaxGroup is the largest number of a group.
	MaxGroup = 1<<(63-indexBits) - 1
)

// slot is the place of a value that a group keeps beside its log.
type slot uint64

const (
	slotTerm slot = iota
	slotVoteTerm
	slotVote
	slotDropped // set if the group's files are being deleted
	slots
)

// slotOf returns the place of a key of raft's stable store.
func slotOf(key []byte) (slot, error) {
	switch string(key) {
	case "CurrentTerm":
		return slotTerm, nil
	case "LastVoteTerm":
		return slotVoteTerm, nil
	case "LastVoteCand":
		return slotVote, nil
	}
	return 0, fmt.Errorf("stable store: key %q; the keys are CurrentTerm, LastVoteTerm and LastVoteCand", key)
}

// entryKey returns the key of an entry.
func entryKey(group uint32, index uint64) (uint64, error) {
	if index == 0 || index > MaxIndex {
		return 0, fmt.Errorf("entry %d of group %d: an index is 1 to %d", index, group, uint64(MaxIndex))
	}
	return uint64(group)<<indexBits | index, nil
}

// stableKey returns the key of a value beside the log.
func stableKey(group uint32, s slot) uint64 {
	return stableBit | uint64(group)<<indexBits | uint64(s)
}

// splitKey is the inverse of entryKey and stableKey. The index of a stable key is its slot.
func splitKey(k uint64) (group uint32, index uint64, stable bool) {
	return uint32(k &^ stableBit >> indexBits), k & MaxIndex, k&stableBit != 0
}

// castagnoli is the polynomial that processors compute.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers what raft reads of an entry, and its key. It leaves out AppendedAt, which raft
// only measures with.
func checksum(k uint64, l *raft.Log, extensions []byte) uint32 {
	var head [25]byte
	binary.BigEndian.PutUint64(head[:], k)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	binary.BigEndian.PutUint64(head[16:], uint64(len(l.Data)))
	head[24] = byte(l.Type)
	sum := crc32.Update(0, castagnoli, head[:])
	return crc32.Update(crc32.Update(sum, castagnoli, l.Data), castagnoli, extensions)
}

// seal returns the form in which an entry is stored under a key. It shares the data of l.
func seal(k uint64, l *raft.Log) *raft.Log {
	c := *l
	c.Index = k
	c.Extensions = binary.BigEndian.AppendUint32(slices.Clip(l.Extensions), checksum(k, l, l.Extensions))
	return &c
}

var errChecksum = errors.New("wrong checksum")

// unseal restores an entry that was read under a key. Its index becomes the one within its group.
func unseal(k uint64, l *raft.Log) error {
	n := len(l.Extensions) - 4
	if n < 0 || l.Index != k {
		return errChecksum
	}
	sum := binary.BigEndian.Uint32(l.Extensions[n:])
	if l.Extensions = l.Extensions[:n:n]; n == 0 {
		l.Extensions = nil
	}
	if sum != checksum(k, l, l.Extensions) {
		return errChecksum
	}
	_, l.Index, _ = splitKey(k)
	return nil
}
