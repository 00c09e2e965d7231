package rlqs_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/quorate/quorate/api/apitest"
	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/api/rlqs"
	"github.com/quorate/quorate/internal/quota"
)

// TestOneName checks that an equivalent descriptor and bucket id are counted by the same limit and
// key, in either of Envoy's protocols.
func TestOneName(t *testing.T) {
	var limits []quota.Limit
	for _, name := range []string{
		"per_client", "user", "path.user", "database--users", "path---.2fapi-.2f--.user", "-.3apath", "limit--gold.user",
		quota.Default, quota.Template,
	} {
		limits = append(limits, limit(name, 100, nil))
	}
	other := limit("a.b", 100, nil)
	other.Namespace = "my-domain"
	limits = append(limits, other)

	for _, c := range []struct {
		domain string
		pairs  id
		want   string // empty: no limit
	}{
		{"web", id{"user": "ann"}, "web/user/ann"},
		{"web", id{"user": ""}, "web/user/%"},
		{"web", id{"user": "%"}, "web/user/%%"},
		{"web", id{"user": strings.Repeat("ü", 256)}, "web/user/" + strings.Repeat("ü", 256)},
		{"web", id{"path": "/a/b", "user": "ann"}, "web/path.user/%2Fa%2Fb/ann"},
		{"web", id{"path": "/api/b", "user": "ann"}, "web/path---.2fapi-.2f--.user/%2Fapi%2Fb/ann"},
		{"web", id{"database": "users"}, "web/database--users/*"},
		{"web", id{"database": "other"}, ""},
		{"web", id{":path": "x"}, "web/-.3apath/x"},
		{"web", id{"a": "1", "b": "2"}, ""}, // belongs to another namespace
		{"my domain", id{"a": "1", "b": "2"}, "my-domain/a.b/1/2"},
		{"web", id{"limit": "per_client", "user": "ann"}, "web/per_client/ann"},
		{"web", id{"name": "per_client"}, "web/per_client/*"},
		{"web", id{"limit": "per_client", "name": "user"}, "web/per_client/user"},
		{"web", id{"limit": "gold", "user": "ann"}, "web/limit--gold.user/ann"}, // the name of a limit takes precedence
		{"web", id{"limit": "none", "name": "per_client"}, ""},
		{"web", id{"name": quota.Default}, ""},
		{"web", id{"name": "@inline.bucket.soft.1.60000000000.1"}, ""},
		{"web", id{"what": "ever"}, ""}, // does not use the namespace's default
	} {
		n := newFake(t, limits...)
		if got := askedAsDescriptor(t, n, c.domain, c.pairs); got != c.want {
			t.Errorf("rls: %s %v is counted by %q, want %q", c.domain, c.pairs, got, c.want)
		}
		if got := askedAsBucket(t, newFake(t, limits...), c.domain, c.pairs); got != c.want {
			t.Errorf("rlqs: %s %v is counted by %q, want %q", c.domain, c.pairs, got, c.want)
		}
	}
}

// checked is a node that records its checks.
type checked struct {
	*fakeNode
	keys []quota.Key
}

func (*checked) AdmitInline(quota.LimitName, string) bool { return true }

func (n *checked) Batch() func([]quota.Call) {
	return apitest.Batch(func(reqs []quota.Request, out []quota.Decision) bool {
		for i, r := range reqs {
			n.keys = append(n.keys, r.Key)
			out[i] = quota.Decision{Allowed: true}
		}
		return true
	}, nil)
}

func (n *checked) Charge(quota.Key, int64) (int64, quota.Decision) { return 0, quota.Decision{} }

func askedAsDescriptor(t *testing.T, n *fakeNode, domain string, pairs id) string {
	t.Helper()
	d := &commonv3.RateLimitDescriptor{}
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: pairs[k]})
	}
	asked := &checked{fakeNode: n}
	_, err := envoy.New(asked, envoy.Options{}).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: domain, Descriptors: []*commonv3.RateLimitDescriptor{d}})
	if err != nil {
		t.Fatal(err)
	}
	return keyText(t, asked.keys)
}

