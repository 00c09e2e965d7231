package rlqs_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/api/rlqs"
	"github.com/quorate/quorate/api/rlqs/rlqstest"
	"github.com/quorate/quorate/internal/quota"
)

// fakeNode is a cluster of one node, with one token bucket for each key.
type fakeNode struct {
	mu     sync.Mutex
	limits *quota.Limits
	drawn  map[quota.Key]int64
	missed map[quota.Key]int64
	looked map[quota.Key]bool // whose standing was asked for
}

func newFake(t *testing.T, limits ...quota.Limit) *fakeNode {
	l, err := quota.NewLimits(1, limits)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeNode{limits: l, drawn: map[quota.Key]int64{}, missed: map[quota.Key]int64{}, looked: map[quota.Key]bool{}}
}

func (n *fakeNode) Limits() *quota.Limits {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.limits
}

func (n *fakeNode) Draw(k quota.Key, want int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drawn[k] += want
	return want
}

func (n *fakeNode) Miss(k quota.Key, cost int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.missed[k] += cost
}

func (n *fakeNode) Refund(k quota.Key, cost int64) quota.Decision {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drawn[k] -= cost
	return quota.Decision{}
}

func (n *fakeNode) Standing(k quota.Key) quota.Standing {
	l, _ := n.Limits().Resolve(k.LimitName, k.Key)
	n.mu.Lock()
	n.looked[k] = true
	n.mu.Unlock()
	if l == nil {
		return quota.Standing{}
	}
	return quota.Standing{Limit: l, Tier: l.First(), Level: l.BurstUnits(), HasLevel: true, Shadow: l.Enforcement != quota.Enforce, Nodes: 1}
}

func limit(name string, rate int64, change func(*quota.Limit)) quota.Limit {
	l := quota.Limit{LimitName: quota.LimitName{Namespace: "web", Limit: name}, Rate: quota.Rate{Tokens: rate, Per: time.Second}, Burst: rate}
	if change != nil {
		change(&l)
	}
	return l
}

// serve returns a connection to a server over an in-memory pipe.
func serve(t *testing.T, n rlqs.Node, opts rlqs.Options) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	s := rlqs.Register(srv, n, opts)
	go srv.Serve(l) // ends with Stop
	conn, err := grpc.NewClient("passthrough:pipe", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(1<<16),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close() // nothing is left to send
		s.Close()
		srv.Stop()
	})
	return conn
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

type id = map[string]string

