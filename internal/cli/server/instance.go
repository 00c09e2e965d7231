package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/grpcapi"
	"github.com/quorate/quorate/api/resp"
	"github.com/quorate/quorate/api/rest"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/audit"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/console"
	"github.com/quorate/quorate/internal/logs"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sockerr"
)

// listeners are the three ports of a node.
type listeners struct{ http, grpc, peer net.Listener }

// listen opens all ports, or none.
func listen(ctx context.Context, httpAddr, grpcAddr, peerAddr string) (l listeners, err error) {
	var lc net.ListenConfig
	for _, p := range []struct {
		name, addr string
		to         *net.Listener
	}{{"HTTP", httpAddr, &l.http}, {"gRPC", grpcAddr, &l.grpc}, {"peer", peerAddr, &l.peer}} {
		if *p.to, err = lc.Listen(ctx, "tcp", p.addr); err != nil {
			l.close()
			return listeners{}, listenError(p.name, p.addr, err)
		}
	}
	return l, nil
}

func listenError(name, addr string, err error) error {
	if sockerr.InUse(err) {
		return fmt.Errorf("the %s port %s is taken by another process; stop that one or choose other ports", name, addr)
	}
	if host, port, split := net.SplitHostPort(addr); sockerr.NotLocal(err) && split == nil && host != "" {
		return fmt.Errorf("cannot listen on the %s port %s: it is not an address of this machine; listen on one that is, or on 0.0.0.0:%s, and give the address for other nodes with --host", name, addr, port)
	}
	return fmt.Errorf("cannot listen on the %s port %s: %w", name, addr, err)
}

func (l *listeners) close() {
	for _, ln := range []net.Listener{l.http, l.grpc, l.peer} {
		if ln != nil {
			_ = ln.Close() // nothing was served on it
		}
	}
}

// instance is one node with its servers.
type instance struct {
	node  *cluster.Node
	grpc  *grpc.Server
	http  *http.Server
	ports listeners
	debug *http.Server // nil if off
	redis *resp.Server // nil if off
	audit *audit.Log
	fault chan error // receives the error of a server that ended on its own

	others  *protocols
	console *console.Console
}

// LintLimits returns the linter's warnings about limits, as text.
func LintLimits(limits []quota.Limit) []string {
	var out []string
	for _, f := range config.Lint(limits) {
		out = append(out, f.String())
	}
	return out
}

// startInstance starts a node and its servers. It takes over the listeners.
func startInstance(cfg cluster.Config, who callers, ports listeners, sec *security, log *slog.Logger) (_ *instance, err error) {
	in := &instance{ports: ports, fault: make(chan error, 4)}
	defer func() {
		if err != nil {
			err = errors.Join(err, in.abandon())
		}
	}()
	reg := newRegistry(sec, log)
	cfg.Listener, cfg.Registry, cfg.Logger, cfg.Version = ports.peer, reg, log, build.Version
	cfg.AuditLog = filepath.Join(cfg.Dir, AuditFile)
	if in.node, err = cluster.Start(cfg); err != nil {
		return nil, err
	}
	who.warnOpen(&ports, sec, log)
	guard, err := who.guard(in.node.Security, sec, log)
	if err != nil {
		return nil, err
	}
	if in.audit, err = openAudit(cfg.Dir, reg, log); err != nil {
		return nil, err
	}
	opts := api.Options{
		Series: cfg.Series, Tracer: cfg.Tracer, ParseLimits: config.ParseLimits, FormatLimits: config.FormatLimits, Lint: LintLimits, Registry: reg, Logger: log, Version: build.Version,
		Self: string(cfg.Self), Hosts: append([]string{}, who.hosts...), Guard: guard, Audit: in.audit,
	}
	if guard == nil && who.access.Grants != nil {
		opts.Grants = access.List(who.access.Grants)
	}
	svc := api.New(in.node, opts)
	if in.others, err = newProtocols(&who.protocols, in.node, svc, log); err != nil {
		return nil, err
	}
	in.console = console.New(console.Deps{
		Conn: grpcapi.NewLocal(svc), Guard: guard, Audit: in.audit,
		Self: opts.Self, Version: opts.Version, Logger: log, Settings: shownSettings(&cfg, &who, sec, &ports),
	})
	if err := in.serveDebug(context.Background(), &who, svc, sec); err != nil {
		return nil, err
	}
	if err := in.serveRedis(context.Background(), &who, &opts, sec); err != nil {
		return nil, err
	}
	in.serveAPI(&who, svc, sec, cfg.HTTP)
	return in, nil
}

