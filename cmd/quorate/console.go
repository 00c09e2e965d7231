package main

import (
	"net"
	"strconv"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/internal/console"
)

// shownSettings are a node's settings as the console shows them: what it runs with, no
// secrets, and no more of files than where they are.
func shownSettings(cfg *cluster.Config, who *callers, sec *security, ports *listeners) []console.Setting {
	onOff := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	dead := cfg.DeadAfter.String()
	if cfg.DeadAfter < 0 {
		dead = "never"
	}
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
		{Name: "raft.lease", Value: cfg.Timing.Lease.String(), About: "how long a leader leads without its majority"},
		{Name: "tls", Value: onOff(sec.on()), About: "whether connections are secured"},
		{Name: "auth", Value: onOff(who.known(sec)), About: "whether callers prove who they are"},
		{Name: "auth.oidc.issuer", Value: who.auth.OIDC.Issuer, About: "whose JWTs are taken"},
		{Name: "connections.total", Value: strconv.Itoa(who.connections.Total), About: "most connections of each API port; 0 is the usual"},
		{Name: "protocols.envoy_rls", Value: onOff(who.protocols.EnvoyRLS), About: "Envoy's rate limit service"},
		{Name: "protocols.envoy_rlqs", Value: onOff(who.protocols.EnvoyRLQS), About: "Envoy's rate limit quota service"},
		{Name: "protocols.gubernator", Value: onOff(who.protocols.Gubernator), About: "gubernator's API"},
		{Name: "protocols.forward_auth", Value: onOff(who.protocols.ForwardAuth), About: "the HTTP check for proxies"},
	}
}

// consoleURL is where a browser on this machine finds the console.
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
	return scheme + "://" + addr + api.Console + "/"
}
