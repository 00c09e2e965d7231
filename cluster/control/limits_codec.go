package control

import (
	"time"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
)

// EncodeLimits returns the change that sets the limits at the given time.
func EncodeLimits(limits []quota.Limit, at time.Time) *raftlogv1.SetLimits {
	return &raftlogv1.SetLimits{AtUnixNanos: at.UnixNano(), Limits: limitproto.EncodeLimits(limits)}
}

func encodeVersion(v *quota.Version, id []byte) *raftlogv1.LimitsVersion {
	return &raftlogv1.LimitsVersion{
		Number: v.Number, AtUnixNanos: int64(v.At), By: v.By, Comment: v.Comment, RollbackTo: v.RollbackTo,
		Limits: uint32(v.Limits), Added: uint32(v.Added), Changed: uint32(v.Changed), Removed: uint32(v.Removed), RequestId: id,
	}
}

func decodeVersion(v *raftlogv1.LimitsVersion) quota.Version {
	return quota.Version{
		Number: v.GetNumber(), At: quota.Time(v.GetAtUnixNanos()), By: v.GetBy(), Comment: v.GetComment(), RollbackTo: v.GetRollbackTo(),
		Limits: int(v.GetLimits()), Added: int(v.GetAdded()), Changed: int(v.GetChanged()), Removed: int(v.GetRemoved()),
	}
}
