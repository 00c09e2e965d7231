package api

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// Bounds of the gRPC server.
const (
	maxGRPCMessage   = MaxLimitsFile + 64<<10 // a limit file and its envelope
	maxGRPCStreams   = 1024                   // calls open on one connection
	minKeepalive     = 5 * time.Second        // clients may not ping more often
	keepaliveTime    = 5 * time.Second        // pings to silent clients: one that has vanished is missed soon
	keepaliveTimeout = 5 * time.Second
	connectTimeout   = 5 * time.Second
	maxGRPCHeader    = 16 << 10
	maxGRPCIdle      = 15 * time.Minute // without a call; clients connect again when they need to

	// streamWorkers is how many goroutines for each processor wait for calls. Each has a stack
	// that has grown already: a new one grows twice in a call, which costs as much as all that
	// a check does. Calls beyond them get new ones.
	streamWorkers = 32
)

// HealthReady is the health service name that is SERVING only while the cluster
// is ready, as GET /readyz. The empty name is SERVING while the node runs: it
// decides locally, leaders or not.
const HealthReady = "ready"

// NewGRPC returns a server of all services of quorate.v1, health and reflection. The caller serves and stops it; extra
// options, such as credentials, come last and win. Interceptors among them see all calls but
// Allow and AllowBatch, which have none.
func NewGRPC(n Node, o Options, extra ...grpc.ServerOption) *grpc.Server {
	return newGRPC(newService(n, o), extra...)
}

func newGRPC(s *service, extra ...grpc.ServerOption) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(uint32(streamWorkers * runtime.GOMAXPROCS(0))),
		grpc.MaxRecvMsgSize(maxGRPCMessage),
		grpc.MaxConcurrentStreams(maxGRPCStreams),
		grpc.MaxHeaderListSize(maxGRPCHeader),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minKeepalive, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxGRPCIdle, Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.ChainUnaryInterceptor(s.measure, s.guarded),
		grpc.ChainStreamInterceptor(s.guardedStream),
	}
	if s.guard != nil {
		options = append(options, grpc.InTapHandle(s.tapped))
	}
	srv := grpc.NewServer(append(options, extra...)...)
	srv.RegisterService(quotaDesc(), &quotaServer{service: s})
	quoratev1.RegisterMemberServiceServer(srv, &memberServer{service: s})
	s.registerControl(srv)
	quoratev1.RegisterAccountServiceServer(srv, &accountServer{service: s})
	quoratev1.RegisterBackupServiceServer(srv, &backupServer{service: s, stall: backupStall})
	healthv1.RegisterHealthServer(srv, &healthServer{Server: health.NewServer(), node: s.node})
	if s.opts.Register != nil {
		s.opts.Register(srv, s.seen)
	}
	reflection.Register(srv)
	return srv
}

func (s *service) measure(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start, parent := time.Now(), parentOf(ctx)
	ctx, span := s.opts.Tracer.Serve(ctx, info.FullMethod, parent)
	res, err := next(ctx, req)
	s.meter.observe("grpc", info.FullMethod, status.Code(err).String(), start, cmp.Or(span.Sampled(), sampledTrace(parent)))
	span.End(err)
	return res, err
}

type quotaServer struct {
	quoratev1.UnimplementedQuotaServiceServer
	*service
}

type healthServer struct {
	*health.Server
	node Node
}

func (s *healthServer) Check(ctx context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	if req.Service != HealthReady {
		return s.Server.Check(ctx, req)
	}
	st := healthv1.HealthCheckResponse_NOT_SERVING
	if s.node.Status().GetReady() {
		st = healthv1.HealthCheckResponse_SERVING
	}
	return &healthv1.HealthCheckResponse{Status: st}, nil
}
