package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/series"
)

const maxIssuer = 512 // bytes

// A setting is one value of Node: its path in the file, which also determines its variable's name,
// and its reader.
type setting struct {
	path string
	scalar
	read func(Value) bool // reads it from a file, unless it is a scalar there
}

// settings returns every setting, in the order of docs/reference/settings.md.
func (n *Node) settings() []setting {
	bindings := readList(&n.Access.Bindings, maxSettingsBindings, true, bindingExample, readBinding)
	grants := readList(&n.Access.Grants, maxGrants, true, grantExample, readGrant)
	return []setting{
		{path: "cluster", scalar: name(&n.Cluster)},
		{path: "node", scalar: name(&n.Node)},
		{path: "data", scalar: filePath(&n.Data)},
		{path: "nodes", scalar: peers(&n.Nodes), read: readList(&n.Nodes, maxNodes, false, peerExample, readPeer)},
		{path: "listen.http", scalar: listening(&n.Listen.HTTP)},
		{path: "listen.grpc", scalar: listening(&n.Listen.GRPC)},
		{path: "listen.peer", scalar: listening(&n.Listen.Peer)},
		{path: "limits", scalar: filePath(&n.Limits)},
		{path: "ranges", scalar: whole(&n.Ranges, 1, 256)},
		{path: "replicas", scalar: oneOf(&n.Replicas, strconv.Itoa, 1, 3, 5).plain()},
		{path: "sync", scalar: duration(&n.Sync, 10*time.Millisecond, 10*time.Second)},
		{path: "max_keys", scalar: whole(&n.MaxKeys, 1, 100_000_000)},
		{path: "idle", scalar: duration(&n.Idle, time.Second, 7*24*time.Hour)},
		{path: "log.level", scalar: oneOf(&n.Log.Level, levelWord, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError)},
		{path: "log.format", scalar: oneOf(&n.Log.Format, identity, "text", "json")},
		{path: "raft.heartbeat", scalar: duration(&n.Raft.Heartbeat, 20*time.Millisecond, time.Minute)},
		{path: "raft.election", scalar: duration(&n.Raft.Election, 20*time.Millisecond, time.Minute)},
		{path: "raft.lease", scalar: duration(&n.Raft.Lease, 10*time.Millisecond, time.Minute)},
		{path: "raft.balance_after", scalar: duration(&n.Raft.BalanceAfter, time.Second, time.Hour)},
		{path: "raft.slow_disk", scalar: duration(&n.Raft.SlowDisk, 10*time.Millisecond, time.Hour)},
		{path: "join", scalar: addresses(&n.Join), read: readList(&n.Join, maxJoins, false, joinExample, readAddress)},
		{path: "token_file", scalar: filePath(&n.TokenFile)},
		{path: "bootstrap", scalar: name(&n.Bootstrap)},
		{path: "zone", scalar: name(&n.Zone)},
		{path: "advertise", scalar: host(&n.Advertise)},
		{path: "dead_after", scalar: durationOrNever(&n.DeadAfter, time.Second, 30*24*time.Hour)},
		{path: "linger", scalar: duration(&n.Linger, 0, time.Minute)},
		{path: "tls.mode", scalar: oneOf(&n.TLS.Mode, identity, TLSAuto, TLSOff)},
		{path: "tls.ca", scalar: filePath(&n.TLS.CA)},
		{path: "tls.cert", scalar: filePath(&n.TLS.Cert)},
		{path: "tls.key", scalar: filePath(&n.TLS.Key)},
		{path: "tls.ca_key", scalar: filePath(&n.TLS.CAKey)},
		{path: "listen.debug", scalar: listening(&n.Debug)},
		{path: "listen.redis", scalar: listening(&n.Redis)},
		{path: "listen.hosts", scalar: hostNames(&n.Hosts)},
		{path: "protocols.envoy_rls", scalar: onOff(&n.Protocols.EnvoyRLS)},
		{path: "protocols.envoy_rls_config", scalar: filePath(&n.Protocols.EnvoyRLSConfig)},
		{path: "protocols.envoy_rls_headers", scalar: oneOf(&n.Protocols.EnvoyRLSHeaders, identity, HeadersIETF, HeadersLegacy, HeadersBoth, HeadersNone)},
		{path: "protocols.envoy_rls_overrides", scalar: onOff(&n.Protocols.EnvoyRLSOverrides)},
		{path: "protocols.envoy_rlqs", scalar: onOff(&n.Protocols.EnvoyRLQS)},
		{path: "protocols.gubernator", scalar: onOff(&n.Protocols.Gubernator)},
		{path: "protocols.forward_auth", scalar: onOff(&n.Protocols.ForwardAuth)},
		{path: "connections.total", scalar: whole(&n.Connections.Total, 1, 1_000_000)},
		{path: "connections.per_address", scalar: whole(&n.Connections.PerAddress, 1, 1_000_000)},
		{path: "metrics.limits", scalar: whole(&n.Metrics.Limits, 1, quota.MaxLimits)},
		{path: "metrics.top_keys", scalar: whole(&n.Metrics.TopKeys, 0, series.MaxTopKeys)},
		{path: "history.keep", scalar: onOff(&n.History.Keep)},
		{path: "history.minutes", scalar: duration(&n.History.Minutes, 24*time.Hour, 2*365*24*time.Hour)},
		{path: "history.hours", scalar: duration(&n.History.Hours, 24*time.Hour, 10*365*24*time.Hour)},
		{path: "history.max_mib", scalar: whole(&n.History.MaxMiB, 16, 1<<20)},
		{path: "auth.mode", scalar: oneOf(&n.Auth.Mode, identity, AuthAuto, AuthOn, AuthOff)},
		{path: "auth.oidc.issuer", scalar: bounded(&n.Auth.OIDC.Issuer, 1, maxIssuer)},
		{path: "auth.oidc.audience", scalar: bounded(&n.Auth.OIDC.Audience, 1, maxIssuer)},
		{path: "auth.oidc.identity_claim", scalar: bounded(&n.Auth.OIDC.IdentityClaim, 1, quota.MaxNameLen)},
		{path: "auth.oidc.groups_claim", scalar: bounded(&n.Auth.OIDC.GroupsClaim, 1, quota.MaxNameLen)},
		{path: "access.bindings", scalar: listAsYAML("bindings", bindingExample, bindings), read: bindings},
		{path: "access.grants", scalar: listAsYAML("grants", grantExample, grants), read: grants},
	}
}

