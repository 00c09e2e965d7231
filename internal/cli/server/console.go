package server

import (
	"cmp"
	"net"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/rest"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/console"
	"github.com/quorate/quorate/internal/phrase"
)

// shownSettings returns the node's settings for the console: no secrets, and of files only their
// paths.
func shownSettings(cfg *cluster.Config, who *callers, sec *security, ports *listeners) []console.Setting {
	usual := config.Default() // what quorate dev leaves to the packages
	tls := "off"
	if sec.on() {
		tls = "auto"
	}
	_, ownSeries := cfg.Series.Len()
	return []console.Setting{
		{Name: "cluster", Value: cfg.Cluster, About: "name of the cluster"},
		{Name: "node", Value: string(cfg.Self), About: "name of this node"},
		{Name: "zone", Value: cfg.Zone, About: "failure zone; replicas are spread over zones"},
		{Name: "data", Value: cfg.Dir, About: "directory for persistent state"},
		{Name: "listen.http", Value: ports.http.Addr().String(), About: "HTTP, and this console"},
		{Name: "listen.grpc", Value: ports.grpc.Addr().String(), About: "gRPC"},
		{Name: "listen.peer", Value: ports.peer.Addr().String(), About: "other nodes"},
		{Name: "listen.debug", Value: who.debug, About: "profiles"},
		{Name: "listen.redis", Value: who.redis, About: "the Redis protocol"},
		{Name: "ranges", Value: strconv.Itoa(cfg.Ranges), About: "key ranges, fixed at creation of the cluster"},
		{Name: "replicas", Value: strconv.Itoa(cfg.Replicas), About: "nodes that keep each range"},
		{Name: "sync", Value: span(cfg.Sync), About: "how often nodes report"},
		{Name: "max_keys", Value: strconv.Itoa(cfg.MaxKeys), About: "keys that a node counts at a time"},
		{Name: "idle", Value: span(cfg.Idle), About: "how long an unused key is kept"},
		{Name: "dead_after", Value: span(cmp.Or(cfg.DeadAfter, usual.DeadAfter)), About: "silence after which a node's replicas move to other nodes"},
		{Name: "raft.heartbeat", Value: span(cfg.Timing.Heartbeat), About: "silence after which a follower starts an election"},
		{Name: "raft.election", Value: span(cfg.Timing.Election), About: "how long a candidate waits for votes"},
		{Name: "raft.lease", Value: span(cfg.Timing.Lease), About: "how long a leader leads without its majority"},
		{Name: "raft.balance_after", Value: span(cmp.Or(cfg.BalanceAfter, usual.Raft.BalanceAfter)), About: "how long a node must be connected before it gets ranges to lead"},
		{Name: "raft.slow_disk", Value: span(cmp.Or(cfg.SlowDisk, usual.Raft.SlowDisk)), About: "how slow the log may be before the node hands over its leaderships"},
		{Name: "history.keep", Value: onOff(!cfg.History.Off), About: "whether the history of limits is kept"},
		{Name: "history.minutes", Value: span(cmp.Or(cfg.History.Minutes, usual.History.Minutes)), About: "how long points of a minute are kept"},
		{Name: "history.hours", Value: span(cmp.Or(cfg.History.Hours, usual.History.Hours)), About: "how long points of an hour are kept"},
		{Name: "history.max_mib", Value: strconv.Itoa(cmp.Or(int(cfg.History.MaxBytes>>20), usual.History.MaxMiB)), About: "maximum size of this node's history files, MiB"},
		{Name: "metrics.limits", Value: strconv.Itoa(cmp.Or(ownSeries, usual.Metrics.Limits)), About: "limits with separate metrics"},
		{Name: "metrics.top_keys", Value: strconv.Itoa(cfg.TopKeys), About: "busiest keys with separate metrics"},
		{Name: "tls.mode", Value: tls, About: "whether connections are secured"},
		{Name: "auth.mode", Value: onOff(who.known(sec)), About: "whether callers must authenticate"},
		{Name: "auth.oidc.issuer", Value: who.auth.OIDC.Issuer, About: "issuer of accepted JWTs"},
		{Name: "connections.total", Value: bound(who.connections.Total), About: "maximum connections of each API port"},
		{Name: "connections.per_address", Value: bound(who.connections.PerAddress), About: "maximum connections of one client address"},
		{Name: "protocols.envoy_rls", Value: onOff(who.protocols.EnvoyRLS), About: "Envoy's rate limit service"},
		{Name: "protocols.envoy_rlqs", Value: onOff(who.protocols.EnvoyRLQS), About: "Envoy's rate limit quota service"},
		{Name: "protocols.gubernator", Value: onOff(who.protocols.Gubernator), About: "gubernator's API"},
		{Name: "protocols.forward_auth", Value: onOff(who.protocols.ForwardAuth), About: "the HTTP check for proxies"},
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// span returns the text of a duration, in days if it is a whole number of them from two on. Below 0
// is never.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "never"
	case d >= 2*day && d%day == 0:
		return strconv.Itoa(int(d/day)) + " days"
	}
	return phrase.Span(d)
}

// bound returns the text of a bound; 0 means no bound.
func bound(n int) string {
	if n == 0 {
		return "no bound"
	}
	return strconv.Itoa(n)
}

// consoleURL returns the URL of the console for a browser on this machine.
func consoleURL(addr string, secured bool) string {
	scheme := "http"
	if secured {
		scheme = "https"
	}
	if host, port, err := net.SplitHostPort(addr); err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
			addr = net.JoinHostPort("localhost", port)
		}
	}
	return scheme + "://" + addr + rest.Console + "/"
}
