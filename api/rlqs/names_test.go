package rlqs

import (
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

func TestKeyOf(t *testing.T) {
	type id = map[string]string
	for _, c := range []struct {
		domain string
		id     id
		want   string // "error: " and a part of it
	}{
		{"web", id{"limit": "per_client", "user": "ann"}, "web/per_client/ann"},
		{"web", id{"name": "per_client"}, "web/per_client/*"},
		{"web", id{"name": "n", "limit": "l"}, "web/l/n"},
		{"web", id{"path": "/a/b", "user": "ann"}, "web/path.user/%2Fa%2Fb/ann"},
		{"web", id{":path": "x"}, "web/_path/x"},
		{"web", id{"user": ""}, "web/user/*"},
		{"web", id{"limit": "a b"}, "error: bucket_id: limit"},
		{"", id{"name": "n"}, "error: domain: is empty"},
		{"web", id{}, "error: bucket_id: is empty"},
		{"web", id{"": "x"}, "error: bucket_id: key \"\""},
		{"web", id{"k": strings.Repeat("x", 600)}, "error: bucket_id: key"},
		{"web", id{"limit": "l", "a": strings.Repeat("/", 500)}, "error: bucket_id: its values are 1500 bytes"},
	} {
		k, err := keyOf(c.domain, c.id)
		got := k.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.HasPrefix(got, c.want)) {
			t.Errorf("%s %v: %s; want %s", c.domain, c.id, got, c.want)
		}
	}
}

// FuzzKeyOf: whatever comes in is refused, or a key that a node takes; and a canonical
// form is that of one id only.
func FuzzKeyOf(f *testing.F) {
	f.Add("web", "limit", "a", "user", "b")
	f.Add("web", "1:", "a", "", "b/")
	f.Fuzz(func(t *testing.T, domain, k1, v1, k2, v2 string) {
		id := map[string]string{k1: v1, k2: v2}
		if k, err := keyOf(domain, id); err == nil {
			if quota.CheckName("", k.Namespace) != nil || quota.CheckName("", k.Limit) != nil || k.Key == "" || len(k.Key) > quota.MaxKeyLen {
				t.Errorf("%v is counted by %v", id, k)
			}
		}
		other := map[string]string{k1: v1, k2 + "x": v2}
		if canonical(id) == canonical(other) {
			t.Errorf("%v and %v have the same form", id, other)
		}
	})
}