// Set sets one setting to the value of a flag, in the form of its variable. The path must be one of
// the file, such as listen.http.
func (n *Node) Set(path, text string) error {
	all := n.settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.path == path })
	return all[i].set(text)
}

func identity(s string) string { return s }

func levelWord(l slog.Level) string { return strings.ToLower(l.String()) }

// nodeSettings collects the layers of a node's settings and their faults.
type nodeSettings struct {
	Node
	file  report
	env   report
	given map[string]origin // settings given in the file and the environment, by path
}

// An origin is the last place where a setting was set: in the file, or in a variable.
type origin struct {
	value    Value
	variable string
	bad      bool // the value was refused; faults that follow from it are not reported
}

func newSettings(source string, data []byte) *nodeSettings {
	return &nodeSettings{
		Node:  defaults(),
		file:  report{source: source, data: data},
		env:   report{source: "environment"},
		given: map[string]origin{},
	}
}

// readFile reads the file's layer.
func (s *nodeSettings) readFile() {
	s.file.documents("settings, such as node: n1", 1, func(v Value) { v.Fields("{node: n1}", s.below("")) })
}

// below returns the fields of the group with the given path, which ends with a dot; "" returns all.
func (s *nodeSettings) below(path string) []Field {
	var out []Field
	seen := map[string]bool{}
	for _, one := range s.settings() {
		rest, ok := strings.CutPrefix(one.path, path)
		if !ok {
			continue
		}
		name, first, nested := strings.Cut(rest, ".")
		switch {
		case !nested:
			out = append(out, Field{Name: name, Read: s.reader(one)})
		case !seen[name]:
			seen[name] = true
			out = append(out, Field{Name: name, Read: func(v Value) {
				v.Fields("{"+first+": "+groupExamples[path+name]+"}", s.below(path+name+"."))
			}})
		}
	}
	return out
}

// groupExamples maps each group to a value of its first field, for errors.
var groupExamples = map[string]string{
	"listen": "127.0.0.1:7411", "log": "info", "raft": "1s", "access": "[" + bindingExample + "]",
	"auth": "on", "protocols": "on", "connections": "20000", "metrics": "1000", "history": "on", "tls": "auto", "auth.oidc": "https://login.example.org",
}

// rooted reports whether a path does not start from the directory of the settings. On Windows, /data
// is rooted although it is not absolute: it lacks a drive.
func rooted(path string) bool {
	return filepath.VolumeName(path) != "" || path != "" && os.IsPathSeparator(path[0])
}

// reader returns a function that reads one setting from the file and records its origin.
func (s *nodeSettings) reader(one setting) func(Value) {
	return func(v Value) {
		var ok bool
		if one.read != nil {
			ok = one.read(v)
		} else {
			ok = v.scalar(one.scalar)
		}
		if to := one.file; ok && to != nil && !rooted(*to) {
			*to = filepath.Join(filepath.Dir(s.file.source), *to)
		}
		s.given[one.path] = origin{value: v, bad: !ok}
	}
}