// The assignments of every kind of limit.
func TestActions(t *testing.T) {
	n := newFake(
		t, limit("counted", 100, nil),
		limit("open", 1, func(l *quota.Limit) { l.Class = quota.Unlimited }),
		limit("shut", 1, func(l *quota.Limit) { l.Class = quota.Banned }),
		limit("shadow", 5, func(l *quota.Limit) { l.Enforcement = quota.Shadow }),
		limit("off", 5, func(l *quota.Limit) { l.Enforcement = quota.Off }),
		limit("flight", 5, func(l *quota.Limit) { l.Kind, l.Rate = quota.Concurrency, quota.Rate{} }),
	)
	reg := prometheus.NewRegistry()
	conn := serve(t, n, rlqs.Options{Meter: front.NewMeter(reg), Registry: reg})
	f := rlqstest.New(conn, rlqstest.Config{Domain: "web", Interval: 30 * time.Millisecond})
	defer f.Close()
	for name, want := range map[string]string{
		"counted": "bucket", "open": "ALLOW_ALL", "shut": "DENY_ALL", "shadow": "ALLOW_ALL", "off": "ALLOW_ALL", "flight": "ALLOW_ALL",
	} {
		b := id{"limit": name}
		if !f.Request(b) {
			t.Errorf("%s: the first request is refused; it has no assignment yet", name)
		}
		var got string
		eventually(t, name+" is assigned "+want, func() bool {
			bucket, _ := f.Look(b)
			got = ""
			if bucket.Strategy.GetTokenBucket() != nil {
				got = "bucket"
			} else if bucket.Strategy != nil {
				got = bucket.Strategy.GetBlanketRule().String()
			}
			return got == want
		})
	}
	for range 50 {
		if f.Request(id{"limit": "shut"}) || !f.Request(id{"limit": "shadow"}) {
			t.Fatal("a banned limit admits, or one in shadow refuses")
		}
	}
	shadow := quota.Key{LimitName: quota.LimitName{Namespace: "web", Limit: "shadow"}, Key: quota.WholeKey}
	eventually(t, "what a limit in shadow admitted is counted", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.drawn[shadow] == 51
	})
	for name, want := range map[string]float64{"quorate_rlqs_streams": 1, "quorate_rlqs_buckets": 6} {
		if got := gauge(t, reg, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.GetName() == name {
			return m.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// A bucket without a limit is abandoned. A bucket that the proxy still uses is let through, so that
// the proxy does not subscribe with every request.
func TestUnknown(t *testing.T) {
	conn := serve(t, newFake(t), rlqs.Options{})
	f := rlqstest.New(conn, rlqstest.Config{Domain: "web", Interval: 30 * time.Millisecond})
	defer f.Close()
	b := id{"limit": "none"}
	f.Request(b)
	eventually(t, "it is abandoned", func() bool { _, there := f.Look(b); return !there })
	f.Request(b)
	eventually(t, "it is let through", func() bool {
		got, _ := f.Look(b)
		return got.Strategy != nil && got.Strategy.GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
	})
}

// A bucket without requests is abandoned.
func TestIdle(t *testing.T) {
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{Idle: 150 * time.Millisecond})
	f := rlqstest.New(conn, rlqstest.Config{Domain: "web", Interval: 20 * time.Millisecond})
	defer f.Close()
	b := id{"limit": "l"}
	f.Request(b)
	eventually(t, "it is assigned", func() bool { got, _ := f.Look(b); return got.Strategy != nil })
	eventually(t, "it is abandoned", func() bool { _, there := f.Look(b); return !there })
	f.Request(b)
	eventually(t, "it is assigned again", func() bool { got, _ := f.Look(b); return got.Strategy != nil })
}

// An assignment is sent again before it expires, and is then the same bucket. When the server is
// gone, the assignment expires and the fallback follows.
func TestExpiry(t *testing.T) {
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	s := rlqs.Register(srv, newFake(t, limit("l", 1000, nil)), rlqs.Options{TTL: time.Second})
	go srv.Serve(l) // ends with Stop
	conn, err := grpc.NewClient("passthrough:pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := rlqstest.New(conn, rlqstest.Config{
		Domain: "web", Interval: 50 * time.Millisecond, FallbackTime: time.Minute,
		Fallback: &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_DENY_ALL}},
	})
	defer f.Close()
	b := id{"limit": "l"}
	f.Request(b)
	eventually(t, "it is sent again", func() bool { got, _ := f.Look(b); return got.Pushes > got.Fresh+1 })
	if got, _ := f.Look(b); got.Strategy.GetTokenBucket() == nil {
		t.Fatalf("it has %v", got.Strategy)
	}
	s.Close()
	srv.Stop()
	if !f.Request(b) {
		t.Error("without the server it refuses at once; the assignment lasts")
	}
	eventually(t, "the fallback", func() bool { return !f.Request(b) })
}

