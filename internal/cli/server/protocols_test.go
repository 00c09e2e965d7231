package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/envoy"
	pb "github.com/quorate/quorate/api/gen/pb/gubernator"
	"github.com/quorate/quorate/api/gubernator"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/internal/freeport"
)

// from returns a connection to a gRPC server from a local address.
func from(t *testing.T, ip, to string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
		return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(ctx, "tcp", to)
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// inlineRequest returns a request with n limits of its own, of numbers from a first one on. Their keys do not refill during a
// test, so the limits stay in use.
func inlineRequest(first, n uint32) *ratelimitv3.RateLimitRequest {
	req := &ratelimitv3.RateLimitRequest{Domain: "edge"}
	for i := range n {
		req.Descriptors = append(req.Descriptors, &commonv3.RateLimitDescriptor{
			Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: "user", Value: "x"}},
			Limit:   &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: first + i, Unit: typev3.RateLimitUnit_YEAR},
		})
	}
	return req
}

// TestProtocolsShare checks that the protocols charge a caller's address with the limits that it brings
// along: one that has used its share over Envoy's protocol has none over the others, while another has.
func TestProtocolsShare(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rules, []byte("domain: edge\ndescriptors:\n  - {key: user, rate_limit: {unit: minute, requests_per_unit: 7}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	who := callers{protocols: devProtocols, redis: free}
	who.protocols.EnvoyRLSConfig, who.protocols.EnvoyRLSOverrides = rules, true
	// A limit is in use while it has a key: none loses its key during the test, however slow the machine is.
	in := startOne(t, who, func(cfg *cluster.Config) { cfg.MaxKeys, cfg.Idle = 1_000_000, time.Hour })
	base, at := "http://"+in.ports.http.Addr().String(), in.ports.grpc.Addr().String()
	one, other := from(t, "127.0.0.1", at), from(t, "127.0.0.2", at)
	number := uint32(1)
	for _, n := range []uint32{envoy.MaxDescriptors, 1} { // use up the caller's share of limits
		for err = nil; number < 20_000 && err == nil; number += n {
			_, err = ratelimitv3.NewRateLimitServiceClient(one).ShouldRateLimit(t.Context(), inlineRequest(number, n))
		}
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("after %d limits: %v", number, err)
		}
	}
	if _, err = ratelimitv3.NewRateLimitServiceClient(other).ShouldRateLimit(t.Context(), inlineRequest(number, 1)); err != nil {
		t.Errorf("another caller: %v", err)
	}
	post := func(path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
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
	const noRoom = "no room for another"
	if got := post(envoy.JSONPath, `{"domain": "edge", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "limit": {"requests_per_unit": 99999, "unit": "HOUR"}}]}`); !strings.Contains(got, noRoom) {
		t.Errorf("Envoy's JSON: %s", got)
	}
	hits := &pb.RateLimitReq{Name: "n", UniqueKey: "k", Hits: 1, Limit: 5, Duration: 60_000}
	for i, conn := range []*grpc.ClientConn{one, other} { // in this order: a limit that is there is open to everybody
		full := i == 0
		res, err := pb.NewV1Client(conn).GetRateLimits(t.Context(), &pb.GetRateLimitsReq{Requests: []*pb.RateLimitReq{hits}})
		if err != nil || strings.Contains(res.Responses[0].Error, noRoom) != full {
			t.Errorf("gubernator: %v, %v; want full %v", res, err, full)
		}
	}
	if got := post(gubernator.PathGetRateLimits, `{"requests": [{"name": "n", "unique_key": "k", "hits": 1, "limit": 6, "duration": 60000}]}`); !strings.Contains(got, noRoom) {
		t.Errorf("gubernator's JSON: %s", got)
	}
	for i, ip := range []string{"127.0.0.1", "127.0.0.2"} {
		full := i == 0
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}).DialContext(t.Context(), "tcp", who.redis)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "CL.THROTTLE k 15 30 60\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || strings.Contains(line, noRoom) != full {
			t.Errorf("the Redis protocol: %q, %v; want full %v", line, err, full)
		}
	}
}

// TestRLQSShares checks that streams of Envoy's rate limit quota service count for the caller's address.
func TestRLQSShares(t *testing.T) {
	in := startOne(t, callers{protocols: devProtocols})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := make(chan error, 1)
	var conn *grpc.ClientConn
	for i := range 4097 { // beyond the bound of all callers, of which one has only a part
		if i%1000 == 0 { // a connection has at most 1024 calls
			conn = from(t, "127.0.0.1", in.ports.grpc.Addr().String())
		}
		s, err := quotav3.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := s.Recv()
			select {
			case refused <- err:
			default:
			}
		}()
	}
	if err := <-refused; !strings.Contains(err.Error(), "of address:127.0.0.1 as one caller may have") {
		t.Error(err)
	}
}
