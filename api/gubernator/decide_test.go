package gubernator

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/rbac"
)

const (
	token, leaky = pb.Algorithm_TOKEN_BUCKET, pb.Algorithm_LEAKY_BUCKET
	minute       = 60_000
)

// step is one request of a conversation, and its expected answer.
type step struct {
	after time.Duration // since the step before
	hits  int64
	over  bool
	left  int64
	reset time.Duration // since the clock's now
	why   string
}

// TestConversations sends requests on one key, one after the other.
func TestConversations(t *testing.T) {
	for _, c := range []struct {
		what  string
		req   *pb.RateLimitReq
		steps []step
	}{
		{"token bucket: all is back at once", &pb.RateLimitReq{Limit: 5, Duration: minute}, []step{
			{hits: 1, left: 4, reset: time.Minute},
			{after: 10 * time.Second, hits: 3, left: 1, reset: 50 * time.Second},
			{hits: 2, over: true, left: 1, reset: 50 * time.Second, why: "over_limit"},
			{hits: 1, left: 0, reset: 50 * time.Second},
			{after: 49 * time.Second, hits: 1, over: true, reset: time.Second, why: "over_limit"},
			{after: time.Second, hits: 1, left: 4, reset: time.Minute},
		}},
		{"token bucket: burst does not count", &pb.RateLimitReq{Limit: 5, Duration: minute, Burst: 50}, []step{{hits: 6, over: true, left: 5, why: "over_burst"}}},
		{"leaky bucket: one after the other, reset when limit would remain", &pb.RateLimitReq{Algorithm: leaky, Limit: 60, Duration: minute, Burst: 2}, []step{
			{hits: 2, left: 0, reset: time.Minute},
			{hits: 1, over: true, reset: time.Minute, why: "over_limit"},
			{after: time.Second, hits: 1, left: 0, reset: time.Minute},
			{after: time.Hour, hits: 1, left: 1, reset: 59 * time.Second},
		}},
		{"leaky bucket: more than limit may remain", &pb.RateLimitReq{Algorithm: leaky, Limit: 10, Duration: 30_000, Burst: 20}, []step{
			{hits: 1, left: 19, reset: -27 * time.Second}, {after: 1500 * time.Millisecond, hits: 10, left: 9, reset: 3 * time.Second},
		}},
		{"leaky bucket: burst is limit if it is not said", &pb.RateLimitReq{Algorithm: leaky, Limit: 60, Duration: minute}, []step{{hits: 60, left: 0, reset: time.Minute}}},
		{"peek", &pb.RateLimitReq{Limit: 2, Duration: minute}, []step{
			{left: 2}, {hits: 2, left: 0, reset: time.Minute}, {over: true, left: 0, reset: time.Minute, why: "over_limit"},
		}},
		{"refund, up to the limit", &pb.RateLimitReq{Limit: 5, Duration: minute}, []step{
			{hits: 3, left: 2, reset: time.Minute}, {hits: -2, left: 4, reset: time.Minute}, {hits: -9, left: 5}, {hits: 5, left: 0, reset: time.Minute},
		}},
		{"drain", &pb.RateLimitReq{Limit: 5, Duration: minute, Behavior: pb.Behavior_DRAIN_OVER_LIMIT}, []step{
			{hits: 2, left: 3, reset: time.Minute}, {hits: 4, over: true, left: 0, reset: time.Minute, why: "over_limit"}, {hits: 1, over: true, reset: time.Minute, why: "over_limit"},
		}},
		{"drain of what never fits", &pb.RateLimitReq{Limit: 5, Duration: minute, Behavior: pb.Behavior_DRAIN_OVER_LIMIT}, []step{
			{hits: 6, over: true, left: 0, reset: time.Minute, why: "over_burst"},
		}},
		{"drain and more than ever fits, of what is left", &pb.RateLimitReq{Limit: 5, Duration: minute, Behavior: pb.Behavior_DRAIN_OVER_LIMIT}, []step{
			{hits: 2, left: 3, reset: time.Minute}, {hits: 6, over: true, left: 0, reset: time.Minute, why: "over_burst"}, {hits: 1, over: true, reset: time.Minute, why: "over_limit"},
		}},
		{"more than ever fits, of what is left", &pb.RateLimitReq{Limit: 5, Duration: minute}, []step{
			{hits: 2, left: 3, reset: time.Minute}, {hits: 6, over: true, left: 3, reset: time.Minute, why: "over_burst"},
		}},
		{"Gregorian day", &pb.RateLimitReq{Limit: 5, Duration: 2, Behavior: pb.Behavior_DURATION_IS_GREGORIAN}, []step{
			{after: 23 * time.Hour, hits: 5, left: 0, reset: time.Hour}, {after: time.Hour, hits: 1, left: 4, reset: 24 * time.Hour},
		}},
		{"Gregorian month", &pb.RateLimitReq{Limit: 5, Duration: 4, Behavior: pb.Behavior_DURATION_IS_GREGORIAN}, []step{{hits: 1, left: 4, reset: 31 * 24 * time.Hour}}},
		{"Gregorian week, which begins on Monday", &pb.RateLimitReq{Limit: 5, Duration: 3, Behavior: pb.Behavior_DURATION_IS_GREGORIAN}, []step{{hits: 1, left: 4, reset: 3 * 24 * time.Hour}}},
		{"Gregorian leaky bucket", &pb.RateLimitReq{Algorithm: leaky, Limit: 60, Burst: 1, Duration: 1, Behavior: pb.Behavior_DURATION_IS_GREGORIAN}, []step{
			{hits: 1, left: 0, reset: time.Hour}, {after: time.Minute, hits: 1, left: 0, reset: time.Hour},
		}},
		{"limit 0", &pb.RateLimitReq{Duration: minute}, []step{{hits: 1, over: true, why: "over_burst"}, {over: true, why: "over_burst"}}},
		{"limit 0 of a leaky bucket", &pb.RateLimitReq{Algorithm: leaky, Duration: minute, Burst: 5}, []step{{hits: 1, over: true, why: "over_burst"}}},
		{"no duration", &pb.RateLimitReq{Limit: 5}, []step{{hits: 5, left: 0}, {hits: 4, left: 1}, {hits: 6, over: true, left: 5, why: "over_burst"}, {hits: -1, left: 5}, {left: 5}}},
		{"flags without effect", &pb.RateLimitReq{Limit: 5, Duration: minute, Behavior: 1 | 2 | 16}, []step{{hits: 5, left: 0, reset: time.Minute}}},
	} {
		n := newSole(t)
		s := New(n, n.options())
		for i, st := range c.steps {
			n.now = n.now.Add(st.after)
			c.req.Name, c.req.UniqueKey, c.req.Hits = "login", "ann", st.hits
			got := one(t, s, c.req)
			wantStatus := pb.Status_UNDER_LIMIT
			if st.over {
				wantStatus = pb.Status_OVER_LIMIT
			}
			reset := time.UnixMilli(got.ResetTime).Sub(time.Unix(0, int64(n.now)))
			if got.Error != "" || got.Status != wantStatus || got.Limit != c.req.Limit || got.Remaining != st.left || reset != st.reset || got.Metadata["why"] != st.why {
				t.Errorf("%s, step %d: %v, reset after %v; want %+v", c.what, i+1, got, reset, st)
			}
		}
	}
}

