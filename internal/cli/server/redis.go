package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/api/resp"
	"github.com/quorate/quorate/internal/audit"
)

// serveRedis serves the Redis protocol, if it is asked for.
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

// deniedRedis writes down what was refused to its caller, as the API does.
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
