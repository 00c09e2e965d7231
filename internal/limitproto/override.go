package limitproto

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// CheckOverride returns all errors of the override on its own, joined.
func CheckOverride(o *quota.Override) error {
	errs := []error{o.Validate(), CheckText("by", o.By, quota.MaxNameLen), CheckText("comment", o.Comment, quota.MaxCommentLen)}
	if o.Expires < 0 {
		errs = append(errs, fmt.Errorf("expires: %d; must be a time after 1970, or 0 for never", o.Expires))
	}
	return errors.Join(errs...)
}

// CheckText returns an error that names the field unless s is UTF-8 of at most most bytes.
func CheckText(field, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s: is %d bytes; at most %d", field, len(s), most)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: %q is not UTF-8", field, s)
	}
	return nil
}

// EncodeOverride returns the message for an override.
func EncodeOverride(o *quota.Override) *raftlogv1.StoredOverride {
	return &raftlogv1.StoredOverride{Key: EncodeKey(o.Key), Rule: EncodeRule(o)}
}

// ParseOverride returns the override of a message, or all of its errors.
func ParseOverride(s *raftlogv1.StoredOverride) (quota.Override, error) {
	o := DecodeOverride(DecodeKey(s.GetKey()), s.GetRule())
	if err := CheckOverride(&o); err != nil {
		return quota.Override{}, fmt.Errorf("override %v: %w", o.Key, err)
	}
	return o, nil
}

// EncodeKey returns the message for the key of an override.
func EncodeKey(k quota.Key) *raftlogv1.OverrideKey {
	return &raftlogv1.OverrideKey{Namespace: k.Namespace, Limit: k.Limit, Key: []byte(k.Key)}
}

// DecodeKey returns the key of a message.
func DecodeKey(k *raftlogv1.OverrideKey) quota.Key {
	return quota.Key{LimitName: quota.LimitName{Namespace: k.GetNamespace(), Limit: k.GetLimit()}, Key: string(k.GetKey())}
}

// EncodeRule returns the message for an override without its key.
func EncodeRule(o *quota.Override) *raftlogv1.OverrideRule {
	out := &raftlogv1.OverrideRule{
		Class: uint32(o.Class), RateTokens: o.Rate.Tokens, RatePeriodNanos: int64(o.Rate.Per), Scale: o.Scale,
		ExpiresUnixNanos: int64(o.Expires), Comment: o.Comment, By: o.By, AtUnixNanos: int64(o.At),
	}
	if o.Burst >= 0 {
		out.Burst = &o.Burst
	}
	return out
}

// DecodeOverride returns the override of a key. It is not validated; see CheckOverride.
func DecodeOverride(k quota.Key, r *raftlogv1.OverrideRule) quota.Override {
	o := quota.Override{
		Key: k, Class: word[quota.Class](r.GetClass()), Burst: -1, Scale: r.GetScale(),
		Rate:    quota.Rate{Tokens: r.GetRateTokens(), Per: time.Duration(r.GetRatePeriodNanos())},
		Expires: quota.Time(r.GetExpiresUnixNanos()), Comment: r.GetComment(), By: r.GetBy(), At: quota.Time(r.GetAtUnixNanos()),
	}
	if r != nil && r.Burst != nil {
		o.Burst = *r.Burst
	}
	return o
}
