package quotaservice

import (
	"math"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestRounding checks that limits which the form of quotaservice cannot express are rounded as
// bucket.go says.
func TestRounding(t *testing.T) {
	with := func(change func(*quota.Limit)) quota.Limit {
		l := perSec("ns", "b", 10, 20)
		change(&l)
		return l
	}
	rate := func(n int64, per time.Duration) quota.Limit {
		return with(func(l *quota.Limit) { l.Rate = quota.Rate{Tokens: n, Per: per} })
	}
	base := bucketConfig{Name: "b", Namespace: "ns", Size: 20, FillRate: 10, MaxIdleMillis: -1, MaxTokensPerRequest: 20}
	want := func(change func(*bucketConfig)) bucketConfig {
		b := base
		change(&b)
		return b
	}
	fill := func(n int64) bucketConfig { return want(func(b *bucketConfig) { b.FillRate = n }) }
	for what, c := range map[string]struct {
		l    quota.Limit
		want bucketConfig
	}{
		"plain":             {with(func(*quota.Limit) {}), base},
		"5/m":               {rate(5, time.Minute), fill(1)},
		"1 a year":          {rate(1, 365*24*time.Hour), fill(1)},
		"2.4/s":             {rate(12, 5*time.Second), fill(2)},
		"2.5/s":             {rate(5, 2*time.Second), fill(3)},
		"over 1e9 a second": {rate(4e9, time.Second), fill(4e9)},
		"most":              {rate(quota.MaxTokens, time.Second), fill(quota.MaxTokens)},
		"none":              {rate(0, time.Second), fill(0)},
		"max_cost":          {with(func(l *quota.Limit) { l.MaxCost = 7 }), want(func(b *bucketConfig) { b.MaxTokensPerRequest = 7 })},
		"waits": {
			with(func(l *quota.Limit) { l.MaxWait, l.MaxDebt, l.MaxCost = time.Microsecond, 1500*time.Millisecond, 5 }),
			want(func(b *bucketConfig) { b.WaitTimeoutMillis, b.MaxDebtMillis, b.MaxTokensPerRequest = 1, 1500, 5 }),
		},
		"debt without max_cost": {
			with(func(l *quota.Limit) { l.MaxDebt = 2 * time.Second }),
			want(func(b *bucketConfig) { b.MaxDebtMillis, b.MaxTokensPerRequest = 2000, 40 }),
		},
		"idle": {with(func(l *quota.Limit) { l.Idle = time.Minute }), want(func(b *bucketConfig) { b.MaxIdleMillis = 60000 })},
		"window": {
			with(func(l *quota.Limit) { l.SetFirst(quota.Window(quota.FixedWindow, 600, time.Minute)) }),
			want(func(b *bucketConfig) { b.Size, b.FillRate, b.MaxTokensPerRequest = 600, 10, 600 }),
		},
		"tiers": {
			with(func(l *quota.Limit) { l.More = []quota.Tier{quota.Window(quota.FixedWindow, 5, time.Hour)} }),
			want(func(b *bucketConfig) { b.MaxTokensPerRequest = 5 }),
		},
		"in flight": {
			with(func(l *quota.Limit) { l.SetFirst(quota.Tier{Kind: quota.Concurrency, Burst: 3}) }),
			want(func(b *bucketConfig) { b.Size, b.FillRate, b.MaxTokensPerRequest = 3, 0, 3 }),
		},
		"unlimited": {
			with(func(l *quota.Limit) { l.Class = quota.Unlimited }),
			want(func(b *bucketConfig) {
				b.Size, b.FillRate, b.MaxTokensPerRequest = quota.MaxTokens, quota.MaxTokens, quota.MaxTokens
			}),
		},
		"banned": {
			with(func(l *quota.Limit) { l.Class = quota.Banned }),
			want(func(b *bucketConfig) { b.Size, b.FillRate, b.MaxTokensPerRequest = 0, 0, 0 }),
		},
		"global": {
			perSec(quota.Global.Namespace, quota.Global.Limit, 10, 20),
			want(func(b *bucketConfig) { b.Name, b.Namespace = defaultBucket, "" }),
		},
		"default":  {perSec("ns", quota.Default, 10, 20), want(func(b *bucketConfig) { b.Name = defaultBucket })},
		"template": {perSec("ns", quota.Template, 10, 20), want(func(b *bucketConfig) { b.Name = templateBucket })},
	} {
		if err := c.l.Validate(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := bucket(&c.l); *got != c.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", what, *got, c.want)
		}
	}
}

// TestDefaultAndTemplate checks that the template takes precedence and that both are shown. The
// quotaservice server panics at a namespace with both.
func TestDefaultAndTemplate(t *testing.T) {
	limits := set(t, 1, usual()...)
	both := service(quota.Version{}, limits.All()).Namespaces["both"]
	if both.DefaultBucket == nil || both.DynamicBucketTemplate == nil {
		t.Errorf("%+v; want both", both)
	}
	if l, _ := limits.Resolve(quota.LimitName{Namespace: "both", Limit: "x"}, "*"); l.LimitName.Limit != quota.Template {
		t.Errorf("found %v; want the template", l.LimitName)
	}
}

func TestLargeNumbers(t *testing.T) {
	l := perSec("ns", quota.Template, 1, 1)
	l.MaxKeys = 1 << 40
	s := service(quota.Version{Number: math.MaxUint64}, []quota.Limit{l})
	if s.Version != math.MaxInt32 || s.Namespaces["ns"].MaxDynamicBuckets != math.MaxInt32 {
		t.Errorf("%d, %d; want the largest that an int32 has", s.Version, s.Namespaces["ns"].MaxDynamicBuckets)
	}
}
