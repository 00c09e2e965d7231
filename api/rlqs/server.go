package rlqs

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/quorate/quorate/api/rlqs/share"
	"github.com/quorate/quorate/internal/descriptor"
)

// Server serves the protocol on one node.
type Server struct {
	pb.UnimplementedRateLimitQuotaServiceServer
	opts     Options
	assigner *assigner
	m        *metrics
}

// Register adds RateLimitQuotaService to a gRPC server. Close ends it.
func Register(srv grpc.ServiceRegistrar, n Node, opts Options) *Server {
	opts = opts.withDefaults()
	m := newMetrics(opts)
	s := &Server{opts: opts, m: m, assigner: newAssigner(n, opts, m)}
	pb.RegisterRateLimitQuotaServiceServer(srv, s)
	return s
}

// Close ends all streams and gives back the tokens that are not assigned.
func (s *Server) Close() { s.assigner.close() }

// StreamRateLimitQuotas serves the stream of one proxy.
func (s *Server) StreamRateLimitQuotas(g pb.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	ctx, cancel := context.WithCancelCause(g.Context())
	defer cancel(nil)
	st := &stream{grpc: g, cancel: cancel, origin: share.Origin{Owner: s.opts.Owner(g.Context()), Proxy: proxyOf(g.Context())}, subs: map[string]*subscription{}, wake: make(chan struct{}, 1), named: make(chan struct{}, 1)}
	if err := s.assigner.join(st); err != nil {
		s.m.refused.Inc()
		return err
	}
	defer s.assigner.leave(st)
	// Both may block on the proxy. They end when this function returns, which ends the stream.
	ended := make(chan error, 2)
	check := time.NewTicker(s.opts.ReauthorizeEvery)
	defer check.Stop()
	named := false
	go func() { ended <- s.read(ctx, st) }()
	go func() { ended <- s.write(ctx, st) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.named:
			named = true
		case <-check.C:
			if !named {
				continue
			}
			if err := s.opts.Permitted(ctx, descriptor.Namespace(st.domain)); err != nil {
				return err
			}
		}
	}
}

// read receives messages of the proxy until the proxy ends the stream.
func (s *Server) read(ctx context.Context, st *stream) error {
	pace := rate.NewLimiter(perSecond, atOnce)
	for {
		msg, err := st.grpc.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.receive(ctx, st, msg); err != nil {
			s.m.invalid.Inc()
			return err
		}
		s.m.reports.Inc()
		if err := pace.Wait(ctx); err != nil {
			return context.Cause(ctx)
		}
	}
}

// receive books one message. It validates only the fields that it uses: only the first message of a
// stream must name the domain, although the schema's own validation requires it in all.
func (s *Server) receive(ctx context.Context, st *stream, msg *pb.RateLimitQuotaUsageReports) error {
	switch {
	case st.domain == "":
		if n := len(msg.GetDomain()); n == 0 || n > maxDomain {
			return status.Errorf(codes.InvalidArgument, "the first report of a stream must name its domain: it is %d bytes; must be 1 to %d", n, maxDomain)
		}
		st.domain = msg.GetDomain()
		st.named <- struct{}{}
	case msg.GetDomain() != "" && msg.GetDomain() != st.domain:
		return status.Errorf(codes.InvalidArgument, "domain: %.128q; this stream began with %q, another domain needs another stream", msg.GetDomain(), st.domain)
	}
	if err := s.opts.Permitted(ctx, descriptor.Namespace(st.domain)); err != nil { // it may have been revoked since the last message
		return err
	}
	if n := len(msg.GetBucketQuotaUsages()); n > maxUsages {
		return status.Errorf(codes.InvalidArgument, "bucket_quota_usages: %d; at most %d in a message", n, maxUsages)
	}
	for _, u := range msg.GetBucketQuotaUsages() {
		s.assigner.report(st, u)
	}
	return nil
}

// write sends assignments as soon as there are any.
func (s *Server) write(ctx context.Context, st *stream) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-st.wake:
		}
		list := s.assigner.popQueued(st)
		if len(list) == 0 {
			continue
		}
		if err := s.opts.Permitted(ctx, descriptor.Namespace(st.domain)); err != nil {
			return err
		}
		out := &pb.RateLimitQuotaResponse{}
		for _, w := range list {
			out.BucketAction = append(out.BucketAction, actionOf(w.sub.id, w.a))
			s.m.sent(w.a.Action)
		}
		if err := st.grpc.Send(out); err != nil {
			return err
		}
		s.assigner.sent(st)
	}
}

// proxyOf identifies the proxy beyond the lifetime of a stream: by the metadata quorate-member, or
// by the host.
func proxyOf(ctx context.Context) string {
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if v := md.Get("quorate-member"); len(v) == 1 && v[0] != "" && len(v[0]) <= maxValue {
			return "m " + v[0]
		}
	}
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return ""
	}
	return "h " + host
}

// waiting is an assignment that is about to be sent.
type waiting struct {
	sub *subscription
	a   share.Assignment
}