// TestDecidedByTheLeader checks that the nodes of a cluster answer alike, with one hop each, unless
// a request is GLOBAL, and that one node's refund or reset counts in the next request at the
// others.
func TestDecidedByTheLeader(t *testing.T) {
	for _, behavior := range []pb.Behavior{pb.Behavior_BATCHING, pb.Behavior_NO_BATCHING, pb.Behavior_MULTI_REGION} {
		for _, algorithm := range []pb.Algorithm{token, leaky} {
			n1 := newSole(t)
			n2 := n1.beside("n2")
			nodes := []*Server{New(n1, n1.options()), New(n2, n2.options())}
			r := &pb.RateLimitReq{Name: "login", UniqueKey: "ann", Limit: 100, Duration: minute, Algorithm: algorithm, Behavior: behavior}
			ask := func(i int, hits int64) *pb.RateLimitResp {
				r.Hits = hits
				return one(t, nodes[i%2], r)
			}
			for i := range 150 {
				got := ask(i, 1)
				want := &pb.RateLimitResp{Limit: 100, Remaining: max(0, 99-int64(i)), ResetTime: epoch.Add(time.Minute).UnixMilli()}
				if i >= 100 {
					want.Status = pb.Status_OVER_LIMIT
				}
				if algorithm == leaky {
					want.ResetTime = epoch.UnixMilli() + 600*(100-want.Remaining)
				}
				if got.Error != "" || got.Status != want.Status || got.Remaining != want.Remaining || got.ResetTime != want.ResetTime {
					t.Fatalf("%v, %v, hit %d: %v; want %v", behavior, algorithm, i+1, got, want)
				}
			}
			if hops := n1.hops + n2.hops; hops != 150 {
				t.Errorf("%v, %v: %d hops for 150 requests", behavior, algorithm, hops)
			}
			if got := ask(0, -7); got.Remaining != 7 || got.Error != "" {
				t.Errorf("%v, %v: given back: %v", behavior, algorithm, got)
			}
			if got := ask(1, 0); got.Remaining != 7 {
				t.Errorf("%v, %v: then the other node says %v", behavior, algorithm, got)
			}
		}
	}
	n := newSole(t)
	r := &pb.RateLimitReq{Name: "login", UniqueKey: "ann", Hits: 1, Limit: 100, Duration: minute, Behavior: pb.Behavior_GLOBAL}
	if got := one(t, New(n, n.options()), r); got.Remaining != 99 || n.hops != 0 {
		t.Errorf("GLOBAL: %v, %d hops", got, n.hops)
	}
}

