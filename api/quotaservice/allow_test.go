package quotaservice

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	pb "github.com/quorate/quorate/api/gen/quotaservice"
	"github.com/quorate/quorate/internal/quota"
)

func allow(t testing.TB, n Node, req *pb.AllowRequest) *pb.AllowResponse {
	t.Helper()
	s := &server{node: n, seen: func(*quota.Decision) {}}
	res, err := s.Allow(context.Background(), req)
	if err != nil {
		t.Fatalf("Allow(%v): %v; refusals are statuses", req, err)
	}
	return res
}

// TestNames compares the search for buckets with quotaservice: which limit it finds, and the key
// that counts.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", quota.MaxNameLen+1)
	key := func(ns, limit, key string) quota.Key {
		return quota.Key{LimitName: quota.LimitName{Namespace: ns, Limit: limit}, Key: key}
	}
	global := key(quota.Global.Namespace, quota.Global.Limit, "*")
	for _, c := range []struct {
		namespace, bucket string
		asked             quota.Key // empty: no bucket
		counted           quota.Key
	}{
		{"named", "one", key("named", "one", "*"), key("named", "one", "*")},
		{"named", "other", key("named", "other", "*"), global},
		{"dynamic", "bob", key("dynamic", "bob", "*"), key("dynamic", "@template", "bob/*")},
		{"dynamic", "a-b.c", key("dynamic", "a-b.c", "*"), key("dynamic", "@template", "a-b.c/*")},
		{"dynamic", "user:42", key("dynamic", "@template", "user:42/*"), key("dynamic", "@template", "user:42/*")},
		{"dynamic", "10.0.0.0/8", key("dynamic", "@template", "/10.0.0.0/8/*"), key("dynamic", "@template", "/10.0.0.0/8/*")},
		{"dynamic", "Zoë", key("dynamic", "@template", "Zoë/*"), key("dynamic", "@template", "Zoë/*")},
		{"dynamic", long, key("dynamic", "@template", long+"/*"), key("dynamic", "@template", long+"/*")},
		{"both", "bob", key("both", "bob", "*"), key("both", "@template", "bob/*")},
		{"both", "b b", key("both", "@template", "b b/*"), key("both", "@template", "b b/*")},
		{"fallback", "x", key("fallback", "x", "*"), key("fallback", "@default", "*")},
		{"fallback", "x y", key("fallback", "@default", "*"), key("fallback", "@default", "*")},
		{"nowhere", "x", key("nowhere", "x", "*"), global},
		{"no where", "x", global, global},
		{"@global", "@default", global, global},
		// A bucket name never reaches reserved names: counters of tiers, and templates.
		{"dynamic", "@template", key("dynamic", "@template", "@template/*"), key("dynamic", "@template", "@template/*")},
		{"named", "one#2", global, global},
	} {
		n := &fakeNode{limits: set(t, 1, withGlobal(usual())...), decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}
		if res := allow(t, n, &pb.AllowRequest{Namespace: c.namespace, BucketName: c.bucket}); res.Status != pb.AllowResponse_OK {
			t.Errorf("%s:%s: %v", c.namespace, c.bucket, res)
		}
		if len(n.asked) != 1 || n.asked[0].Key != c.asked {
			t.Errorf("%s:%s: asked for %v; want %v", c.namespace, c.bucket, n.asked, c.asked)
			continue
		}
		l, k := n.limits.Resolve(n.asked[0].Key.LimitName, n.asked[0].Key.Key)
		if got := (quota.Key{LimitName: l.LimitName, Key: k}); got != c.counted {
			t.Errorf("%s:%s: counted by %v; want %v", c.namespace, c.bucket, got, c.counted)
		}
	}
}

func TestNoBucket(t *testing.T) {
	for _, limits := range []*quota.Limits{nil, set(t, 1), set(t, 1, usual()...)} {
		for _, name := range [][2]string{{"named", "other"}, {"nowhere", "x"}, {"no where", "x"}, {"named", "o t"}} {
			var seen []quota.Decision
			n := &fakeNode{limits: limits}
			s := &server{node: n, seen: func(d *quota.Decision) { seen = append(seen, *d) }}
			res, err := s.Allow(context.Background(), &pb.AllowRequest{Namespace: name[0], BucketName: name[1]})
			if err != nil || res.Status != pb.AllowResponse_REJECTED_NO_BUCKET || res.TokensGranted != 0 {
				t.Errorf("%v: %v, %v; want REJECTED_NO_BUCKET", name, res, err)
			}
			if len(seen) != 1 || seen[0].Why != quota.WhyNoLimit || len(n.asked) != 0 {
				t.Errorf("%v: saw %v, asked %v; want one no_limit", name, seen, n.asked)
			}
		}
	}
}

