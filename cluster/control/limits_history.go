package control

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of the history of limits. The oldest versions are dropped first; the newest stays whatever
// its size.
const (
	maxVersions     = 1000
	maxHistoryBytes = 64 << 20 // of encoded limits
)

// pastLimits is one version of the limits. It is immutable.
type pastLimits struct {
	info   quota.Version
	id     []byte // of the proposal that created it
	limits []byte // an encoded LimitList
}

// limitVersions is the newest versions of the limits, in ascending order.
type limitVersions struct {
	list  []*pastLimits
	bytes int
}

// add appends a version and drops the oldest versions beyond the bounds.
func (h *limitVersions) add(v *pastLimits) {
	h.list = append(h.list, v)
	h.bytes += len(v.limits)
	drop := 0
	for len(h.list)-drop > maxVersions || h.bytes > maxHistoryBytes && drop < len(h.list)-1 {
		h.bytes -= len(h.list[drop].limits)
		drop++
	}
	h.list = slices.Delete(h.list, 0, drop)
}

// newest returns the current version, or an empty one before the first version.
func (h *limitVersions) newest() *pastLimits {
	if len(h.list) == 0 {
		return &pastLimits{}
	}
	return h.list[len(h.list)-1]
}

// find returns a version, or an UnknownVersionError.
func (h *limitVersions) find(number uint64) (*pastLimits, error) {
	i, ok := slices.BinarySearchFunc(h.list, number, func(v *pastLimits, n uint64) int {
		return cmp.Compare(v.info.Number, n)
	})
	if ok {
		return h.list[i], nil
	}
	e := &quota.UnknownVersionError{Version: number, Newest: h.newest().info.Number}
	if len(h.list) > 0 {
		e.Oldest = h.list[0].info.Number
	}
	return nil, e
}

// madeBy returns the version that the proposal created, or nil.
func (h *limitVersions) madeBy(id []byte) *pastLimits {
	if len(id) == 0 {
		return nil
	}
	for _, v := range slices.Backward(h.list) {
		if bytes.Equal(v.id, id) {
			return v
		}
	}
	return nil
}

// before returns at most count versions with numbers below the given one, newest first; 0 means no
// bound.
func (h *limitVersions) before(number uint64, count int) []quota.Version {
	var out []quota.Version
	for _, v := range slices.Backward(h.list) {
		if len(out) >= count {
			break
		}
		if number == 0 || v.info.Number < number {
			out = append(out, v.info)
		}
	}
	return out
}

// decode returns the limits of the version.
func (v *pastLimits) decode() (*quota.Limits, error) {
	var list raftlogv1.LimitList
	if err := proto.Unmarshal(v.limits, &list); err != nil {
		return nil, fmt.Errorf("version %d: %w", v.info.Number, err)
	}
	limits, err := limitproto.DecodeLimits(v.info.Number, list.Limits)
	if err != nil {
		return nil, fmt.Errorf("version %d: %w", v.info.Number, err)
	}
	return limits, nil
}

// count records how many limits the version has and how they differ from the previous ones. Both
// lists must be sorted by name.
func (v *pastLimits) count(before, after []quota.Limit) {
	v.info.Limits = len(after)
	for len(before) > 0 || len(after) > 0 {
		switch order := compareLimits(before, after); {
		case order < 0:
			v.info.Removed++
			before = before[1:]
		case order > 0:
			v.info.Added++
			after = after[1:]
		default:
			if !before[0].Equal(&after[0]) {
				v.info.Changed++
			}
			before, after = before[1:], after[1:]
		}
	}
}

// compareLimits orders two lists by the names of their first limits; an empty list sorts last.
func compareLimits(a, b []quota.Limit) int {
	if len(a) == 0 || len(b) == 0 {
		return cmp.Compare(len(b), len(a))
	}
	return a[0].LimitName.Compare(b[0].LimitName)
}