// TestBatch checks that requests of a call are decided concurrently, at most 64 at a time, and
// requests of one name and key in order.
func TestBatch(t *testing.T) {
	for what, r := range map[string]func(i int) *pb.RateLimitReq{
		"many keys":  func(i int) *pb.RateLimitReq { return &pb.RateLimitReq{Name: "n", UniqueKey: strconv.Itoa(i)} },
		"many names": func(i int) *pb.RateLimitReq { return &pb.RateLimitReq{Name: strconv.Itoa(i), UniqueKey: "k"} },
		"many keys, decided by the node": func(i int) *pb.RateLimitReq {
			return &pb.RateLimitReq{Name: "n", UniqueKey: strconv.Itoa(i), Behavior: pb.Behavior_GLOBAL}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := newSole(t)
			n.takes = time.Millisecond
			s := New(n, n.options())
			var reqs []*pb.RateLimitReq
			for i := range 1000 {
				q := r(i % 300)
				q.Hits, q.Limit, q.Duration = 1, 100, minute
				reqs = append(reqs, q)
			}
			began := time.Now()
			res, err := s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: reqs})
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range res.Responses {
				if want := int64(99 - i/300); got.Error != "" || got.Remaining != want {
					t.Fatalf("%s, request %d: %v; want %d remaining", what, i, got, want)
				}
			}
			// 16 each if the keys were spread evenly.
			if took := time.Since(began); took > 80*n.takes || n.most < 32 || n.most > 64 {
				t.Errorf("%s: 1000 decisions of %v took %v, at most %d at a time; want 32 to 64, and at most %v", what, n.takes, took, n.most, 80*n.takes)
			}
		})
	}
}

func one(t testing.TB, s *Server, r *pb.RateLimitReq) *pb.RateLimitResp {
	t.Helper()
	res, err := s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: []*pb.RateLimitReq{r}})
	if err != nil || len(res.Responses) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	return res.Responses[0]
}

