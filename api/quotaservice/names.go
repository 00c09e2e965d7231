package quotaservice

import (
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// The names of special buckets in quotaservice.
const (
	globalNamespace = "___GLOBAL___"
	defaultBucket   = "___DEFAULT_BUCKET___"
	templateBucket  = "___DYNAMIC_BUCKET_TPL___"
)

// wholeSuffix ends the key of a dynamic bucket, after the bucket's name.
const wholeSuffix = "/" + quota.WholeKey

// escape begins the key of a dynamic bucket whose name would otherwise read as a limit's name and a
// key: "a/b". Resolve never makes a key that begins like this, because names are not empty.
const escape = "/"

// maxName is the longest bucket name, in bytes, that is a key of a template.
const maxName = quota.MaxKeyLen - len(escape) - len(wholeSuffix)

// dynamicKey returns the key, under a template, of a bucket whose name no limit can have.
func dynamicKey(bucket string) string {
	first, _, divided := strings.Cut(bucket, "/")
	if divided && (first == "" || quota.CheckName("", first) == nil) {
		bucket = escape + bucket
	}
	return bucket + wholeSuffix
}

// keyOf returns the key that a bucket is counted by, or false if no limit applies.
func keyOf(limits *quota.Limits, namespace, bucket string) (quota.Key, bool) {
	name := quota.LimitName{Namespace: namespace, Limit: bucket}
	if quota.CheckName("", namespace) == nil && quota.CheckName("", bucket) == nil {
		l, _ := limits.Resolve(name, quota.WholeKey)
		return quota.Key{LimitName: name, Key: quota.WholeKey}, l != nil
	}
	// No limit can have this name: try the rest of Resolve's order, with reserved names.
	for _, k := range []quota.Key{
		{LimitName: quota.LimitName{Namespace: namespace, Limit: quota.Template}, Key: dynamicKey(bucket)},
		{LimitName: quota.LimitName{Namespace: namespace, Limit: quota.Default}, Key: quota.WholeKey},
		{LimitName: quota.Global, Key: quota.WholeKey},
	} {
		if k.LimitName != quota.Global && quota.CheckName("", namespace) != nil {
			continue
		}
		if _, ok := limits.Find(k.LimitName); ok {
			return k, true
		}
	}
	return quota.Key{}, false
}

// bucketOf returns the bucket that a counted key belongs to, or false for further tiers and floors,
// which are not buckets in quotaservice.
func bucketOf(name quota.LimitName, key string) (string, bool) {
	base, tier := name.Base()
	switch {
	case tier != 1:
		return "", false
	case base.Limit == quota.Default:
		return defaultBucket, true
	case base.Limit != quota.Template:
		return base.Limit, true
	}
	bucket, _ := quota.SplitTemplateKey(key)
	return bucket, true
}
