package rlqs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a bucket id.
const (
	maxPairs = 32
	maxValue = 512     // bytes of a key or a value of it
	maxBytes = 2 << 10 // of all of it: a stream keeps the ids of its buckets
)

// keyOf returns the key that a bucket id of a domain is counted by: the limit that package
// descriptor finds, as for any descriptor. If no limit applies, the key has no limit name, and
// identifies the bucket uniquely.
func keyOf(x *descriptor.Index, domain string, id map[string]string) quota.Key {
	entries := descriptor.Sorted(id)
	if r := x.Match(domain, entries); r != nil {
		return quota.Key{LimitName: r.Limit, Key: r.Key(entries)}
	}
	return quota.Key{LimitName: quota.LimitName{Namespace: descriptor.Namespace(domain)}, Key: descriptor.FullKey(entries)}
}

// named reports whether a key belongs to a limit.
func named(k quota.Key) bool { return k.Limit != "" }

func checkID(id map[string]string) error {
	if len(id) == 0 {
		return errors.New("bucket_id: is empty; it must have at least one key")
	}
	if len(id) > maxPairs {
		return fmt.Errorf("bucket_id: has %d keys; at most %d", len(id), maxPairs)
	}
	bytes := 0
	for k, v := range id {
		bytes += len(k) + len(v)
		if k == "" || len(k) > maxValue || len(v) > maxValue {
			return fmt.Errorf("bucket_id: key %.32q is %d bytes and its value %d; must be 1 to %d and at most %d", k, len(k), len(v), maxValue, maxValue)
		}
	}
	if bytes > maxBytes {
		return fmt.Errorf("bucket_id: has %d bytes; at most %d", bytes, maxBytes)
	}
	return nil
}

// canonical returns a unique string for a bucket id.
func canonical(id map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(id)) {
		fmt.Fprintf(&b, "%d:%s%d:%s", len(k), k, len(id[k]), id[k])
	}
	return b.String()
}
