package raftgroup

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// MetaGroup is the number of the meta group. The groups of the ranges follow it.
const MetaGroup = 0

// OfRange returns the number of the group of a range.
func OfRange(r quota.RangeID) uint32 { return uint32(r) + 1 }

// RangeOf returns the range of a group, which must not be the meta group.
func RangeOf(group uint32) quota.RangeID { return quota.RangeID(group - 1) }

// GroupNumber is the inverse of GroupName.
func GroupNumber(name string) (group uint32, ok bool) {
	if name == GroupName(MetaGroup) {
		return MetaGroup, true
	}
	number, found := strings.CutPrefix(name, "range-")
	r, err := strconv.ParseUint(number, 10, 16)
	group = OfRange(quota.RangeID(r))
	return group, found && err == nil && name == GroupName(group)
}

// GroupName returns the name of a group, as shown to users and used for files.
func GroupName(group uint32) string {
	if group == MetaGroup {
		return "meta"
	}
	return fmt.Sprintf("range-%03d", group-1)
}
