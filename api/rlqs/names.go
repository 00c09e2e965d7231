package rlqs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Bounds of a bucket id.
const (
	maxPairs = 32
	maxValue = 512 // bytes of a key or a value of it
)

// The keys of a bucket id that name the limit; the first that is there does.
var naming = []string{"limit", "name"}

// keyOf returns what a bucket id of a domain is counted by: the domain is the
// namespace; the value of "limit", or else of "name", is the limit, or else all keys
// in order, joined by "."; and the values of the other keys, in order of those, joined
// by "/", are the key, or [quota.WholeKey] if there are none.
func keyOf(domain string, id map[string]string) (quota.Key, error) {
	if err := quota.CheckName("domain", domain); err != nil {
		return quota.Key{}, err
	}
	if err := checkID(id); err != nil {
		return quota.Key{}, err
	}
	keys := slices.Sorted(maps.Keys(id))
	var limit string
	for _, n := range naming {
		if v, ok := id[n]; ok {
			limit = v
			keys = slices.DeleteFunc(keys, func(k string) bool { return k == n })
			break
		}
	}
	if limit == "" {
		limit = nameOf(keys)
	}
	if err := quota.CheckName("limit", limit); err != nil {
		return quota.Key{}, fmt.Errorf("bucket_id: %w", err)
	}
	k := quota.Key{LimitName: quota.LimitName{Namespace: domain, Limit: limit}, Key: quota.WholeKey}
	if len(keys) > 0 {
		values := make([]string, len(keys))
		for i, n := range keys {
			values[i] = escape.Replace(id[n])
		}
		k.Key = strings.Join(values, "/")
	}
	switch {
	case k.Key == "":
		k.Key = quota.WholeKey
	case len(k.Key) > quota.MaxKeyLen:
		return quota.Key{}, fmt.Errorf("bucket_id: its values are %d bytes together; at most %d", len(k.Key), quota.MaxKeyLen)
	}
	return k, nil
}

// escape keeps values apart: a segment of a key has no slash.
var escape = strings.NewReplacer("%", "%25", "/", "%2F")

func checkID(id map[string]string) error {
	if len(id) == 0 {
		return errors.New("bucket_id: is empty; it must have at least one key")
	}
	if len(id) > maxPairs {
		return fmt.Errorf("bucket_id: has %d keys; at most %d", len(id), maxPairs)
	}
	for k, v := range id {
		if k == "" || len(k) > maxValue || len(v) > maxValue {
			return fmt.Errorf("bucket_id: key %.32q is %d bytes and its value %d; must be 1 to %d and at most %d", k, len(k), len(v), maxValue, maxValue)
		}
	}
	return nil
}

// nameOf joins keys to the name of a limit; what no name can have is "_".
func nameOf(keys []string) string {
	b := []byte(strings.Join(keys, "."))
	for i, c := range b {
		if quota.CheckName("", string(rune(c))) != nil {
			b[i] = '_'
		}
	}
	return string(b)
}

// canonical is the same string for the same bucket id, and no other.
func canonical(id map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(id)) {
		fmt.Fprintf(&b, "%d:%s%d:%s", len(k), k, len(id[k]), id[k])
	}
	return b.String()
}