// TestKeys checks that no two pairs of name and key share a bucket, and no two limits.
func TestKeys(t *testing.T) {
	n := newSole(t)
	s := New(n, n.options())
	for _, r := range []*pb.RateLimitReq{
		{Name: "a_b", UniqueKey: "c"},
		{Name: "a", UniqueKey: "b_c"},
		{Name: "a/b", UniqueKey: "c"},
		{Name: "a", UniqueKey: "b/c"},
		{Name: "a%2Fb", UniqueKey: "c"},
		{Name: "a", UniqueKey: "/"},
		{Name: "a/", UniqueKey: "x"},
		{Name: "a", UniqueKey: "c", Limit: 2},
		{Name: "a", UniqueKey: "c", Algorithm: leaky},
		{Name: "a", UniqueKey: "c", Duration: 2 * minute},
		{Name: "a", UniqueKey: "c", Behavior: 4, Duration: 1},
	} {
		r.Hits, r.Limit, r.Duration = 1, max(r.Limit, 1), max(r.Duration, minute)
		if r.Behavior != 0 {
			r.Duration = 1
		}
		if got := one(t, s, r); got.Status != pb.Status_UNDER_LIMIT || got.Error != "" {
			t.Errorf("%v shares a bucket: %v", r, got)
		}
		if got := one(t, s, r); got.Remaining != r.Limit-min(r.Limit, 2) {
			t.Errorf("%v is not counted: %v", r, got)
		}
	}
}

