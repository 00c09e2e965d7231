package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/api/gubernator"
	"github.com/quorate/quorate/api/quotaservice"
	"github.com/quorate/quorate/api/resp"
	"github.com/quorate/quorate/api/rlqs"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/quota"
)

// protocols serves the protocols of other systems on a node's ports.
type protocols struct {
	node       *cluster.Node
	seen       func(d *quota.Decision, times uint64) // counts a decision that was made so many times
	meter      *front.Meter
	envoy      *envoy.Server      // nil if off
	gubernator *gubernator.Server // nil if off
	quotas     bool               // serve Envoy's rate limit quota service
	reg        prometheus.Registerer
	closers    []func()
}

// newProtocols returns the protocols that the settings ask for. Their decisions count as decisions
// of svc.
func newProtocols(settings *config.Protocols, node *cluster.Node, svc *api.Service, log *slog.Logger) (*protocols, error) {
	reg := svc.Opts.Registry
	p := &protocols{node: node, seen: svc.Quota.Seen, meter: front.NewMeter(reg), quotas: settings.EnvoyRLQS, reg: reg}
	if settings.Gubernator {
		p.gubernator = gubernator.New(node, gubernator.Options{
			Seen: p.seenOnce, May: api.PermittedTo, Owner: api.Owner, Addresses: svc.Guard == nil,
			Ended: func(code string) { p.meter.Of("gubernator", code).Inc() },
		})
	}
	if settings.EnvoyRLS {
		var err error
		if p.envoy, err = p.newEnvoy(settings, log); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// newEnvoy returns Envoy's rate limit service. If it has files of rules, it reads them again when
// they change or the process gets SIGHUP, until close.
func (p *protocols) newEnvoy(settings *config.Protocols, log *slog.Logger) (*envoy.Server, error) {
	o := envoy.Options{
		Seen: p.seenOnce, Overrides: settings.EnvoyRLSOverrides, May: api.PermittedTo, Owner: api.Owner,
		Ended: func(code string) { p.meter.Of("envoy_rls", code).Inc() },
	}
	switch settings.EnvoyRLSHeaders {
	case config.HeadersNone:
		o.Headers = envoy.HeadersNone
	case config.HeadersLegacy:
		o.Headers = envoy.HeadersLegacy
	case config.HeadersBoth:
		o.Headers = envoy.HeadersBoth
	}
	if settings.EnvoyRLSConfig != "" {
		rules, err := envoy.NewSource(settings.EnvoyRLSConfig, p.reg, config.ParseEnvoyRateLimits)
		if err != nil {
			return nil, err
		}
		o.Rules, o.Hits = rules.Rules, envoy.NewHits(p.reg)
		ctx, done := context.WithCancel(context.Background())
		p.closers = append(p.closers, done)
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGHUP)
		go func() {
			defer signal.Stop(asked)
			rules.Run(ctx, asked, log)
		}()
	}
	return envoy.New(p.node, o), nil
}

func (p *protocols) seenOnce(d *quota.Decision) { p.seen(d, 1) }

// register adds the gRPC protocols.
func (p *protocols) register(srv grpc.ServiceRegistrar) {
	quotaservice.Register(srv, p.node, p.seenOnce)
	if p.envoy != nil {
		p.envoy.Register(srv)
	}
	if p.quotas {
		s := rlqs.Register(srv, p.node, rlqs.Options{Permitted: api.Permitted, Owner: api.Owner, Meter: p.meter, Registry: p.reg, Seen: p.seen})
		p.closers = append(p.closers, s.Close)
	}
	if p.gubernator != nil {
		p.gubernator.Register(srv)
	}
}

// handlers returns the HTTP protocols by their paths. Without authentication they share bounds by
// their callers' addresses, as over gRPC.
func (p *protocols) handlers() map[string]http.Handler {
	out := map[string]http.Handler{quotaservice.Root: quotaservice.Handler(p.node)}
	if p.envoy != nil {
		out[envoy.JSONPath] = p.envoy.Handler()
	}
	if p.gubernator != nil {
		maps.Copy(out, p.gubernator.Handlers())
	}
	for path, h := range out {
		out[path] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(api.WithAddress(r.Context(), r.RemoteAddr)))
		})
	}
	return out
}

// forwarded counts the checks of proxies.
func (p *protocols) forwarded(code string) { p.meter.Of("forward_auth", code).Inc() }

// close ends what outlives a call. Call it before the node stops.
func (p *protocols) close() {
	for _, c := range p.closers {
		c()
	}
}

// serveRedis serves the Redis protocol if the settings ask for it.
func (in *instance) serveRedis(ctx context.Context, c *callers, opts *api.Options, sec *security) error {
	if c.redis == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.redis)
	if err != nil {
		return listenError("Redis", c.redis, err)
	}
	l = api.Bound(l, "redis", api.ConnectionBounds{Total: c.connections.Total, PerAddress: c.connections.PerAddress}, opts.Registry)
	if sec.on() {
		l = tls.NewListener(l, sec.serverConfig())
	}
	in.redis = resp.New(in.node, resp.Options{
		Guard: opts.Guard, Owner: api.OwnerOf, Logger: opts.Logger, Seen: in.others.seenOnce, Count: in.others.redisCounter(), Denied: in.deniedRedis(opts.Self),
	})
	go func() {
		if err := in.redis.Serve(l); !errors.Is(err, resp.ErrStopped) {
			in.fault <- fmt.Errorf("server of the Redis protocol: %w", err)
		}
	}()
	return nil
}

// redisCounter counts answers by their codes.
func (p *protocols) redisCounter() func(code string) {
	by := map[string]prometheus.Counter{}
	for _, code := range resp.Codes() {
		by[code] = p.meter.Of("redis", code)
	}
	return func(code string) { by[code].Inc() }
}

// deniedRedis returns a function that audits refused callers, as the API does.
func (in *instance) deniedRedis(self string) func(string, *auth.Caller, string, error) {
	return func(command string, c *auth.Caller, address string, err error) {
		e := audit.Entry{
			Node: self, Identity: auth.Anonymous, Credential: auth.None.String(), Address: address,
			Method: "redis " + command, Result: audit.Denied, Code: "UNAUTHENTICATED", Detail: err.Error(),
		}
		if c != nil {
			e.Identity, e.Credential, e.Serial, e.Code = c.Identity, c.Credential.String(), c.Serial, "PERMISSION_DENIED"
		}
		var id [8]byte
		_, _ = rand.Read(id[:]) // never fails
		e.RequestID = hex.EncodeToString(id[:])
		in.audit.Write(e)
	}
}