// Messages that end a stream, and messages that do not.
func TestProtocol(t *testing.T) {
	usage := func(ids ...id) (out []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
		for _, i := range ids {
			out = append(out, &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &pb.BucketId{Bucket: i}, NumRequestsAllowed: 1})
		}
		return out
	}
	good := usage(id{"limit": "l"})
	type msg = pb.RateLimitQuotaUsageReports
	for name, c := range map[string]struct {
		msgs    []*msg
		code    codes.Code
		says    string
		answers int // assigned buckets
	}{
		"no domain":       {[]*msg{{BucketQuotaUsages: good}}, codes.InvalidArgument, "must name its domain", 0},
		"long domain":     {[]*msg{{Domain: strings.Repeat("d", 1025)}}, codes.InvalidArgument, "domain: it is 1025 bytes", 0},
		"forbidden":       {[]*msg{{Domain: "secret", BucketQuotaUsages: good}}, codes.PermissionDenied, "", 0},
		"domain once":     {[]*msg{{Domain: "web"}, {BucketQuotaUsages: good}}, codes.OK, "", 1},
		"domain always":   {[]*msg{{Domain: "web"}, {Domain: "web", BucketQuotaUsages: good}}, codes.OK, "", 1},
		"other domain":    {[]*msg{{Domain: "web"}, {Domain: "web2", BucketQuotaUsages: good}}, codes.InvalidArgument, "another stream", 0},
		"too many usages": {[]*msg{{Domain: "web", BucketQuotaUsages: make([]*pb.RateLimitQuotaUsageReports_BucketQuotaUsage, 5000)}}, codes.InvalidArgument, "at most 4096", 0},
		"bad buckets":     {[]*msg{{Domain: "web", BucketQuotaUsages: append(usage(id{}, id{"": "x"}, nil), good...)}}, codes.OK, "", 1},
		"too many":        {[]*msg{{Domain: "web", BucketQuotaUsages: usage(id{"limit": "l", "u": "1"}, id{"limit": "l", "u": "2"}, id{"limit": "l", "u": "3"})}}, codes.OK, "", 2},
		"other order":     {[]*msg{{Domain: "web", BucketQuotaUsages: usage(id{"limit": "l", "u": "1"}, id{"u": "1", "limit": "l"})}}, codes.OK, "", 1},
		"odd times": {[]*msg{{Domain: "web", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &pb.BucketId{Bucket: id{"limit": "l"}}, TimeElapsed: durationpb.New(-time.Hour), NumRequestsAllowed: 1 << 63, NumRequestsDenied: 1<<64 - 1},
		}}}, codes.OK, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFake(t, limit("l", 100, nil))
			conn := serve(t, n, rlqs.Options{MaxPerStream: 2, Permitted: func(_ context.Context, ns string) error {
				if ns == "secret" {
					return status.Error(codes.PermissionDenied, "no")
				}
				return nil
			}})
			s, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range c.msgs {
				if err := s.Send(m); err != nil {
					break // Recv returns the error
				}
			}
			got := map[string]bool{}
			for len(got) < c.answers {
				m, err := s.Recv()
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range m.GetBucketAction() {
					got[fmt.Sprint(a.GetBucketId().GetBucket())] = true
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			for err == nil {
				_, err = s.Recv()
			}
			if st := status.Convert(err); c.code != codes.OK && (st.Code() != c.code || !strings.Contains(st.Message(), c.says)) {
				t.Errorf("%v", err)
			} else if c.code == codes.OK && err.Error() != "EOF" {
				t.Errorf("the stream ends with %v", err)
			}
		})
	}
}

// A stream ends when its caller loses the permission in its domain. What is kept of a bucket id until
// then is its pairs alone.
func TestRevoked(t *testing.T) {
	var revoked atomic.Bool
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{Permitted: func(context.Context, string) error {
		if revoked.Load() {
			return status.Error(codes.PermissionDenied, "not any more")
		}
		return nil
	}})
	s, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bucket := &pb.BucketId{Bucket: id{"limit": "l"}}
	bucket.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "kept by nobody"))
	report := &pb.RateLimitQuotaUsageReports{Domain: "web", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
		{BucketId: bucket, NumRequestsAllowed: 1},
	}}
	var answer *pb.RateLimitQuotaResponse
	if err = s.Send(report); err == nil {
		answer, err = s.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if unknown := answer.GetBucketAction()[0].GetBucketId().ProtoReflect().GetUnknown(); len(unknown) > 0 {
		t.Errorf("the node kept %d bytes that no field has", len(unknown))
	}
	revoked.Store(true)
	_ = s.Send(report) // Recv returns the error
	_ = s.CloseSend()
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream ended with %v", err)
	}
}

// A proxy that does not read is cut off, and the number of streams is bounded.
func TestBounds(t *testing.T) {
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{MaxStreams: 1, Slow: 100 * time.Millisecond, TTL: time.Second})
	c := pb.NewRateLimitQuotaServiceClient(conn)
	s, err := c.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Every answer contains the id, so that a window of 64 KiB is soon full.
	long := strings.Repeat("x", 500)
	send := func(i int) error {
		u := &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &pb.BucketId{Bucket: id{"limit": "l", "u": fmt.Sprint(i, long)}}, NumRequestsAllowed: 1}
		return s.Send(&pb.RateLimitQuotaUsageReports{Domain: "web", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{u}})
	}
	if err = send(0); err == nil {
		_, err = s.Recv() // now it is open
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "use another node") {
		t.Errorf("a second stream: %v", err)
	}
	go func() { // once the stream is cut off, nobody reads the reports until the answers are read
		for i := 1; i < 900 && send(i) == nil; i++ {
		}
	}()
	eventually(t, "the slow reader is cut off", func() bool {
		third, err := c.StreamRateLimitQuotas(t.Context())
		if err == nil {
			err = third.CloseSend()
		}
		if err == nil {
			_, err = third.Recv()
		}
		return err != nil && err.Error() == "EOF"
	})
	for err == nil {
		_, err = s.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "have waited") {
		t.Errorf("the slow reader's stream ended with %v", err)
	}
	if errors.Is(err, context.Canceled) {
		t.Error("it was the test that ended it")
	}
}