// newRegistry returns a registry with the metrics of the process, its log and its certificate.
func newRegistry(sec *security, log *slog.Logger) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if l, ok := log.Handler().(*logs.Limiter); ok {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "quorate_log_lines_dropped_total", Help: "Log lines that were dropped because they repeated earlier ones.",
		}, func() float64 { return float64(l.Dropped()) }))
	}
	if sec.on() {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "quorate_certificate_expiry_timestamp_seconds", Help: "Expiry of this node's certificate, in seconds since 1970.",
		}, func() float64 { return float64(sec.store.NotAfter().Unix()) }))
	}
	return reg
}

// serveAPI serves the node's services over gRPC and HTTP. httpAddr is where others reach HTTP.
func (in *instance) serveAPI(who *callers, svc *api.Service, sec *security, httpAddr string) {
	b := api.ConnectionBounds{Total: who.connections.Total, PerAddress: who.connections.PerAddress}
	in.ports.http, in.ports.grpc = api.Bound(in.ports.http, "http", b, svc.Opts.Registry), api.Bound(in.ports.grpc, "grpc", b, svc.Opts.Registry)
	web, rpc := in.ports.http, grpcapi.PointToHTTP(in.ports.grpc, sec.scheme()+httpAddr)
	var extra []grpc.ServerOption
	if sec.on() {
		extra = append(extra, grpc.Creds(credentials.NewTLS(sec.serverConfig("h2"))))
		web = tls.NewListener(web, sec.serverConfig("h2", "http/1.1"))
	}
	in.grpc = grpcapi.New(svc, in.others.register, extra...)
	mount := in.others.handlers()
	mount[rest.Console] = in.console
	in.http = rest.New(svc, rest.Options{Mount: mount, ForwardAuth: who.protocols.ForwardAuth, Forwarded: in.others.forwarded})
	go func() {
		if err := in.grpc.Serve(rpc); err != nil {
			in.fault <- fmt.Errorf("gRPC server: %w", err)
		}
	}()
	go func() {
		if err := in.http.Serve(web); !errors.Is(err, http.ErrServerClosed) {
			in.fault <- fmt.Errorf("HTTP server: %w", err)
		}
	}()
}

// abandon closes what startInstance opened before it failed.
func (in *instance) abandon() error {
	in.ports.close()
	if in.node == nil {
		return nil
	}
	if in.others != nil {
		in.others.close()
	}
	var err error
	if in.debug != nil {
		err = in.debug.Close()
	}
	return errors.Join(err, in.audit.Close(), in.node.Close(context.Background()))
}

// retire makes the node report that it is not ready and hand over its leaderships, while it keeps
// answering. It returns when both are done and linger is over.
func (in *instance) retire(linger time.Duration) {
	heard := time.After(linger)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	in.node.Retire(ctx)
	<-heard
}

// stopTime bounds a clean stop, which drains calls and hands over leaderships.
const stopTime = 10 * time.Second

// stop drains the servers, hands over leaderships and stops the node.
func (in *instance) stop(ctx context.Context) error {
	in.node.ReleaseClients() // before the streams end
	in.others.close()
	in.console.Close()
	drained := make(chan struct{})
	go func() {
		in.grpc.GracefulStop()
		close(drained)
	}()
	err := in.http.Shutdown(ctx)
	if in.debug != nil {
		err = errors.Join(err, in.debug.Close())
	}
	if in.redis != nil {
		err = errors.Join(err, in.redis.Shutdown(ctx))
	}
	select {
	case <-drained:
	case <-time.After(time.Second): // streams may never end
		in.grpc.Stop()
	}
	return errors.Join(err, in.node.Close(ctx), in.audit.Close())
}