func askedAsBucket(t *testing.T, n *fakeNode, domain string, pairs id) string {
	t.Helper()
	s, err := quotav3.NewRateLimitQuotaServiceClient(serve(t, n, rlqs.Options{})).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(report(domain, pairs, 1)); err != nil {
		t.Fatal(err)
	}
	msg, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := slices.Collect(maps.Keys(n.looked))
	if abandoned := msg.BucketAction[0].GetAbandonAction() != nil; abandoned != (len(keys) == 0) {
		t.Errorf("%v is answered %v", pairs, msg)
	}
	return keyText(t, keys)
}

func keyText(t *testing.T, keys []quota.Key) string {
	t.Helper()
	switch len(keys) {
	case 0:
		return ""
	case 1:
		return keys[0].String()
	}
	t.Fatalf("counted by %v", keys)
	return ""
}

func report(domain string, bucket id, allowed uint64) *quotav3.RateLimitQuotaUsageReports {
	return &quotav3.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		{BucketId: &quotav3.BucketId{Bucket: bucket}, NumRequestsAllowed: allowed},
	}}
}

// After a change of the limits, a bucket moves to the limit that applies now.
func TestLimitsChange(t *testing.T) {
	n := newFake(t, limit("per_client", 100, nil))
	s, err := quotav3.NewRateLimitQuotaServiceClient(serve(t, n, rlqs.Options{})).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bucket := id{"limit": "per_client", "user": "ann"}
	next := func(what string) {
		t.Helper()
		if err := s.Send(report("web", bucket, 1)); err != nil {
			t.Fatal(err)
		}
		for {
			msg, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			n.mu.Lock()
			looked := n.looked[quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: what}, Key: "ann"}]
			n.mu.Unlock()
			if a := msg.BucketAction[0].GetQuotaAssignmentAction(); looked && a.GetRateLimitStrategy().GetTokenBucket() != nil {
				return
			}
		}
	}
	next("per_client")
	limits, err := quota.NewLimits(2, []quota.Limit{limit("per_client", 100, nil), limit("limit--per_client.user", 50, nil)})
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	n.limits = limits
	n.mu.Unlock()
	next("limit--per_client.user")
}

// Seen gets the decisions of proxies: how many, of which limit, and why.
func TestSeen(t *testing.T) {
	n := newFake(
		t, limit("soft", 100, nil), limit("hard", 100, func(l *quota.Limit) { l.Ceiling = quota.Hard }),
		limit("open", 1, func(l *quota.Limit) { l.Class = quota.Unlimited }), limit("shut", 1, func(l *quota.Limit) { l.Class = quota.Banned }),
	)
	var mu sync.Mutex
	seen := map[string]uint64{}
	conn := serve(t, n, rlqs.Options{Seen: func(d *quota.Decision, times uint64) {
		mu.Lock()
		defer mu.Unlock()
		name := ""
		if d.Limit != nil {
			name = d.Limit.Limit
		}
		seen[fmt.Sprint(name, " ", d.Allowed, " ", d.Why)] += times
	}})
	s, err := quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"soft", "hard", "open", "shut", "none"} {
		msg := report("web", id{"limit": name}, 7)
		msg.BucketQuotaUsages[0].NumRequestsDenied = 2
		if err := s.Send(msg); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]uint64{
		"soft true held": 7, "soft false over_limit": 2, "hard true held": 7, "hard false not_held": 2, "open true unlimited": 7, "open false over_limit": 2,
		"shut true held": 7, "shut false banned": 2, " true no_limit": 7, " false no_limit": 2,
	}
	if !maps.Equal(seen, want) {
		t.Errorf("seen %v\nwant %v", seen, want)
	}
}
