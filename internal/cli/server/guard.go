package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/auth"
	"github.com/quorate/quorate/api/rest"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/rbac"
)

// AuditFile is the name of the audit log in a node's data directory.
const AuditFile = "audit.log"

// callers holds the settings about callers of the API.
type callers struct {
	auth        config.Auth
	access      config.Access
	connections config.Connections
	debug       string
	redis       string
	protocols   config.Protocols
	hosts       []string // names by which HTTP callers may address the node
}

func callersOf(s *config.Node) callers {
	return callers{auth: s.Auth, access: s.Access, connections: s.Connections, debug: s.Debug, redis: s.Redis, protocols: s.Protocols, hosts: append(hostsOf(s.Addresses()), s.Hosts...)}
}

// known reports whether callers must authenticate.
func (c *callers) known(sec *security) bool {
	return c.auth.Mode == config.AuthOn || c.auth.Mode != config.AuthOff && sec.on()
}

// warnOpen logs a warning if ports that other machines can reach lack TLS or authentication.
func (c *callers) warnOpen(ports *listeners, sec *security, log *slog.Logger) {
	var open []string
	for _, l := range []struct {
		name string
		net.Listener
	}{{"http", ports.http}, {"grpc", ports.grpc}, {"peer", ports.peer}} {
		if a, err := netip.ParseAddrPort(l.Addr().String()); err == nil && !a.Addr().Unmap().IsLoopback() {
			open = append(open, l.name+" "+a.String())
		}
	}
	if a, _, err := net.SplitHostPort(c.redis); err == nil && a != "localhost" {
		if ip, err := netip.ParseAddr(a); err != nil || !ip.Unmap().IsLoopback() {
			open = append(open, "redis "+c.redis)
		}
	}
	switch {
	case len(open) == 0:
	case !sec.on():
		log.Warn("DANGER: ports reachable from other machines have no TLS: anyone on the network can read and change everything, join the cluster and impersonate any node; use \"quorate init\", which makes certificates, or listen on 127.0.0.1", "ports", strings.Join(open, ", "))
	case !c.known(sec):
		log.Warn("DANGER: ports reachable from other machines have no authentication: every caller has all permissions; set auth.mode: on", "ports", strings.Join(open, ", "))
	}
}

// guard returns the guard that authenticates and authorizes calls, nil while authentication is off.
// table returns the bindings at the time of a call.
func (c *callers) guard(table func() *rbac.Table, sec *security, log *slog.Logger) (*auth.Guard, error) {
	if !c.known(sec) {
		log.Info("authentication is off: identities are not verified, and every caller has all permissions except those that access.grants restricts", "grants", len(c.access.Grants))
		return nil, nil //nolint:nilnil // nil means no guard
	}
	cfg := auth.Config{Table: table, Bindings: c.access.Bindings, Grants: access.List(c.access.Grants), Logger: log}
	if sec.on() {
		cfg.Certificate = auth.ByStore(sec.store)
	} else {
		log.Warn("authentication is on without TLS: tokens can be read on the network")
	}
	if o := c.auth.OIDC; o != (config.OIDC{}) {
		cfg.OIDC = &auth.OIDC{Issuer: o.Issuer, Audience: o.Audience, IdentityClaim: o.IdentityClaim, GroupsClaim: o.GroupsClaim}
	}
	return auth.New(cfg)
}

// openAudit opens a node's audit log and registers a metric of lost entries.
func openAudit(dir string, reg prometheus.Registerer, log *slog.Logger) (*audit.Log, error) {
	l, err := audit.Open(audit.Options{Path: filepath.Join(dir, AuditFile), Logger: log})
	if err != nil {
		return nil, err
	}
	reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "quorate_audit_lost_total", Help: "Entries that could not be written to the audit log.",
	}, func() float64 { return float64(l.Lost()) }))
	return l, nil
}

// serveDebug serves profiles on a private port if the settings ask for it.
func (in *instance) serveDebug(ctx context.Context, c *callers, svc *api.Service, sec *security) error {
	if c.debug == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.debug)
	ip, ipErr := netip.ParseAddr(host)
	if err == nil && svc.Guard == nil && (ipErr != nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen.debug: %s; without authentication it must be on this machine alone, such as 127.0.0.1:7414", c.debug)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.debug)
	if err != nil {
		return listenError("debug", c.debug, err)
	}
	if sec.on() {
		l = tls.NewListener(l, sec.serverConfig("http/1.1"))
	}
	in.debug = rest.NewDebug(svc)
	go func() {
		if err := in.debug.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			in.fault <- fmt.Errorf("debug server: %w", err)
		}
	}()
	return nil
}