// TestShares checks that one caller leaves some of a node's streams and buckets to others.
func TestShares(t *testing.T) {
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{MaxStreams: 16, MaxBuckets: 24, Owner: func(ctx context.Context) string {
		return strings.Join(metadata.ValueFromIncomingContext(ctx, "who"), "")
	}})
	streams := 0
	// open reports buckets on a new stream, which stays open, and waits until want of them are assigned.
	open := func(who string, buckets, want int) error {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "who", who), 10*time.Second)
		t.Cleanup(cancel)
		s, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
		if err != nil {
			return err
		}
		streams++
		msg := &pb.RateLimitQuotaUsageReports{Domain: "web"}
		for i := range buckets {
			msg.BucketQuotaUsages = append(msg.BucketQuotaUsages, &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
				BucketId: &pb.BucketId{Bucket: id{"limit": "l", "user": fmt.Sprint(streams, " ", i)}}, NumRequestsAllowed: 1,
			})
		}
		_ = s.Send(msg) // Recv returns the error
		seen := map[string]bool{}
		for len(seen) < want {
			got, err := s.Recv()
			if err != nil {
				return err
			}
			for _, a := range got.GetBucketAction() {
				seen[a.GetBucketId().GetBucket()["user"]] = true
			}
		}
		return nil
	}
	for range 13 {
		if err := open("a", 1, 1); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		who           string
		buckets, want int
		refused       string
	}{
		{"a", 20, 8, ""},
		{"a", 1, 1, "of a as one caller may have: it keeps the rest of its 16 for others"},
		{"b", 1, 1, ""},
		{"b", 2, 2, ""},
		{"c", 1, 1, "16 streams of rate limit quotas, its maximum"},
	} {
		if err := open(c.who, c.buckets, c.want); (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Fatalf("stream %d, of %s: %v; want %q", i, c.who, err, c.refused)
		}
	}
}

// A stream whose proxy reports nothing ends before the next assignment is sent, once its caller has lost
// the permission.
func TestRevokedInSilence(t *testing.T) {
	var revoked atomic.Bool
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{TTL: time.Second, Permitted: func(context.Context, string) error {
		if revoked.Load() {
			return status.Error(codes.PermissionDenied, "not any more")
		}
		return nil
	}})
	s, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(t.Context())
	if err == nil {
		err = s.Send(&pb.RateLimitQuotaUsageReports{Domain: "web", BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			{BucketId: &pb.BucketId{Bucket: id{"limit": "l"}}, NumRequestsAllowed: 1},
		}})
	}
	if err == nil {
		_, err = s.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	revoked.Store(true)
	for end := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(end); {
		_, err = s.Recv() // an assignment that was already sent
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream ended with %v", err)
	}
}

// TestRevokedWithNothingToSend checks that a stream to which nothing is sent ends, once its caller has lost the permission.
func TestRevokedWithNothingToSend(t *testing.T) {
	var revoked atomic.Bool
	asked := make(chan struct{}, 1000)
	conn := serve(t, newFake(t, limit("l", 100, nil)), rlqs.Options{ReauthorizeEvery: 10 * time.Millisecond, Permitted: func(context.Context, string) error {
		asked <- struct{}{}
		if revoked.Load() {
			return status.Error(codes.PermissionDenied, "not any more")
		}
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
	if err == nil {
		err = s.Send(&pb.RateLimitQuotaUsageReports{Domain: "web"})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-asked // for the message
	revoked.Store(true)
	if _, err := s.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream ended with %v", err)
	}
}