// TestOurs checks that a limit of the namespace replaces the caller's limit.
func TestOurs(t *testing.T) {
	ours := quota.Limit{LimitName: quota.LimitName{Namespace: Namespace, Limit: "login"}, Burst: 2, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
	template := quota.Limit{LimitName: quota.LimitName{Namespace: Namespace, Limit: quota.Template}, Burst: 1, Rate: quota.Rate{Tokens: 1, Per: time.Second}}
	n := newSole(t, ours, template)
	s := New(n, n.options())
	r := &pb.RateLimitReq{Name: "login", UniqueKey: "ann", Hits: 1, Limit: 99, Duration: -5, Burst: -1, Algorithm: 7}
	for left := int64(1); left >= 0; left-- {
		if got := one(t, s, r); got.Limit != 2 || got.Remaining != left || got.Status != pb.Status_UNDER_LIMIT {
			t.Errorf("%v; want %d left of 2", got, left)
		}
	}
	got := one(t, s, r)
	if got.Status != pb.Status_OVER_LIMIT || got.Metadata["limit"] != "gubernator/login" || got.Metadata["retry_after_ms"] != "1000" || got.Metadata["why"] != "over_limit" {
		t.Error(got)
	}
	if k := n.asked[0].Key; k != (quota.Key{LimitName: ours.LimitName, Key: "ann"}) {
		t.Errorf("counted by %v", k)
	}
	// The namespace's template does not apply to a name that the namespace does not list.
	other := &pb.RateLimitReq{Name: "other", UniqueKey: "ann", Hits: 50, Limit: 99, Duration: minute}
	if got := one(t, s, other); got.Limit != 99 || got.Remaining != 49 {
		t.Error(got)
	}
	if got := one(t, s, &pb.RateLimitReq{Name: "@template", UniqueKey: "x", Hits: 9, Limit: 9, Duration: minute}); got.Error != "" || got.Status != pb.Status_UNDER_LIMIT {
		t.Errorf("a name of ours alone: %v", got)
	}
	r.Behavior = pb.Behavior_RESET_REMAINING
	if got := one(t, s, r); got.Remaining != 2 || got.Limit != 2 || len(n.resets) != 1 || n.resets[0].LimitName != ours.LimitName {
		t.Errorf("reset: %v, %v", got, n.resets)
	}
}

// TestReset checks that RESET_REMAINING fills the bucket and ignores hits.
func TestReset(t *testing.T) {
	n := newSole(t)
	s := New(n, n.options())
	r := &pb.RateLimitReq{Name: "login", UniqueKey: "ann", Hits: 3, Limit: 5, Duration: minute, Behavior: pb.Behavior_RESET_REMAINING}
	got := one(t, s, r)
	if got.Status != pb.Status_UNDER_LIMIT || got.Remaining != 5 || got.Limit != 5 || got.ResetTime != 0 || len(n.asked) != 0 {
		t.Errorf("%v, asked %v", got, n.asked)
	}
	if want := (quota.Key{LimitName: quota.LimitName{Namespace: Namespace, Limit: "@inline.periodic.soft.5.60000000000.5.leader"}, Key: "login/ann"}); len(n.resets) != 1 || n.resets[0] != want {
		t.Errorf("reset %v; want %v", n.resets, want)
	}
	n.err = errors.New("range 3 has no leader just now")
	if got := one(t, s, r); got.Error != "behavior: RESET_REMAINING: range 3 has no leader just now" {
		t.Error(got)
	}
	r.Limit = 0
	if got := one(t, s, r); got.Error != "" || len(n.resets) != 2 {
		t.Errorf("limit 0: %v, %v", got, n.resets)
	}
}

// TestErrors checks that an invalid request gets an error in its own answer, which names the field,
// and charges nothing.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		want string
		r    *pb.RateLimitReq
	}{
		{"field 'namespace' cannot be empty", &pb.RateLimitReq{UniqueKey: "k"}},
		{"field 'unique_key' cannot be empty", &pb.RateLimitReq{Name: "n"}},
		{"unique_key: is 1025 bytes with the name", &pb.RateLimitReq{Name: "n", UniqueKey: strings.Repeat("k", 1023), Duration: minute}},
		{"hits: 4398046511105", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: quota.MaxTokens + 1}},
		{"hits: -9223372036854775808", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: -1 << 63}},
		{"limit: -1", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Limit: -1}},
		{"burst: -1", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Burst: -1}},
		{"duration: -1 ms", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Duration: -1}},
		{"duration: 31622400001 ms", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Duration: 31622400001}},
		{"duration: 6 with DURATION_IS_GREGORIAN", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Duration: 6, Behavior: 4}},
		{"duration: 60000 with DURATION_IS_GREGORIAN", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Duration: minute, Behavior: 4}},
		{"algorithm: 2", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Algorithm: 2, Duration: minute}},
		{"behavior: 64", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Behavior: 64}},
		{"limit 4398046511104, duration 1, burst 0: ", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Limit: quota.MaxTokens, Duration: 1}},
		{"field 'unique_key' cannot be empty", nil},
	} {
		n := newSole(t)
		var mu sync.Mutex
		var codes []string
		o := n.options()
		o.Ended = func(code string) { mu.Lock(); defer mu.Unlock(); codes = append(codes, code) }
		s := New(n, o)
		if c.r != nil && c.r.Limit == 0 {
			c.r.Limit = 5
		}
		good := &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: 1, Limit: 5, Duration: minute}
		res, err := s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: []*pb.RateLimitReq{good, c.r, good}})
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Responses[1]; !strings.HasPrefix(got.Error, c.want) || got.Status != 0 {
			t.Errorf("%v: %v; want %s", c.r, got, c.want)
		}
		if last := res.Responses[2]; last.Remaining != 3 || len(n.asked) != 2 || strings.Join(slices.Sorted(slices.Values(codes)), " ") != "error under_limit under_limit" {
			t.Errorf("%v: beside it %v, %v, %v", c.r, last, n.asked, codes)
		}
	}
}

