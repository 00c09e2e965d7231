package quotaservice

import (
	"testing"

	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/quota"
)

// TestTrapJoinedKeys checks that bucket names with "/", the separator of Quorate's keys under a
// template, collide neither with each other nor with a key that is counted through Quorate's own
// protocol under another name.
func TestTrapJoinedKeys(t *testing.T) {
	names := []string{"a", "b", "a_b", "10.0.0.0", "x-y"}
	odd := []string{
		"a/b", "a/b/*", "a/*", "a/", "/a", "/", "//", "/a/b", "//a/b", "*", "**", "a:b", "a b", "a#2", "@template", "10.0.0.0/8", "10.0.0.0/8/*",
		"a_b/", "x-y/a/b", "/10.0.0.0/8", "a:/b",
	}
	limits := set(t, 1, usual()...)
	whose := map[string]string{}
	note := func(k quota.Key, who string) {
		l, key := limits.Resolve(k.LimitName, k.Key)
		if l.LimitName.Limit != quota.Template || len(key) > quota.MaxKeyLen {
			t.Errorf("%s: counted by %v with a key of %d bytes", who, l.LimitName, len(key))
		}
		if other, ok := whose[key]; ok && other != who {
			t.Errorf("%s and %s are both counted by %q", other, who, key)
		}
		whose[key] = who
	}
	for _, bucket := range append(odd, names...) {
		n := &fakeNode{limits: limits, decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}
		allow(t, n, &pb.AllowRequest{Namespace: "dynamic", BucketName: bucket})
		note(n.asked[0].Key, "bucket "+bucket)
		l, key := limits.Resolve(n.asked[0].Key.LimitName, n.asked[0].Key.Key)
		if shown, ok := bucketOf(l.LimitName, key); !ok || shown != bucket {
			t.Errorf("bucket %q is shown as %q", bucket, shown)
		}
	}
	for _, name := range names {
		for _, key := range append([]string{"8", "8/*", "b", "b/*", "*/*", "a/b/*"}, odd...) {
			if key == quota.WholeKey {
				continue // the bucket of that name, through either protocol
			}
			note(quota.Key{LimitName: quota.LimitName{Namespace: "dynamic", Limit: name}, Key: key}, "limit "+name+", key "+key)
		}
	}
}
