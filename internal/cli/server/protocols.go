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

// protocols serves the protocols of other systems on a node's ports, each in its own function.
type protocols struct {
	config.Protocols
	node  *cluster.Node
	meter *front.Meter
	reg   prometheus.Registerer
	log   *slog.Logger
	seen  seen // set by register
	envoyFiles
	open bool // authentication is off

	closers []func()
}

// seen counts a decision that was made the given number of times.
type seen func(d *quota.Decision, times uint64)

func (s seen) once(d *quota.Decision) { s(d, 1) }

// register adds the gRPC protocols.
func (p *protocols) register(srv grpc.ServiceRegistrar, count func(*quota.Decision, uint64)) {
	p.seen = count
	quotaservice.Register(srv, p.node, p.seen.once)
	if p.EnvoyRLS {
		p.envoyRLS(p.seen).Register(srv)
	}
	if p.EnvoyRLQS {
		s := rlqs.Register(srv, p.node, rlqs.Options{Permitted: api.Permitted, Meter: p.meter, Registry: p.reg, Seen: p.seen})
		p.closers = append(p.closers, s.Close)
	}
	if s := p.gubernator(p.seen); s != nil {
		s.Register(srv)
	}
}

// forwarded counts the checks of proxies.
func (p *protocols) forwarded(code string) { p.meter.Of("forward_auth", code).Inc() }

// close ends what outlives a call. Call it before the node stops.
func (p *protocols) close() {
	for _, c := range p.closers {
		c()
	}
}

// gubernator returns the server of gubernator's API, nil if it is off.
func (p *protocols) gubernator(count seen) *gubernator.Server {
	if !p.Gubernator {
		return nil
	}
	return gubernator.New(p.node, gubernator.Options{
		Seen: count.once, May: api.PermittedTo, Addresses: p.open,
		Ended: func(code string) { p.meter.Of("gubernator", code).Inc() },
	})
}

// mount returns the HTTP protocols by their paths.
func (p *protocols) mount(count func(*quota.Decision, uint64)) map[string]http.Handler {
	out := map[string]http.Handler{quotaservice.Root: quotaservice.Handler(p.node)}
	if p.EnvoyRLS {
		out[envoy.JSONPath] = p.envoyRLS(count).Handler(api.Permitted)
	}
	if s := p.gubernator(count); s != nil {
		maps.Copy(out, s.Handlers())
	}
	return out
}

// envoyFiles are rules of envoyproxy/ratelimit that the node serves unchanged.
type envoyFiles struct {
	rules *envoy.Source // nil without rules
	hits  *envoy.Hits
}

// openEnvoy reads the rules. Until close it reads them again when they change or the process gets
// SIGHUP.
func (p *protocols) openEnvoy() (err error) {
	if !p.EnvoyRLS || p.EnvoyRLSConfig == "" {
		return nil
	}
	if p.rules, err = envoy.NewSource(p.EnvoyRLSConfig, p.reg, config.ParseEnvoyRateLimits); err != nil {
		return err
	}
	p.hits = envoy.NewHits(p.reg)
	ctx, done := context.WithCancel(context.Background())
	p.closers = append(p.closers, done)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	go func() {
		defer signal.Stop(asked)
		p.rules.Run(ctx, asked, p.log)
	}()
	return nil
}

// envoyRLS returns Envoy's rate limit service.
func (p *protocols) envoyRLS(count seen) *envoy.Server {
	o := envoy.Options{
		Seen: count.once, Hits: p.hits, Overrides: p.EnvoyRLSOverrides,
		Ended: func(code string) { p.meter.Of("envoy_rls", code).Inc() },
	}
	if p.rules != nil {
		o.Rules = p.rules.Rules
	}
	switch p.EnvoyRLSHeaders {
	case config.HeadersNone:
		o.Headers = envoy.HeadersNone
	case config.HeadersLegacy:
		o.Headers = envoy.HeadersLegacy
	case config.HeadersBoth:
		o.Headers = envoy.HeadersBoth
	}
	return envoy.New(p.node, o)
}

// serveRedis serves the Redis protocol if the settings ask for it.
func (in *instance) serveRedis(ctx context.Context, c *callers, p *protocols, opts *api.Options, sec *security) error {
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
	in.redis = resp.New(p.node, resp.Options{
		Guard: opts.Guard, Logger: opts.Logger, Seen: p.seen.once, Count: p.redisCounter(), Denied: in.deniedRedis(opts.Self),
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
