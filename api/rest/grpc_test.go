package rest

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/quota"
)

func dialGRPC(t testing.TB, n api.Node, o api.Options) *grpc.ClientConn {
	t.Helper()
	o.ParseLimits, o.FormatLimits, o.Lint = apitest.ParseLimits, apitest.FormatLimits, apitest.LintLimits
	return dialService(t, api.New(n, o), nil)
}

func dialService(t testing.TB, s *api.Service, others func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	srv := grpcapi.New(s, others)
	go srv.Serve(l) // ends with Stop
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); srv.Stop() })
	return conn
}

func TestGRPCAllow(t *testing.T) {
	c := quoratev1.NewQuotaServiceClient(dialGRPC(t, apitest.New(t), api.Options{}))
	req := &quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k", Cost: proto.Int64(20)}
	res, err := c.Allow(t.Context(), req)
	if err != nil || !res.Allowed || res.Why != quoratev1.Why_WHY_HELD || res.RetryAfter != nil || res.Limit.Burst != 20 || res.Limit.Ceiling != quoratev1.Ceiling_CEILING_SOFT {
		t.Fatalf("%v %v", res, err)
	}
	res, err = c.Allow(t.Context(), req)
	if err != nil || res.Allowed || res.RetryAfter.AsDuration().Seconds() != 1.5 {
		t.Fatalf("a refusal is an answer, with its time: %v %v", res, err)
	}
	req.Cost = proto.Int64(21)
	if res, err = c.Allow(t.Context(), req); err != nil || res.RetryAfter != nil || res.Why != quoratev1.Why_WHY_OVER_BURST {
		t.Fatalf("never has no retry_after: %v %v", res, err)
	}
}

func TestGRPCFaults(t *testing.T) {
	n := apitest.New(t)
	conn := dialGRPC(t, n, api.Options{})
	quotas, limits, rates := quoratev1.NewQuotaServiceClient(conn), quoratev1.NewLimitServiceClient(conn), quoratev1.NewRateServiceClient(conn)
	allow := func(req *quoratev1.AllowRequest) func() error {
		return func() error { _, err := quotas.Allow(t.Context(), req); return err }
	}
	many := make([]*quoratev1.AllowRequest, apiproto.MaxBatch+1)
	for i := range many {
		many[i] = &quoratev1.AllowRequest{Namespace: "api", Limit: "per_tenant", Key: "k"}
	}
	apply := func() error {
		_, err := limits.ApplyLimits(t.Context(), &quoratev1.ApplyLimitsRequest{Yaml: "web/a 1/s 2"})
		return err
	}
	for name, c := range map[string]struct {
		call  func() error
		setup error
		code  codes.Code
		field string
		text  string
	}{
		"bad name":     {call: allow(&quoratev1.AllowRequest{Namespace: "we b", Limit: "per_client", Key: "k"}), code: codes.InvalidArgument, field: "namespace"},
		"cost below 0": {call: allow(&quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k", Cost: proto.Int64(-1)}), code: codes.InvalidArgument, field: "cost"},
		"cost too big": {call: allow(&quoratev1.AllowRequest{Namespace: "web", Limit: "per_client", Key: "k", Cost: proto.Int64(quota.MaxTokens + 1)}), code: codes.InvalidArgument, field: "cost"},
		"no limit":     {call: allow(&quoratev1.AllowRequest{Namespace: "web", Limit: "x", Key: "k"}), code: codes.NotFound, text: `namespace "web" has: login, per_client`},
		"no checks":    {call: func() error { _, err := quotas.AllowBatch(t.Context(), &quoratev1.AllowBatchRequest{}); return err }, code: codes.InvalidArgument, field: "checks"},
		"many checks": {call: func() error {
			_, err := quotas.AllowBatch(t.Context(), &quoratev1.AllowBatchRequest{Checks: many})
			return err
		}, code: codes.InvalidArgument, field: "checks"},
		"bad file": {call: func() error {
			_, err := limits.ApplyLimits(t.Context(), &quoratev1.ApplyLimitsRequest{Yaml: "x", Source: "f.yaml"})
			return err
		}, code: codes.InvalidArgument, field: "yaml", text: "f.yaml:2:5: second fault"},
		"no leader": {call: apply, setup: apitest.NoLeader{}, code: codes.Unavailable, text: "no leader"},
		"too slow":  {call: apply, setup: context.DeadlineExceeded, code: codes.DeadlineExceeded},
		"top":       {call: func() error { _, err := rates.TopRates(t.Context(), &quoratev1.TopRatesRequest{Top: -1}); return err }, code: codes.InvalidArgument, field: "top"},
	} {
		n.SetErr = c.setup
		st := status.Convert(c.call())
		if st.Code() != c.code || !strings.Contains(st.Message(), c.text) {
			t.Errorf("%s: got %v, want %v %q", name, st, c.code, c.text)
		}
		var field string
		var info *errdetails.ErrorInfo
		var retry *errdetails.RetryInfo
		for _, d := range st.Details() {
			switch d := d.(type) {
			case *errdetails.BadRequest:
				field = d.FieldViolations[0].Field
			case *errdetails.ErrorInfo:
				info = d
			case *errdetails.RetryInfo:
				retry = d
			}
		}
		if field != c.field || info == nil || info.Reason == "" || (retry != nil) != (c.code == codes.Unavailable) {
			t.Errorf("%s: details %v, want field %q", name, st.Details(), c.field)
		}
	}
	res, err := quotas.AllowBatch(t.Context(), &quoratev1.AllowBatchRequest{Checks: many[:apiproto.MaxBatch]})
	if err != nil || len(res.Results) != apiproto.MaxBatch || res.Results[apiproto.MaxBatch-1].Response.Remaining != 0 {
		t.Errorf("a batch of %d: %v", apiproto.MaxBatch, err)
	}
}

func TestGRPCHealth(t *testing.T) {
	n := apitest.New(t)
	c := healthv1.NewHealthClient(dialGRPC(t, n, api.Options{}))
	for _, is := range [][2]string{{"", ""}, {"", "1 of 4 ranges have no leader"}, {"the node stops", ""}} {
		n.Reason, n.Leaderless = is[0], is[1]
		serving := map[bool]healthv1.HealthCheckResponse_ServingStatus{true: 1, false: 2}
		ready := serving[is[0] == ""]
		for service, want := range map[string]healthv1.HealthCheckResponse_ServingStatus{
			"": healthv1.HealthCheckResponse_SERVING, grpcapi.HealthReady: ready, "ratelimit": ready, // the name in envoyproxy/ratelimit
			grpcapi.HealthCluster: serving[is == [2]string{}],
		} {
			res, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
			if err != nil || res.Status != want {
				t.Errorf("%q with reason %q: %v %v, want %v", service, is, res, err, want)
			}
		}
	}
}

// TestServersShareAService checks that both servers of a node count into one metric family.
func TestServersShareAService(t *testing.T) {
	reg := prometheus.NewRegistry()
	s := api.New(apitest.New(t), api.Options{Registry: reg, Version: "v"})
	c, h := quoratev1.NewQuotaServiceClient(dialService(t, s, nil)), New(s, Options{})
	if _, err := c.Allow(t.Context(), &quoratev1.AllowRequest{Namespace: "web", Limit: "login", Key: "secret-tenant"}); err != nil {
		t.Fatal(err)
	}
	checkMetrics(t, reg, h.Handler)
}
