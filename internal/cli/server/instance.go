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
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/access"
	"github.com/quorate/quorate/api/front"
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
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the %s port %s is taken by another process; stop that one or choose other ports", name, addr)
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
func startInstance(cfg cluster.Config, who callers, ports listeners, sec *security, log *slog.Logger) (*instance, error) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Listener, cfg.Registry, cfg.Logger, cfg.Version = ports.peer, reg, log, build.Version
	cfg.AuditLog = filepath.Join(cfg.Dir, AuditFile)
	node, err := cluster.Start(cfg)
	if err != nil {
		ports.close()
		return nil, err
	}
	others := &protocols{Protocols: who.protocols, node: node, meter: front.NewMeter(reg), reg: reg, log: log}
	opts := api.Options{
		Series: cfg.Series, Tracer: cfg.Tracer, ParseLimits: config.ParseLimits, FormatLimits: config.FormatLimits, Lint: LintLimits, Registry: reg, Logger: log, Version: build.Version,
		Register: others.register, Fronts: others.mount, ForwardAuth: others.ForwardAuth, Forwarded: others.forwarded,
	}
	opts.Self, opts.Hosts = string(cfg.Self), append([]string{}, who.hosts...)
	who.warnOpen(&ports, sec, log)
	in := &instance{node: node, others: others, fault: make(chan error, 4)}
	err = others.openEnvoy()
	if err == nil {
		err = in.secure(&opts, &who, sec, cfg.Dir)
	}
	if err != nil {
		others.close()
		ports.close()
		return nil, errors.Join(err, in.audit.Close(), node.Close(context.Background()))
	}
	others.open = opts.Guard == nil
	in.console = console.New(console.Deps{
		Conn: grpcapi.NewLocal(api.New(in.node, opts)), Guard: opts.Guard, Audit: in.audit,
		Self: opts.Self, Version: opts.Version, Logger: opts.Logger, Settings: shownSettings(&cfg, &who, sec, &ports),
	})
	opts.Mount = map[string]http.Handler{rest.Console: in.console}
	b := api.ConnectionBounds{Total: who.connections.Total, PerAddress: who.connections.PerAddress}
	ports.http, ports.grpc = api.Bound(ports.http, "http", b, reg), api.Bound(ports.grpc, "grpc", b, reg)
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
	in.ports = ports
	var extra []grpc.ServerOption
	web, rpc := ports.http, ports.grpc
	rpc = grpcapi.PointToHTTP(rpc, sec.scheme()+cfg.HTTP)
	if sec.on() {
		extra = append(extra, grpc.Creds(credentials.NewTLS(sec.serverConfig("h2"))))
		web = tls.NewListener(web, sec.serverConfig("h2", "http/1.1"))
	}
	in.grpc, in.http = grpcapi.New(api.New(node, opts), extra...), rest.New(api.New(node, opts))
	if err := in.serveRedis(context.Background(), &who, others, &opts, sec); err != nil {
		ports.close()
		others.close()
		return nil, errors.Join(err, in.audit.Close(), node.Close(context.Background()))
	}
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
	return in, nil
}

// secure sets up authorization and the audit log, and serves profiles.
func (in *instance) secure(opts *api.Options, who *callers, sec *security, dir string) (err error) {
	if opts.Guard, err = who.guard(in.node.Security, sec, opts.Logger); err != nil {
		return err
	}
	if opts.Guard == nil && who.access.Grants != nil {
		opts.Grants = access.List(who.access.Grants)
	}
	if in.audit, err = openAudit(dir, opts.Registry, opts.Logger); err != nil {
		return err
	}
	opts.Audit = in.audit
	return in.serveDebug(context.Background(), who, *opts, sec)
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
