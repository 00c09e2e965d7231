package account

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// HashOps returns the hash of a call's operations.
func HashOps(ops []Op) Hash {
	b := append([]byte(nil), "ops1"...)
	b = binary.AppendUvarint(b, uint64(len(ops)))
	for i := range ops {
		b = appendOp(b, &ops[i])
	}
	return sha256.Sum256(b)
}

func appendOp(b []byte, o *Op) []byte {
	b = appendStrings(b, o.Account.App, o.Account.Realm, o.Account.Identity, o.Account.Namespace, o.Account.Name, o.Account.Resource)
	if o.Policy == nil {
		b = append(b, 0)
	} else {
		c, k := o.Policy.Config, o.Policy.Key
		b = appendStrings(append(b, 1), c.App, c.Realm, c.Version, k.Namespace, k.Name, k.Resource)
	}
	b = append(b, byte(o.RelativeTo))
	b = binary.AppendVarint(b, o.Delta)
	return binary.AppendUvarint(b, uint64(o.Options))
}

// HashPolicies returns the version of a policy config that its content names: "$" and the hash. The
// order of the policies does not matter.
func HashPolicies(policies map[PolicyKey]Policy) string {
	b := append([]byte(nil), "policies1"...)
	for _, k := range slices.SortedFunc(maps.Keys(policies), PolicyKey.Compare) {
		p := policies[k]
		b = appendStrings(b, k.Namespace, k.Name, k.Resource)
		for _, v := range []int64{
			p.Default, p.Limit, p.Refill.Units, int64(p.Refill.Interval), int64(p.Refill.Offset),
			int64(p.Options), int64(p.Lifetime),
		} {
			b = binary.AppendVarint(b, v)
		}
	}
	sum := sha256.Sum256(b)
	return "$" + hex.EncodeToString(sum[:])
}

// appendStrings appends each string with a length prefix: different lists never give the same
// bytes.
func appendStrings(b []byte, list ...string) []byte {
	for _, s := range list {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}
