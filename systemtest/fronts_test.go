package systemtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gubernatorv1 "github.com/quorate/quorate/api/gen/pb/gubernator"
)

// fronted is one node that serves every protocol.
type fronted struct {
	server
	redis string
	conn  *grpc.ClientConn
}

func startFronted(t *testing.T, limits string) *fronted {
	t.Helper()
	needBinary(t)
	base, dir := freeBaseOf(t, 1), t.TempDir()
	addr := func(p int) string { return fmt.Sprintf("127.0.0.1:%d", base+10+p) }
	f := &fronted{server: server{id: "n1", httpAddr: addr(1), grpc: addr(2), peer: addr(3)}, redis: freeAddr(t)}
	write(t, filepath.Join(dir, "limits.yaml"), limits)
	write(t, filepath.Join(dir, "n1.yaml"), fmt.Sprintf(`
cluster: systemtest
node: n1
data: %s
ranges: 4
nodes: [{id: n1, peer: %q}]
listen: {http: %q, grpc: %q, redis: %q}
protocols: {gubernator: on}
limits: %s
tls: {mode: off}
log: {level: warn}
`, filepath.Join(dir, "n1"), f.peer, f.httpAddr, f.grpc, f.redis, filepath.Join(dir, "limits.yaml")))
	f.process = start(t, nil, "serve", "--config", filepath.Join(dir, "n1.yaml"))
	eventually(t, 15*time.Second, "the node is ready, with limits", func() error {
		select {
		case <-f.ended:
			t.Fatalf("it ended: %v", f.err)
		default:
		}
		st, err := f.status()
		if err == nil && (!st.Ready || st.Version != 1) {
			err = fmt.Errorf("%+v", st)
		}
		return err
	})
	var err error
	if f.conn, err = grpc.NewClient(f.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	return f
}

// TestFrontsAreMeteredAlike sends five requests through each protocol to a limit that lets three
// pass. It checks that all protocols appear in the same two metrics and give equivalent answers.
func TestFrontsAreMeteredAlike(t *testing.T) {
	f := startFronted(t, `version: 1
namespaces:
  web:
    limits:
      envoy_rls: {rate: 3/h, burst: 3}
      envoy_rlqs: {rate: 3/h, burst: 3}
      redis: {rate: 3/h, burst: 3}
      forward_auth: {rate: 3/h, burst: 3}
  gubernator:
    limits:
      gubernator: {rate: 3/h, burst: 3}
`)
	for protocol, ask := range map[string]func(t *testing.T) (allowed int){
		"envoy_rls": f.askRLS, "envoy_rlqs": f.askRLQS, "gubernator": f.askGubernator, "redis": f.askRedis, "forward_auth": f.askForward,
	} {
		if got := ask(t); got != 3 {
			t.Errorf("%s lets %d of 5 pass, want 3", protocol, got)
		}
		eventually(t, 5*time.Second, protocol+" is metered", func() error {
			text := f.metrics(t)
			allowed := sum(text, `quorate_decisions_total\{limit="`+protocol+`",namespace="[a-z]+",result="allowed",`)
			refused := sum(text, `quorate_decisions_total\{limit="`+protocol+`",namespace="[a-z]+",result="refused",`)
			requests := sum(text, `quorate_protocol_requests_total\{code="[a-z_]+",protocol="`+protocol+`"`)
			if allowed != 3 || refused != 2 || requests < 1 {
				return fmt.Errorf("%v allowed, %v refused, %v requests; want 3, 2 and at least 1", allowed, refused, requests)
			}
			return nil
		})
	}
}

func (f *fronted) metrics(t *testing.T) string {
	t.Helper()
	res, err := http.Get("http://" + f.httpAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sum adds up the series whose lines match an expression.
func sum(text, begin string) (total float64) {
	for _, m := range regexp.MustCompile(`(?m)^`+begin+`.*\} (\S+)$`).FindAllStringSubmatch(text, -1) {
		v, _ := strconv.ParseFloat(m[1], 64) // a missing value counts as zero
		total += v
	}
	return total
}

func (f *fronted) askRLS(t *testing.T) (allowed int) {
	req := &ratelimitv3.RateLimitRequest{Domain: "web", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "limit", Value: "envoy_rls"}, {Key: "user", Value: "ann"}},
	}}}
	for range 5 {
		res, err := ratelimitv3.NewRateLimitServiceClient(f.conn).ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if res.OverallCode == ratelimitv3.RateLimitResponse_OK {
			allowed++
		}
	}
	return allowed
}

// askRLQS returns how many requests the proxy admitted.
func (f *fronted) askRLQS(t *testing.T) (allowed int) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := quotav3.NewRateLimitQuotaServiceClient(f.conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	report := &quotav3.RateLimitQuotaUsageReports{Domain: "web", BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId: &quotav3.BucketId{Bucket: map[string]string{"limit": "envoy_rlqs", "user": "ann"}}, NumRequestsAllowed: 3, NumRequestsDenied: 2,
	}}}
	if err := s.Send(report); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); err != nil {
		t.Fatal(err)
	}
	return 3
}

func (f *fronted) askGubernator(t *testing.T) (allowed int) {
	req := &gubernatorv1.GetRateLimitsReq{Requests: []*gubernatorv1.RateLimitReq{{Name: "gubernator", UniqueKey: "ann", Hits: 1, Behavior: gubernatorv1.Behavior_DRAIN_OVER_LIMIT}}}
	for range 5 {
		res, err := gubernatorv1.NewV1Client(f.conn).GetRateLimits(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Responses[0].Status == gubernatorv1.Status_UNDER_LIMIT {
			allowed++
		}
	}
	return allowed
}

func (f *fronted) askRedis(t *testing.T) (allowed int) {
	conn, err := net.Dial("tcp", f.redis)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for range 5 {
		if _, err := io.WriteString(conn, "*4\r\n$13\r\nQUORATE.ALLOW\r\n$3\r\nweb\r\n$5\r\nredis\r\n$3\r\nann\r\n"); err != nil {
			t.Fatal(err)
		}
		// Six values; the two texts are two lines each.
		for i := range 9 {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 && !strings.HasPrefix(line, "*6") {
				t.Fatalf("answered %q", line)
			}
			if i == 1 && line == ":1\r\n" {
				allowed++
			}
		}
	}
	return allowed
}

func (f *fronted) askForward(t *testing.T) (allowed int) {
	for range 5 {
		res, err := http.Get("http://" + f.httpAddr + "/v1/forward-auth?namespace=web&limit=forward_auth&key=ann")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			allowed++
		}
	}
	return allowed
}
