package server

import (
	"log/slog"
	"maps"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/api/gubernator"
	"github.com/quorate/quorate/api/quotaservice"
	"github.com/quorate/quorate/api/rlqs"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/quota"
)

// protocols serves the protocols of others on a node's ports, each in a function of
// its own.
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

// seen counts a decision that was made some times.
type seen func(d *quota.Decision, times uint64)

func (s seen) once(d *quota.Decision) { s(d, 1) }

// register adds those that are gRPC.
func (p *protocols) register(srv grpc.ServiceRegistrar, count func(*quota.Decision, uint64)) {
	p.seen = count
	quotaservice.Register(srv, p.node, p.seen.once)
	if p.EnvoyRLS {
		p.envoyRLS(p.seen).Register(srv)
	}
	p.rlqs(srv)
	if s := p.gubernator(p.seen); s != nil {
		s.Register(srv)
	}
}

// rlqs serves Envoy's rate limit quota service. Its decisions are made by the proxies.
func (p *protocols) rlqs(srv grpc.ServiceRegistrar) {
	if p.EnvoyRLQS {
		s := rlqs.Register(srv, p.node, rlqs.Options{Permitted: api.Permitted, Meter: p.meter, Registry: p.reg, Seen: p.seen})
		p.closers = append(p.closers, s.Close)
	}
}

// forwarded counts checks for proxies.
func (p *protocols) forwarded(code string) { p.meter.Of("forward_auth", code).Inc() }

// close ends what lasts longer than a call; before the node stops.
func (p *protocols) close() {
	for _, c := range p.closers {
		c()
	}
}

// gubernator returns what serves gubernator's API, nil if it is off.
func (p *protocols) gubernator(count seen) *gubernator.Server {
	if !p.Gubernator {
		return nil
	}
	return gubernator.New(p.node, gubernator.Options{
		Seen: count.once, May: api.PermittedTo, Addresses: p.open,
		Ended: func(code string) { p.meter.Of("gubernator", code).Inc() },
	})
}

// mount returns those that are HTTP, by their paths.
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
