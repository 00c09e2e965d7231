package raftgroup

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// MetaGroup is the number of the meta group. The groups of the ranges follow it.
const MetaGroup = 0

// OfRange returns the number of the group of a range.
func OfRange(r quota.RangeID) uint32 { return uint32(r) + 1 }

// RangeOf returns the range of a group, which must not be the meta group.
func RangeOf(group uint32) quota.RangeID { return quota.RangeID(group - 1) }

// GroupName returns the name of a group, as shown to users and used for files.
func GroupName(group uint32) string {
	if group == MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("range-%03d", group-1)
}
