package main

import (
	"log/slog"
	"net/http"

	"google.golang.org/grpc"

	"github.com/quorate/quorate/api/front"
	"github.com/quorate/quorate/api/quotaservice"
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
	log   *slog.Logger
}

// register adds those that are gRPC.
func (p *protocols) register(srv *grpc.Server, seen func(*quota.Decision)) {
	quotaservice.Register(srv, p.node, seen)
}

// mount returns those that are HTTP, by their paths.
func (p *protocols) mount(func(*quota.Decision)) map[string]http.Handler {
	return map[string]http.Handler{quotaservice.Root: quotaservice.Handler(p.node)}
}