// TestCall checks the bounds of a whole call.
func TestCall(t *testing.T) {
	n := newSole(t)
	s := New(n, n.options())
	reqs := make([]*pb.RateLimitReq, 1000)
	for i := range reqs {
		reqs[i] = &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: 1, Limit: 1000, Duration: minute}
	}
	res, err := s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: reqs})
	if err != nil || len(res.Responses) != 1000 || res.Responses[999].Remaining != 0 || res.Responses[0].Remaining != 999 {
		t.Errorf("%v", err)
	}
	if _, err = s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: append(reqs, reqs[0])}); status.Code(err) != codes.OutOfRange {
		t.Errorf("1001: %v", err)
	}
	if res, err := s.GetRateLimits(t.Context(), &pb.GetRateLimitsReq{}); err != nil || len(res.Responses) != 0 {
		t.Errorf("none: %v, %v", res, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := len(n.asked)
	if res, err = s.GetRateLimits(ctx, &pb.GetRateLimitsReq{Requests: reqs[:2]}); err != nil || !strings.HasPrefix(res.Responses[1].Error, "not decided") || len(n.asked) != before {
		t.Errorf("when its time is over: %v, %v, asked %d more", res, err, len(n.asked)-before)
	}
}

// TestNoRoom checks that callers share the room for the limits that they send, that beyond a caller's share a request
// is an error which is seen, and that it still may ask for what has a place, and reset.
func TestNoRoom(t *testing.T) {
	type who struct{}
	seen := 0
	n := newSole(t)
	s := New(n, Options{
		Owner: func(ctx context.Context) string { return ctx.Value(who{}).(string) },
		Seen: func(d *quota.Decision) {
			if d.Limit == nil {
				seen++
			}
		},
	})
	send := func(owner string, r *pb.RateLimitReq) *pb.RateLimitResp {
		out, err := s.GetRateLimits(context.WithValue(t.Context(), who{}, owner), &pb.GetRateLimitsReq{Requests: []*pb.RateLimitReq{r}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Responses[0]
	}
	limit := int64(0)
	next := func() *pb.RateLimitReq {
		limit++
		return &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: 1, Limit: limit, Duration: minute}
	}
	for send("ann", next()).Error == "" {
		if limit > 20_000 {
			t.Fatal("a caller's limits have no bound")
		}
	}
	last := &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: 1, Limit: limit, Duration: minute}
	asked := len(n.asked)
	refund := &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: -1, Limit: limit, Duration: minute}
	for _, r := range []*pb.RateLimitReq{last, refund} {
		if res := send("ann", r); !strings.Contains(res.Error, "no room") {
			t.Errorf("hits %d beyond the bound: %v", r.Hits, res)
		}
	}
	if len(n.asked) != asked || seen != 3 {
		t.Errorf("%d decided, %d seen; want none, 3", len(n.asked)-asked, seen)
	}
	if res := send("ann", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Limit: 5, Duration: minute}); res.Error != "" {
		t.Errorf("a limit that has a place: %v", res)
	}
	if res := send("ann", &pb.RateLimitReq{Name: "n", UniqueKey: "k", Limit: limit, Duration: minute, Behavior: reset}); res.Error != "" {
		t.Errorf("a reset, which needs no place: %v", res)
	}
	if res := send("bob", last); res.Error != "" {
		t.Errorf("another caller: %v", res)
	}
}

// TestMay checks that refunds and resets need their own permissions.
func TestMay(t *testing.T) {
	n := newSole(t)
	var had []rbac.Permission
	o := n.options()
	o.May = func(_ context.Context, p rbac.Permission, namespace string) error {
		had = append(had, p)
		return status.Error(codes.PermissionDenied, p.String()+" is missing in "+namespace)
	}
	s := New(n, o)
	r := &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: -1, Limit: 5, Duration: minute}
	if got := one(t, s, r); !strings.Contains(got.Error, "report is missing in gubernator") {
		t.Error(got)
	}
	r.Behavior = pb.Behavior_RESET_REMAINING
	if got := one(t, s, r); !strings.Contains(got.Error, "keys.reset is missing in gubernator") || len(n.resets) > 0 {
		t.Error(got, n.resets)
	}
	r.Behavior, r.Hits = 0, 1
	if got := one(t, s, r); got.Error != "" || len(had) != 2 {
		t.Errorf("%v, asked for %v", got, had)
	}
}