func TestRequests(t *testing.T) {
	const sec = 1000
	for _, c := range []struct {
		what    string
		req     *pb.AllowRequest
		want    pb.AllowResponse_Status
		cost    int64
		maxWait time.Duration
	}{
		{"0 tokens are 1", &pb.AllowRequest{}, pb.AllowResponse_OK, 1, quota.LimitsWait},
		{"so many tokens", &pb.AllowRequest{TokensRequested: 7}, pb.AllowResponse_OK, 7, quota.LimitsWait},
		{"as many as can be", &pb.AllowRequest{TokensRequested: quota.MaxTokens}, pb.AllowResponse_OK, quota.MaxTokens, quota.LimitsWait},
		{"more than can be", &pb.AllowRequest{TokensRequested: quota.MaxTokens + 1}, pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED, 0, 0},
		{"most", &pb.AllowRequest{TokensRequested: math.MaxInt64}, pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED, 0, 0},
		{"negative", &pb.AllowRequest{TokensRequested: -1}, pb.AllowResponse_REJECTED_INVALID_REQUEST, 0, 0},
		{"override", &pb.AllowRequest{MaxWaitMillisOverride: 2 * sec, MaxWaitTimeOverride: true}, pb.AllowResponse_OK, 1, 2 * time.Second},
		{"override of 0", &pb.AllowRequest{MaxWaitTimeOverride: true}, pb.AllowResponse_OK, 1, 0},
		{"override below 0", &pb.AllowRequest{MaxWaitMillisOverride: -5, MaxWaitTimeOverride: true}, pb.AllowResponse_OK, 1, 0},
		{"override without its flag", &pb.AllowRequest{MaxWaitMillisOverride: 5}, pb.AllowResponse_OK, 1, quota.LimitsWait},
		{"override that overflows", &pb.AllowRequest{MaxWaitMillisOverride: math.MaxInt64, MaxWaitTimeOverride: true}, pb.AllowResponse_OK, 1, quota.MaxPause},
	} {
		n := &fakeNode{limits: set(t, 1, usual()...), decision: quota.Decision{Allowed: true, Why: quota.WhyHeld}}
		c.req.Namespace, c.req.BucketName = "named", "one"
		res := allow(t, n, c.req)
		if res.Status != c.want || res.TokensGranted != c.cost {
			t.Errorf("%s: %v; want %v, granted %d", c.what, res, c.want, c.cost)
		}
		if c.want != pb.AllowResponse_OK {
			if len(n.asked) > 0 {
				t.Errorf("%s: asked %v; want nothing charged", c.what, n.asked)
			}
			continue
		}
		if len(n.asked) != 1 || n.asked[0].Cost != c.cost || n.asked[0].MaxWait != c.maxWait {
			t.Errorf("%s: asked %+v; want cost %d, wait %v", c.what, n.asked, c.cost, c.maxWait)
		}
	}
	for _, req := range []*pb.AllowRequest{{}, {Namespace: "named"}, {BucketName: "one"}, {Namespace: "named", BucketName: strings.Repeat("x", maxName+1)}} {
		if res := allow(t, &fakeNode{limits: set(t, 1, withGlobal(usual())...)}, req); res.Status != pb.AllowResponse_REJECTED_INVALID_REQUEST {
			t.Errorf("%.40v: %v; want REJECTED_INVALID_REQUEST", req, res)
		}
	}
}

