package control

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/limitproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
)

// packedRule is an override without its key: the expiry as a varint, followed by an encoded
// OverrideRule.
type packedRule []byte

func (p packedRule) expires() quota.Time {
	at, _ := binary.Varint(p)
	return quota.Time(at)
}

// unpack decodes the rule.
func (p packedRule) unpack() *raftlogv1.OverrideRule {
	at, n := binary.Varint(p)
	rule := &raftlogv1.OverrideRule{}
	if err := proto.Unmarshal(p[n:], rule); err != nil {
		panic(err) // invariant: packRule encoded it
	}
	rule.ExpiresUnixNanos = at
	return rule
}

func packRule(o *quota.Override) (packedRule, error) {
	rule := limitproto.EncodeRule(o)
	rule.ExpiresUnixNanos = 0
	return snapshotio.Canonical.MarshalAppend(binary.AppendVarint(nil, int64(o.Expires)), rule)
}

// editOf converts a stored override of a log entry to an edit. It returns an error if the override
// is invalid.
func editOf(s *raftlogv1.StoredOverride) (overrideEdit, error) {
	o := limitproto.DecodeOverride(limitproto.DecodeKey(s.GetKey()), s.GetRule())
	if err := limitproto.CheckOverride(&o); err != nil {
		return overrideEdit{}, fmt.Errorf("override %v: %w", o.Key, err)
	}
	rule, err := packRule(&o)
	return overrideEdit{o.Key, rule}, err
}
