package rlqs

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

func limitOf(namespace, name string) quota.Limit {
	return quota.Limit{LimitName: quota.LimitName{Namespace: namespace, Limit: name}, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 1}
}

func TestCheckID(t *testing.T) {
	type id = map[string]string
	many := id{}
	for i := range maxPairs + 1 {
		many[strings.Repeat("k", i+1)] = ""
	}
	for _, c := range []struct {
		id   id
		want string // part of the error; empty: none
	}{
		{id{"limit": "per_client", "user": ""}, ""},
		{id{}, "bucket_id: is empty"},
		{id{"": "x"}, "bucket_id: key \"\""},
		{id{"k": strings.Repeat("x", 600)}, "bucket_id: key"},
		{many, "bucket_id: has 33 keys"},
		{id{"a": strings.Repeat("x", 512), "b": strings.Repeat("x", 512), "c": strings.Repeat("x", 512), "d": strings.Repeat("x", 512)}, "bucket_id: has 2052 bytes; at most 2048"},
	} {
		err := checkID(c.id)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60v: %v; want %q", c.id, err, c.want)
		}
	}
}

// FuzzKeyOf checks that any input is either not a bucket id or is counted by a key that a node
// accepts, and that a canonical form belongs to one id only.
func FuzzKeyOf(f *testing.F) {
	f.Add("web", "limit", "a", "user", "b")
	f.Add("web", "1:", "a", "", "b/")
	limits, err := quota.NewLimits(1, []quota.Limit{limitOf("web", "a"), limitOf("web", "user"), limitOf("web", "user.v--x")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, domain, k1, v1, k2, v2 string) {
		id := map[string]string{k1: v1, k2: v2}
		if checkID(id) == nil {
			k := keyOf(descriptor.NewIndex(limits), domain, id)
			if quota.CheckName("", k.Namespace) != nil || named(k) && quota.CheckName("", k.Limit) != nil || k.Key == "" || len(k.Key) > quota.MaxKeyLen {
				t.Errorf("%v is counted by %v", id, k)
			}
		}
		other := map[string]string{k1: v1, k2 + "x": v2}
		if canonical(id) == canonical(other) {
			t.Errorf("%v and %v have the same form", id, other)
		}
	})
}