func TestStatuses(t *testing.T) {
	template := perSec("dynamic", quota.Template, 1, 2)
	bounded := template
	bounded.MaxKeys = 3
	shadow := bounded
	shadow.Enforcement = quota.Shadow
	const (
		ok      = pb.AllowResponse_OK
		timeout = pb.AllowResponse_REJECTED_TIMEOUT
		much    = pb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED
		buckets = pb.AllowResponse_REJECTED_TOO_MANY_BUCKETS
		fault   = pb.AllowResponse_REJECTED_SERVER_ERROR
	)
	for _, c := range []struct {
		d    quota.Decision
		want pb.AllowResponse_Status
		wait int64
	}{
		{quota.Decision{Allowed: true, Why: quota.WhyHeld}, ok, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyReserved, Wait: 250 * time.Millisecond}, ok, 250},
		{quota.Decision{Allowed: true, Why: quota.WhyReserved, Wait: time.Nanosecond}, ok, 1},
		{quota.Decision{Allowed: true, Why: quota.WhyReserved, Wait: 1500001 * time.Nanosecond}, ok, 2},
		{quota.Decision{Allowed: true, Why: quota.WhyOverLimit, Shadow: true}, ok, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyUnlimited}, ok, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyNotEnforced}, ok, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyOpen}, ok, 0},
		{quota.Decision{Why: quota.WhyOverLimit}, timeout, 0},
		{quota.Decision{Why: quota.WhyWaitTooLong, Wait: time.Hour}, timeout, 0},
		{quota.Decision{Why: quota.WhyParentOverLimit}, timeout, 0},
		{quota.Decision{Why: quota.WhyNotHeld}, timeout, 0},
		{quota.Decision{Why: quota.WhyCutOff}, timeout, 0},
		{quota.Decision{Why: quota.WhyLeader}, timeout, 0},
		{quota.Decision{Why: quota.WhyLocal}, timeout, 0},
		{quota.Decision{Why: quota.WhyShare}, timeout, 0},
		{quota.Decision{Why: quota.WhyFixedRate}, timeout, 0},
		{quota.Decision{Why: quota.WhyOverBurst, RetryAfter: math.MaxInt64}, much, 0},
		{quota.Decision{Why: quota.WhyOverMaxCost, RetryAfter: math.MaxInt64}, much, 0},
		{quota.Decision{Why: quota.WhyBanned, RetryAfter: math.MaxInt64}, much, 0},
		{quota.Decision{Why: quota.WhyUseAcquire, RetryAfter: math.MaxInt64}, pb.AllowResponse_REJECTED_INVALID_REQUEST, 0},
		{quota.Decision{Why: quota.WhyNoLimit}, pb.AllowResponse_REJECTED_NO_BUCKET, 0},
		{quota.Decision{Why: quota.WhyTooManyKeys}, buckets, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyTooManyKeys, Limit: &template}, ok, 0}, // the node's own bound, soft
		{quota.Decision{Allowed: true, Why: quota.WhyTooManyKeys, Limit: &bounded}, buckets, 0},
		{quota.Decision{Allowed: true, Why: quota.WhyTooManyKeys, Limit: &shadow}, ok, 0},
		// Requests that were not decided, and refusals with a reason to pass, are server faults and
		// never OK.
		{quota.Decision{}, fault, 0},
		{quota.Decision{Allowed: true}, fault, 0},
		{quota.Decision{Why: quota.WhyUnlimited}, fault, 0},
		{quota.Decision{Why: 250}, fault, 0},
	} {
		var seen []quota.Decision
		n := &fakeNode{limits: set(t, 1, usual()...), decision: c.d}
		s := &server{node: n, seen: func(d *quota.Decision) { seen = append(seen, *d) }}
		res, err := s.Allow(context.Background(), &pb.AllowRequest{Namespace: "dynamic", BucketName: "b", TokensRequested: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(seen) != 1 || seen[0].Why != c.d.Why || seen[0].Allowed != (c.want == ok) {
			t.Errorf("%+v: counted as %+v; want what the caller is told", c.d, seen)
		}
		granted := int64(0)
		if c.want == ok {
			granted = 2
		}
		if res.Status != c.want || res.WaitMillis != c.wait || res.TokensGranted != granted {
			t.Errorf("%+v: %v; want %v, wait %d, granted %d", c.d, res, c.want, c.wait, granted)
		}
	}
}

// TestEveryRefusalHasAStatus fails for a new Why until refusals has its status.
func TestEveryRefusalHasAStatus(t *testing.T) {
	admits := map[quota.Why]bool{quota.WhyUnlimited: true, quota.WhyOpen: true, quota.WhyNotEnforced: true}
	for _, w := range quota.Whys() {
		if _, ok := refusals[w]; ok == admits[w] {
			t.Errorf("%v: has a status: %v, only ever admits: %v", w, ok, admits[w])
		}
	}
}
