package envoy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/quorate/quorate/internal/quota"
)

// perMinute returns a limit in windows, as in envoyproxy/ratelimit.
func perMinute(namespace, name string, n int64) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: namespace, Limit: name}}
	l.SetFirst(quota.Window(quota.FixedWindow, n, time.Minute))
	return l
}

// dial serves s and returns a client of it.
func dial(t testing.TB, s *Server) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	s.Register(srv)
	go func() { _ = srv.Serve(lis) }() // Stop ends it
	t.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return ratelimitv3.NewRateLimitServiceClient(conn)
}

// desc parses "database=users, to_number=1 #3": entries, and hits_addend if present; #-3 means
// negative hits.
func desc(text string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	text, hits, ok := strings.Cut(text, " #")
	if ok {
		d.IsNegativeHits = strings.HasPrefix(hits, "-")
		var n uint64
		if _, err := fmt.Sscan(strings.TrimPrefix(hits, "-"), &n); err != nil {
			panic(err)
		}
		d.HitsAddend = wrapperspb.UInt64(n)
	}
	for word := range strings.SplitSeq(text, ", ") {
		k, v, _ := strings.Cut(word, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: k, Value: v})
	}
	return d
}

// ask sends descriptors and returns the important parts of the answer, one line each.
func ask(t testing.TB, c ratelimitv3.RateLimitServiceClient, domain string, hits uint32, descriptors ...string) string {
	t.Helper()
	req := &request{Domain: domain, HitsAddend: hits}
	for _, d := range descriptors {
		req.Descriptors = append(req.Descriptors, desc(d))
	}
	res, err := c.ShouldRateLimit(t.Context(), req)
	if err != nil {
		return err.Error()
	}
	return told(res)
}

// told formats a response: its code, and for every descriptor its code, its limit and what remains.
func told(res *response) string {
	words := []string{res.OverallCode.String() + ":"}
	for _, s := range res.Statuses {
		w := s.Code.String()
		if l := s.CurrentLimit; l != nil {
			w += fmt.Sprintf(" %s%d/", l.Name+" ", l.RequestsPerUnit)
			if l.UnitMultiplier != nil {
				w += strconv.FormatUint(uint64(l.UnitMultiplier.Value), 10)
			}
			w += l.Unit.String()
		}
		words = append(words, fmt.Sprintf("%s %d", w, s.LimitRemaining))
	}
	return strings.Join(words, " | ")
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// nativeLimits are limits of every kind that descriptors find by name.
func nativeLimits() []quota.Limit {
	in := func(name string) quota.Limit {
		return quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: name}, Rate: quota.Rate{Tokens: 10, Per: time.Second}, Burst: 20}
	}
	free, flight, tiers := in("free"), in("flight"), perMinute("web", "tiers", 3)
	free.Class = quota.Unlimited
	flight.Kind = quota.Concurrency
	tiers.More = []quota.Tier{quota.Window(quota.FixedWindow, 2, 10*time.Minute)}
	shadow, off := perMinute("web", "shadow", 1), perMinute("web", "off", 1)
	shadow.Enforcement, off.Enforcement = quota.Shadow, quota.Off
	return []quota.Limit{
		in("bucket"), free, flight, tiers, shadow, off,
		perMinute("web", "ip", 3), perMinute("web", "ip--10..0..--", 5), perMinute("web", "ip--10..0..0..1", 1),
		perMinute("web", "path.ip", 2), perMinute("web", quota.Default, 1), perMinute("web", quota.Template, 1),
	}
}

func TestNative(t *testing.T) {
	n := newNode(t, nativeLimits()...)
	c := dial(t, New(n, Options{Now: n.wall}))
	for _, tc := range []struct{ descriptor, want string }{
		{"ip=1.1.1.1", "OK: | OK ip 3/MINUTE 2"},
		{"ip=1.1.1.1", "OK: | OK ip 3/MINUTE 1"},
		{"ip=1.1.1.2", "OK: | OK ip 3/MINUTE 2"}, // a key of its own
		{"ip=10.0.7.7", "OK: | OK ip--10..0..-- 5/MINUTE 4"},
		{"ip=10.0.0.1", "OK: | OK ip--10..0..0..1 1/MINUTE 0"},
		{"ip=10.0.0.1", "OVER_LIMIT: | OVER_LIMIT ip--10..0..0..1 1/MINUTE 0"},
		{"path=/, ip=1.1.1.1", "OK: | OK path.ip 2/MINUTE 1"},
		{"path=/", "OK: | OK 0"},
		{"ip=1.1.1.1, path=/", "OK: | OK 0"},
		{"nobody=1", "OK: | OK 0"}, // no default, no template
		{"free=1", "OK: | OK 4294967295"},
		{"bucket=1", "OK: | OK bucket 10/SECOND 19"},
		{"tiers=1", "OK: | OK tiers 2/10MINUTE 1"}, // the tighter tier
		{"shadow=1 #2", "OK: | OK shadow 1/MINUTE 0"},
		{"off=1", "OK: | OK 0"},
		{"flight=1", "rpc error: code = FailedPrecondition desc = descriptors[0]: the limit web/flight is a concurrency limit, which a proxy cannot release; use a rate for it"},
	} {
		expect(t, tc.descriptor, ask(t, c, "web", 0, tc.descriptor), tc.want)
	}
	expect(t, "an unknown domain", ask(t, c, "nowhere", 0, "ip=1.1.1.1"), "OK: | OK 0")
	expect(t, "a domain that is no name", ask(t, c, "no where", 0, "ip=1.1.1.1"), "OK: | OK 0")
}

// TestNativeChange checks that a change of the limits takes effect at once for finding them.
func TestNativeChange(t *testing.T) {
	n := newNode(t)
	c := dial(t, New(n, Options{}))
	expect(t, "no limits", ask(t, c, "web", 0, "ip=1"), "OK: | OK 0")
	n.set(t, perMinute("web", "ip", 3))
	expect(t, "a limit", ask(t, c, "web", 0, "ip=1"), "OK: | OK ip 3/MINUTE 2")
	n.set(t, perMinute("web", "ip--1", 9), perMinute("web", "ip", 5))
	expect(t, "a better one", ask(t, c, "web", 0, "ip=1"), "OK: | OK ip--1 9/MINUTE 8")
	n.set(t, perMinute("web", "ip", 5))
	expect(t, "the first again, with its count", ask(t, c, "web", 0, "ip=1"), "OK: | OK ip 5/MINUTE 3")
	n.limits = nil
	expect(t, "none yet", ask(t, c, "web", 0, "ip=1"), "OK: | OK 0")
}

// TestOneBatch checks that the node decides all descriptors of a request in one batch, so that they wait for leaders
// together: refunds first, and nothing of descriptors that no limit counts.
func TestOneBatch(t *testing.T) {
	n := newNode(t, perMinute("web", "ip", 3))
	c := dial(t, New(n, Options{Now: n.wall}))
	ask(t, c, "web", 0, "ip=1 #3")
	n.batches = nil
	expect(t, "a charge, two refunds, no limit", ask(t, c, "web", 0, "ip=1 #2", "nobody=1", "ip=1 #-1", "ip=1 #-1"),
		"OK: | OK ip 3/MINUTE 0 | OK 0 | OK ip 3/MINUTE 1 | OK ip 3/MINUTE 2")
	if !slices.Equal(n.batches, []int{3}) {
		t.Errorf("batches of %d calls; want one of 3", n.batches)
	}
}
