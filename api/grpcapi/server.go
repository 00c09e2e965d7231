package grpcapi

import (
	"context"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/quorate/quorate/api"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
)

// Bounds of the gRPC server.
const (
	MaxGRPCMessage   = apiproto.MaxLimitsFile + 64<<10 // a limit file and its envelope
	maxGRPCStreams   = 1024                            // open calls per connection
	grpcStreamWindow = 64 << 10
	grpcConnWindow   = 1 << 20
	minKeepalive     = 5 * time.Second // shortest allowed interval of client pings
	keepaliveTime    = 5 * time.Second // ping interval for silent clients, to detect dead ones soon
	keepaliveTimeout = 5 * time.Second
	connectTimeout   = 5 * time.Second
	MaxGRPCHeader    = 16 << 10
	maxGRPCIdle      = 15 * time.Minute // without a call; clients reconnect when they need to

	// streamWorkers is the number of goroutines per processor that wait for calls. Their stacks
	// have already grown; the stack of a new goroutine grows twice in a call, which costs as much
	// as all the work of a check. Calls beyond them start new goroutines.
	streamWorkers = 32
)

// HealthReady is the health service name that is SERVING while the node can decide, like GET
// /readyz. The empty name is SERVING while the process runs.
const HealthReady = "ready"

// HealthCluster is the health service name that is SERVING while the node can decide and all ranges
// have leaders, like GET /readyz/cluster.
const HealthCluster = "cluster"

// HealthRateLimit equals HealthReady, under the name that probes of envoyproxy/ratelimit use.
const HealthRateLimit = "ratelimit"

// New returns a server of all services of quorate.v1, health and reflection, and of the services that
// others adds, if it is not nil. The caller serves and stops it. Extra options, such as credentials,
// come last and take precedence. Interceptors among them see all calls except Allow and AllowBatch,
// which have none.
func New(svc *api.Service, others func(grpc.ServiceRegistrar), extra ...grpc.ServerOption) *grpc.Server {
	s := &grpcServer{Service: svc, anonymous: newAnonymousCalls()}
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(uint32(streamWorkers * runtime.GOMAXPROCS(0))),
		grpc.MaxRecvMsgSize(MaxGRPCMessage),
		grpc.MaxConcurrentStreams(maxGRPCStreams),
		grpc.StaticStreamWindowSize(grpcStreamWindow), // bytes that a call may send before the server reads them
		grpc.StaticConnWindowSize(grpcConnWindow),
		grpc.MaxHeaderListSize(MaxGRPCHeader),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minKeepalive, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxGRPCIdle, Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.UnaryInterceptor(s.measuredAndGuarded),
		grpc.ChainStreamInterceptor(s.guardedStream),
	}
	if s.Guard != nil {
		options = append(options, grpc.InTapHandle(s.tapped))
	}
	server := grpc.NewServer(append(options, extra...)...)
	srv := openCalls{server, s, s.measuredAndGuarded}
	srv.RegisterService(quotaDesc(), &quotaServer{QuotaService: s.Quota, server: s})
	quoratev1.RegisterMemberServiceServer(srv, s.Members)
	registerControl(srv, s.Service)
	quoratev1.RegisterAccountServiceServer(srv, s.Accounts)
	quoratev1.RegisterBackupServiceServer(srv, s.Backup)
	healthv1.RegisterHealthServer(srv, &healthServer{Server: health.NewServer(), node: s.Service})
	if others != nil {
		others(srv)
	}
	reflection.Register(server)
	return server
}

// quotaServer serves the most frequent checks with its own handlers.
type quotaServer struct {
	*api.QuotaService
	server *grpcServer
}

type healthServer struct {
	*health.Server
	node interface {
		Status() *quoratev1.GetStatusResponse
	}
}

func (s *healthServer) Check(ctx context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if req.Service != HealthReady && req.Service != HealthRateLimit && req.Service != HealthCluster {
		return s.Server.Check(ctx, req)
	}
	st, answer := s.node.Status(), healthv1.HealthCheckResponse_NOT_SERVING
	if st.GetReady() && (req.Service != HealthCluster || st.GetLeaderless() == "") {
		answer = healthv1.HealthCheckResponse_SERVING
	}
	return &healthv1.HealthCheckResponse{Status: answer}, nil
}
