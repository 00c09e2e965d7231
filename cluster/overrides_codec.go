package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// packedRule is an override without its key: the expiry as a varint, and the
// rest as an encoded OverrideRule.
type packedRule []byte

func (p packedRule) expires() quota.Time {
	at, _ := binary.Varint(p)
	return quota.Time(at)
}

// unpack returns the rule.
func (p packedRule) unpack() *raftlogv1.OverrideRule {
	at, n := binary.Varint(p)
	rule := &raftlogv1.OverrideRule{}
	if err := proto.Unmarshal(p[n:], rule); err != nil {
		panic(err) // invariant: packRule made it
	}
	rule.ExpiresUnixNanos = at
	return rule
}

func packRule(o *quota.Override) (packedRule, error) {
	rule := encodeRule(o)
	rule.ExpiresUnixNanos = 0
	return canonical.MarshalAppend(binary.AppendVarint(nil, int64(o.Expires)), rule)
}

// editOf returns the edit that an entry of the log asks for, or what is wrong
// with it.
func editOf(s *raftlogv1.StoredOverride) (overrideEdit, error) {
	o := decodeOverride(decodeKey(s.GetKey()), s.GetRule())
	if err := checkOverride(&o); err != nil {
		return overrideEdit{}, fmt.Errorf("override %v: %w", o.Key, err)
	}
	rule, err := packRule(&o)
	return overrideEdit{o.Key, rule}, err
}

// checkOverride returns every fault of the override by itself, joined.
func checkOverride(o *quota.Override) error {
	errs := []error{o.Validate(), checkText("by", o.By, quota.MaxNameLen), checkText("comment", o.Comment, quota.MaxCommentLen)}
	if o.Expires < 0 {
		errs = append(errs, fmt.Errorf("expires: %d; must be a time after 1970, or 0 for never", o.Expires))
	}
	return errors.Join(errs...)
}

// checkText returns an error that names the field unless s can be stored.
func checkText(field, s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("%s: is %d bytes; at most %d", field, len(s), most)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s: %q is not UTF-8", field, s)
	}
	return nil
}

func encodeKey(k quota.Key) *raftlogv1.OverrideKey {
	return &raftlogv1.OverrideKey{Namespace: k.Namespace, Limit: k.Limit, Key: []byte(k.Key)}
}

func decodeKey(k *raftlogv1.OverrideKey) quota.Key {
	return key(k.GetNamespace(), k.GetLimit(), string(k.GetKey()))
}

func encodeRule(o *quota.Override) *raftlogv1.OverrideRule {
	out := &raftlogv1.OverrideRule{
		Class: uint32(o.Class), RateTokens: o.Rate.Tokens, RatePeriodNanos: int64(o.Rate.Per), Scale: o.Scale,
		ExpiresUnixNanos: int64(o.Expires), Comment: o.Comment, By: o.By, AtUnixNanos: int64(o.At),
	}
	if o.Burst >= 0 {
		out.Burst = &o.Burst
	}
	return out
}

func decodeOverride(k quota.Key, r *raftlogv1.OverrideRule) quota.Override {
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
