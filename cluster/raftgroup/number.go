package raftgroup

import (
	"fmt"

	"github.com/quorate/quorate/internal/quota"
)

// MetaGroup is the number of the meta group. The groups of ranges follow it.
const MetaGroup = 0

// OfRange returns the number of a range's group.
func OfRange(r quota.RangeID) uint32 { return uint32(r) + 1 }

// RangeOf returns the range of a group other than the meta group.
func RangeOf(group uint32) quota.RangeID { return quota.RangeID(group - 1) }

// GroupName returns what users and files call a group.
func GroupName(group uint32) string {
	if group == MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("range-%03d", group-1)
}
