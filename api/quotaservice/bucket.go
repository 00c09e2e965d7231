package quotaservice

import (
	"math"

	"github.com/quorate/quorate/internal/quota"
)

// The JSON forms of quotaservice. The fields keep its order. The numbers of a bucket are included
// even if 0, which in quotaservice means a default.

type bucketConfig struct {
	Name                string `json:"name,omitempty"`
	Namespace           string `json:"namespace,omitempty"`
	Size                int64  `json:"size"`
	FillRate            int64  `json:"fill_rate"`
	WaitTimeoutMillis   int64  `json:"wait_timeout_millis"`
	MaxIdleMillis       int64  `json:"max_idle_millis"`
	MaxDebtMillis       int64  `json:"max_debt_millis"`
	MaxTokensPerRequest int64  `json:"max_tokens_per_request"`
}

type namespaceConfig struct {
	Name                  string                   `json:"name,omitempty"`
	DefaultBucket         *bucketConfig            `json:"default_bucket,omitempty"`
	DynamicBucketTemplate *bucketConfig            `json:"dynamic_bucket_template,omitempty"`
	MaxDynamicBuckets     int32                    `json:"max_dynamic_buckets,omitempty"`
	Buckets               map[string]*bucketConfig `json:"buckets,omitempty"`
}

type serviceConfig struct {
	GlobalDefaultBucket *bucketConfig               `json:"global_default_bucket,omitempty"`
	Namespaces          map[string]*namespaceConfig `json:"namespaces,omitempty"`
	Version             int32                       `json:"version,omitempty"`
	User                string                      `json:"user,omitempty"`
	Date                int64                       `json:"date,omitempty"` // Unix seconds
}

// bucket converts a limit to a bucket. It uses the first of several tiers. A window of n per period
// becomes a bucket of size n that fills in a period, and a concurrency limit has no fill rate. A
// limit that admits everything has the largest numbers; a limit that refuses everything has zeros.
func bucket(l *quota.Limit) *bucketConfig {
	b := &bucketConfig{
		Name: l.LimitName.Limit, Namespace: l.Namespace,
		Size: l.Burst, FillRate: perSecond(l), MaxTokensPerRequest: l.MostCost(),
		WaitTimeoutMillis: millisUp(l.MaxWait), MaxDebtMillis: millisUp(l.MaxDebt), MaxIdleMillis: -1,
	}
	if l.Idle > 0 {
		b.MaxIdleMillis = millisUp(l.Idle)
	}
	switch l.Class {
	case quota.Unlimited:
		b.Size, b.FillRate, b.MaxTokensPerRequest = quota.MaxTokens, quota.MaxTokens, quota.MaxTokens
	case quota.Banned:
		b.Size, b.FillRate, b.MaxTokensPerRequest = 0, 0, 0
	}
	switch {
	case l.LimitName == quota.Global:
		b.Name, b.Namespace = defaultBucket, ""
	case l.LimitName.Limit == quota.Default:
		b.Name = defaultBucket
	case l.LimitName.Limit == quota.Template:
		b.Name = templateBucket
	}
	return b
}

// perSecond returns the rate, rounded to an integer but never down to 0.
func perSecond(l *quota.Limit) int64 {
	if l.Kind == quota.Concurrency || l.Rate.Tokens == 0 {
		return 0
	}
	return max((l.Rate.PerSecond() + quota.Token/2).Tokens(), 1)
}

// service converts limits, sorted by name, to a configuration.
func service(v quota.Version, limits []quota.Limit) *serviceConfig {
	s := &serviceConfig{Version: int32(min(v.Number, math.MaxInt32)), User: v.By, Date: int64(v.At) / 1e9}
	for i := range limits {
		l := &limits[i]
		if l.LimitName == quota.Global {
			s.GlobalDefaultBucket = bucket(l)
			continue
		}
		ns := s.Namespaces[l.Namespace]
		if ns == nil {
			ns = &namespaceConfig{Name: l.Namespace}
			if s.Namespaces == nil {
				s.Namespaces = make(map[string]*namespaceConfig)
			}
			s.Namespaces[l.Namespace] = ns
		}
		b := bucket(l)
		switch l.LimitName.Limit {
		case quota.Default:
			ns.DefaultBucket = b
		case quota.Template:
			ns.DynamicBucketTemplate = b
			ns.MaxDynamicBuckets = int32(min(l.MaxKeys, math.MaxInt32))
		default:
			if ns.Buckets == nil {
				ns.Buckets = make(map[string]*bucketConfig)
			}
			ns.Buckets[l.LimitName.Limit] = b
		}
	}
	return s
}
