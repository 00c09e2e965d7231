package server

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/quorate/quorate/api/envoy"
	"github.com/quorate/quorate/config"
)

// envoyFiles are rules of envoyproxy/ratelimit that are served as they are.
type envoyFiles struct {
	rules *envoy.Source // nil: none
	hits  *envoy.Hits
}

// openEnvoy reads the rules, and goes on reading them when they change or the
// process gets SIGHUP, until close.
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
