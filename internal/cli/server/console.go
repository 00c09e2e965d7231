package server

import (
	"net"
	"strconv"
	"time"

	"github.com/quorate/quorate/api/rest"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/internal/console"
)

// shownSettings returns the node's settings for the console: no secrets, and of files only their
// paths.
func shownSettings(cfg *cluster.Config, who *callers, sec *security, ports *listeners) []console.Setting {
	number := func(n int) string { return given(n != 0, strconv.Itoa(n)) }
	lasting := func(d time.Duration) string { return given(d != 0, d.String()) }
	dead := lasting(cfg.DeadAfter)
	if cfg.DeadAfter < 0 {
		dead = "never"
	}
	tls := "off"
	if sec.on() {
		tls = "auto"
	}
	_, ownSeries := cfg.Series.Len()
	return []console.Setting{
		{Name: "cluster", Value: cfg.Cluster, About: "the name that all nodes share"},
		{Name: "node", Value: string(cfg.Self), About: "this node"},
		{Name: "zone", Value: cfg.Zone, About: "where it stands; replicas are spread over zones"},
		{Name: "data", Value: cfg.Dir, About: "directory of what endures"},
		{Name: "listen.http", Value: ports.http.Addr().String(), About: "HTTP, and this console"},
		{Name: "listen.grpc", Value: ports.grpc.Addr().String(), About: "gRPC"},
		{Name: "listen.peer", Value: ports.peer.Addr().String(), About: "other nodes"},
		{Name: "listen.debug", Value: who.debug, About: "profiles"},
		{Name: "listen.redis", Value: who.redis, About: "the Redis protocol"},
		{Name: "ranges", Value: strconv.Itoa(cfg.Ranges), About: "key ranges, fixed when the cluster was made"},
		{Name: "replicas", Value: strconv.Itoa(cfg.Replicas), About: "nodes that keep each range"},
		{Name: "sync", Value: cfg.Sync.String(), About: "how often nodes report"},
		{Name: "max_keys", Value: strconv.Itoa(cfg.MaxKeys), About: "keys that a node counts at a time"},
		{Name: "idle", Value: cfg.Idle.String(), About: "how long an unused key is kept"},
		{Name: "dead_after", Value: dead, About: "silence after which a node's replicas go to others"},
		{Name: "raft.heartbeat", Value: cfg.Timing.Heartbeat.String(), About: "silence after which a follower stands for election"},
		{Name: "raft.election", Value: cfg.Timing.Election.String(), About: "how long a candidate waits for votes"},
		{Name: "raft.lease", Value: cfg.Timing.Lease.String(), About: "how long a leader leads without its majority"},
		{Name: "raft.balance_after", Value: lasting(cfg.BalanceAfter), About: "how long a node must have been connected before it is given ranges to lead"},
		{Name: "raft.slow_disk", Value: lasting(cfg.SlowDisk), About: "how slow a log may be until others lead"},
		{Name: "history.keep", Value: onOff(!cfg.History.Off), About: "whether the history of limits is kept"},
		{Name: "history.minutes", Value: lasting(cfg.History.Minutes), About: "how long points of a minute are kept"},
		{Name: "history.hours", Value: lasting(cfg.History.Hours), About: "how long points of an hour are kept"},
		{Name: "history.max_mib", Value: number(int(cfg.History.MaxBytes >> 20)), About: "most of this node's files of it, MiB"},
		{Name: "metrics.limits", Value: number(ownSeries), About: "limits that have metrics of their own"},
		{Name: "metrics.top_keys", Value: strconv.Itoa(cfg.TopKeys), About: "busiest keys that metrics name"},
		{Name: "tls.mode", Value: tls, About: "whether connections are secured"},
		{Name: "auth.mode", Value: onOff(who.known(sec)), About: "whether callers prove who they are"},
		{Name: "auth.oidc.issuer", Value: who.auth.OIDC.Issuer, About: "whose JWTs are taken"},
		{Name: "connections.total", Value: number(who.connections.Total), About: "most connections of each API port"},
		{Name: "connections.per_address", Value: number(who.connections.PerAddress), About: "most of one client address among them"},
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

// given returns the text of a setting, or an empty one if the setting has its default, which only
// happens in quorate dev.
func given(is bool, text string) string {
	if is {
		return text
	}
	return "default"
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
