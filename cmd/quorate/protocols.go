package main

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
	seen  func(*quota.Decision) // set by register
	envoyFiles

	closers []func()
}

// register adds those that are gRPC.
func (p *protocols) register(srv *grpc.Server, seen func(*quota.Decision)) {
	p.seen = seen
	quotaservice.Register(srv, p.node, seen)
	if p.EnvoyRLS {
		p.envoyRLS(seen).Register(srv)
	}
	p.rlqs(srv)
	if s := p.gubernator(seen); s != nil {
		s.Register(srv)
	}
}

// rlqs serves Envoy's rate limit quota service. Its decisions are made by the proxies.
func (p *protocols) rlqs(srv *grpc.Server) {
	if p.EnvoyRLQS {
		s := rlqs.Register(srv, p.node, rlqs.Options{Permitted: api.Permitted, Meter: p.meter, Registry: p.reg})
		p.closers = append(p.closers, s.Close)
	}
}

// close ends what lasts longer than a call; before the node stops.
func (p *protocols) close() {
	for _, c := range p.closers {
		c()
	}
}

// gubernator returns what serves gubernator's API, nil if it is off.
func (p *protocols) gubernator(seen func(*quota.Decision)) *gubernator.Server {
	if !p.Gubernator {
		return nil
	}
	return gubernator.New(p.node, gubernator.Options{
		Seen: seen, May: api.PermittedTo,
		Ended: func(code string) { p.meter.Of("gubernator", code).Inc() },
	})
}

// mount returns those that are HTTP, by their paths.
func (p *protocols) mount(seen func(*quota.Decision)) map[string]http.Handler {
	out := map[string]http.Handler{quotaservice.Root: quotaservice.Handler(p.node)}
	if p.EnvoyRLS {
		out[envoy.JSONPath] = p.envoyRLS(seen).Handler(api.Permitted)
	}
	if s := p.gubernator(seen); s != nil {
		maps.Copy(out, s.Handlers())
	}
	return out
}
