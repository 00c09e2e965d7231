package config

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefault(t *testing.T) {
	n, err := loadNode("", nil)
	if err != nil || !reflect.DeepEqual(n, Default()) {
		t.Errorf("no file and no variables: %+v, %v", n, err)
	}
	if n.Data != "data/n1" || !slices.Equal(n.Nodes, []Peer{{"n1", "127.0.0.1:7413"}}) {
		t.Errorf("a cluster of one: %+v", n)
	}
	// Every setting accepts its own default.
	environ := []string{
		"QUORATE_CLUSTER=quorate", "QUORATE_NODE=n1", "QUORATE_DATA=data/n1", "QUORATE_NODES=n1=127.0.0.1:7413",
		"QUORATE_LISTEN_HTTP=127.0.0.1:7411", "QUORATE_LISTEN_GRPC=127.0.0.1:7412", "QUORATE_LISTEN_PEER=127.0.0.1:7413",
		"QUORATE_RANGES=64", "QUORATE_REPLICAS=3", "QUORATE_SYNC=100ms", "QUORATE_MAX_KEYS=1000000", "QUORATE_IDLE=10m",
		"QUORATE_LOG_LEVEL=info", "QUORATE_LOG_FORMAT=text",
		"QUORATE_RAFT_HEARTBEAT=1s", "QUORATE_RAFT_ELECTION=1s", "QUORATE_RAFT_LEASE=500ms", "QUORATE_RAFT_BALANCE_AFTER=10s", "QUORATE_RAFT_SLOW_DISK=500ms",
		"QUORATE_DEAD_AFTER=5m", "QUORATE_TLS_MODE=auto",
		"QUORATE_CONNECTIONS_TOTAL=20000", "QUORATE_CONNECTIONS_PER_ADDRESS=4096", "QUORATE_METRICS_LIMITS=1000", "QUORATE_METRICS_TOP_KEYS=0",
		"QUORATE_HISTORY_KEEP=on", "QUORATE_HISTORY_MINUTES=720h", "QUORATE_HISTORY_HOURS=17520h", "QUORATE_HISTORY_MAX_MIB=4096", "QUORATE_AUTH_MODE=auto",
		"QUORATE_PROTOCOLS_ENVOY_RLS=on", "QUORATE_PROTOCOLS_ENVOY_RLS_HEADERS=ietf", "QUORATE_PROTOCOLS_ENVOY_RLS_OVERRIDES=off", "QUORATE_PROTOCOLS_ENVOY_RLQS=on", "QUORATE_PROTOCOLS_GUBERNATOR=off", "QUORATE_PROTOCOLS_FORWARD_AUTH=on",
	}
	n, err = loadNode("", environ)
	if err != nil || !reflect.DeepEqual(n, Default()) {
		t.Errorf("the defaults as variables: %+v, %v", n, err)
	}
	without := []string{ // settings whose default is empty
		"QUORATE_LIMITS", "QUORATE_JOIN", "QUORATE_LINGER", "QUORATE_TOKEN_FILE", "QUORATE_BOOTSTRAP", "QUORATE_ZONE", "QUORATE_ADVERTISE",
		"QUORATE_TLS_CA", "QUORATE_TLS_CERT", "QUORATE_TLS_KEY", "QUORATE_TLS_CA_KEY", "QUORATE_ACCESS_GRANTS",
		"QUORATE_ACCESS_BINDINGS", "QUORATE_LISTEN_DEBUG",
		"QUORATE_LISTEN_REDIS", "QUORATE_LISTEN_HOSTS", "QUORATE_PROTOCOLS_ENVOY_RLS_CONFIG",
		"QUORATE_AUTH_OIDC_ISSUER", "QUORATE_AUTH_OIDC_AUDIENCE", "QUORATE_AUTH_OIDC_IDENTITY_CLAIM", "QUORATE_AUTH_OIDC_GROUPS_CLAIM",
	}
	tested := slices.Clone(without)
	for _, pair := range environ {
		variable, _, _ := strings.Cut(pair, "=")
		tested = append(tested, variable)
	}
	slices.Sort(tested)
	if got := slices.Sorted(slices.Values(Variables())); !slices.Equal(got, tested) {
		t.Errorf("the variables are\n%v\nand tested are\n%v", got, tested)
	}
}

// TestEverySetting checks the table of settings against the fields of Node: each field can be set,
// and no two settings set the same field.
func TestEverySetting(t *testing.T) {
	values := map[string]string{
		"nodes": "n7=a:1", "ranges": "7", "replicas": "5", "max_keys": "7", "log.level": "debug", "log.format": "json",
		"listen.http": ":7", "listen.grpc": ":7", "listen.peer": ":7",
		"join": "a:1,b:2", "advertise": "n7.example", "tls.mode": "off",
		"access.grants":       `[{identity: "*", realm: r, permissions: [quota.accounts.read]}]`,
		"access.bindings":     `[{identity: "*", role: checker}]`,
		"protocols.envoy_rls": "on", "protocols.envoy_rlqs": "on", "protocols.gubernator": "on", "protocols.forward_auth": "on",
		"protocols.envoy_rls_headers": "both", "protocols.envoy_rls_overrides": "on",
		"listen.redis": ":7", "listen.hosts": "a.example,b.example",
		"listen.debug": ":7", "connections.total": "7", "connections.per_address": "8", "metrics.limits": "9", "metrics.top_keys": "10",
		"history.keep": "on", "history.minutes": "25h", "history.hours": "26h", "history.max_mib": "17", "auth.mode": "on",
	}
	var set Node
	for _, one := range set.settings() {
		before := set
		value, ok := values[one.path]
		if !ok {
			value = "7s"
		}
		if err := one.set(value); err != nil {
			t.Errorf("%s: %v", one.path, err)
		}
		if reflect.DeepEqual(before, set) {
			t.Errorf("%s sets nothing that was not set", one.path)
		}
	}
	eachField(reflect.ValueOf(set), "Node", func(path string, v reflect.Value) {
		if v.IsZero() {
			t.Errorf("%s has no setting", path)
		}
	})
}

func eachField(v reflect.Value, path string, visit func(string, reflect.Value)) {
	if v.Kind() != reflect.Struct {
		visit(path, v)
		return
	}
	for i := range v.NumField() {
		eachField(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNoGrantsIsNotNone checks that a missing list grants everything to everybody, and an empty
// list nothing to anybody.
func TestNoGrantsIsNotNone(t *testing.T) {
	for text, want := range map[string]bool{"node: n1\n": true, "node: n1\naccess: {grants: []}\n": false} {
		n, err := ParseNode("node.yaml", []byte(text))
		if err != nil || (n.Access.Grants == nil) != want {
			t.Errorf("%q: grants %#v, %v", text, n.Access.Grants, err)
		}
	}
}

// TestDeadAfter checks that 0 means never, and is not the default.
func TestDeadAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"node: n1\n": 5 * time.Minute, "dead_after: 0\n": 0, "dead_after: 0s\n": 0, "dead_after: 1s\n": time.Second, "dead_after: 720h\n": 720 * time.Hour,
	} {
		n, err := ParseNode("node.yaml", []byte(text))
		if err != nil || n.DeadAfter != want {
			t.Errorf("%q: %v, %v; want %v", text, n.DeadAfter, err, want)
		}
	}
}

// TestPaths checks that relative paths start from the place of the settings.
func TestPaths(t *testing.T) {
	n, err := ParseNode("etc/node.yaml", []byte("data: d\nlimits: l\ntoken_file: t\ntls: {ca: a, cert: pki/c, key: /k}\n"))
	got := []string{n.Data, n.Limits, n.TokenFile, n.TLS.CA, n.TLS.Cert, n.TLS.Key, n.TLS.CAKey}
	for i := range got {
		got[i] = filepath.ToSlash(got[i])
	}
	if want := []string{"etc/d", "etc/l", "etc/t", "etc/a", "etc/pki/c", "/k", ""}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	n, err = ParseNode("etc/node.yaml", []byte("tls: {ca: a, ca_key: k}\n"))
	if err != nil || filepath.ToSlash(n.TLS.CAKey) != "etc/k" {
		t.Errorf("%+v, %v", n.TLS, err)
	}
}

func TestAddresses(t *testing.T) {
	n := Default()
	if got := n.Addresses(); got != n.Listen {
		t.Errorf("nothing is advertised: %+v; want %+v", got, n.Listen)
	}
	n.Listen = Listen{HTTP: ":7411", GRPC: "0.0.0.0:7412", Peer: "[::]:7413"}
	for host, want := range map[string]Listen{
		"n1.example":  {"n1.example:7411", "n1.example:7412", "n1.example:7413"},
		"2001:db8::1": {"[2001:db8::1]:7411", "[2001:db8::1]:7412", "[2001:db8::1]:7413"},
	} {
		n.Advertise = host
		if got := n.Addresses(); got != want {
			t.Errorf("%s: %+v; want %+v", host, got, want)
		}
	}
}

func TestLayers(t *testing.T) {
	file := writeFile(t, "node: n2\ndata: d\nlimits: /etc/l.yaml\nsync: 1s\nlog: {level: warn}\nnodes: [{id: n1, peer: 'a:1'}, {id: n2, peer: 'b:2'}]\n")
	n, err := loadNode(file, []string{
		"HOME=/", "QUORATE_SYNC=2s", "QUORATE_LOG_FORMAT=json", "QUORATE_DATA=here", "QUORATE_NODE=n1",
		"QUORATE_ADDR=x", "QUORATE_TOKEN=y", "QUORATE_USER=z", "QUORATE_TLS_DIR=d", "QUORATE_SERVICE_HOST=10.0.0.1", "QUORATE_PORT=tcp://10.0.0.1:1",
		"QUORATE_PORT_7411_TCP_ADDR=10.0.0.1", "QUORATE_HEADLESS_SERVICE_PORT_GRPC=1", "quorate_x=1",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Node, want.Data, want.Limits, want.Sync = "n1", "here", "/etc/l.yaml", 2*time.Second
	want.Log = Log{Level: slog.LevelWarn, Format: "json"}
	want.Nodes, want.Listen.Peer = []Peer{{"n1", "a:1"}, {"n2", "b:2"}}, "a:1"
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got  %+v\nwant %+v", n, want)
	}
	n, err = loadNode(file, nil)
	if err != nil || n.Data != filepath.Join(filepath.Dir(file), "d") {
		t.Errorf("data starts at the file's directory: %q, %v", n.Data, err)
	}
	t.Setenv("QUORATE_RANGES", "3")
	if n, err = LoadNode(file); err != nil || n.Ranges != 3 {
		t.Errorf("the process's environment: %+v, %v", n, err)
	}
}

func TestEnvironFaults(t *testing.T) {
	for name, c := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"value":   {"", []string{"QUORATE_RANGES=0"}, `environment: QUORATE_RANGES: is "0"; must be a whole number from 1 to 256`},
		"empty":   {"", []string{"QUORATE_LIMITS="}, `environment: QUORATE_LIMITS: is ""; must be a path`},
		"slip":    {"", []string{"QUORATE_LISTEN_HTPP=secret"}, `environment: QUORATE_LISTEN_HTPP: unknown variable; did you mean QUORATE_LISTEN_HTTP?`},
		"port":    {"", []string{"QUORATE_LISTEN_PORT=7411"}, `environment: QUORATE_LISTEN_PORT: unknown variable; must be one of ` + strings.Join(Variables(), ", ")},
		"strange": {"", []string{"QUORATE_\x1b[31m=1"}, `environment: "QUORATE_\x1b[31m": unknown variable; must be one of ` + strings.Join(Variables(), ", ")},
		"nodes":   {"", []string{"QUORATE_NODES=n1=a:1,n2"}, `environment: QUORATE_NODES: is "n1=a:1,n2"; must be id=host:port of every node, such as n1=10.0.0.1:7413,n2=10.0.0.2:7413`},
		"peer":    {"", []string{"QUORATE_NODES=n1=a:1,n2=b"}, `environment: QUORATE_NODES: peer of nodes[1] is "b"; must be host:port that the other nodes can reach, such as 10.0.0.1:7413`},
		"twice":   {"", []string{"QUORATE_NODES=n1=a:1,n1=b:1"}, `environment: QUORATE_NODES: nodes[1] has the id "n1" of nodes[0]; must be unique`},
		"grants":  {"", []string{"QUORATE_ACCESS_GRANTS=[{identity: a, permissions: [quota.accounts.reed]}]"}, `environment: QUORATE_ACCESS_GRANTS: grants[0].permissions[0]: is "quota.accounts.reed"; must be quota.accounts.read, quota.accounts.list, quota.accounts.write, quota.policies.read, quota.policies.write, quota.policies.overrideVersion or quota.policies.purge (did you mean quota.accounts.read?); grants[0].realm: is missing; write realm: "project:infra"`},
		"join":    {"", []string{"QUORATE_JOIN=a:1, b"}, `environment: QUORATE_JOIN: join[1] is "b"; must be host:port of a member's gRPC port, such as 10.0.0.1:7412`},
		"joins":   {"", []string{"QUORATE_JOIN=a:1" + strings.Repeat(",a:1", 32)}, `environment: QUORATE_JOIN: has 33 addresses; must be 1 to 32`},
		"dead":    {"", []string{"QUORATE_DEAD_AFTER=never"}, `environment: QUORATE_DEAD_AFTER: is "never"; must be a duration with its unit, from 1s to 720h, or 0 for never`},
		"off":     {"node: n1\ntls: {ca: ca.pem}\n", []string{"QUORATE_TLS_MODE=off"}, `environment: QUORATE_TLS_MODE: tls.mode is off, but tls.ca is given; must be auto, or without files`},
		"key":     {"", []string{"QUORATE_TLS_CERT=c", "QUORATE_TLS_CA=a"}, `environment: QUORATE_TLS_CERT: tls.key is missing; must be given with tls.cert`},
		"which":   {"", []string{"QUORATE_NODES=n1=a:1,n2=b:1"}, `environment: QUORATE_NODES: node is missing; say which of the nodes this one is: n1, n2`},
		"both": {"node: n1\nsync: 5s\nranges: 300\n", []string{"QUORATE_IDLE=3s", "QUORATE_REPLICAS=2"}, "$FILE:3:9: ranges: is \"300\"; must be a whole number from 1 to 256\n" +
			"    3 | ranges: 300\n      |         ^\n" +
			"environment: QUORATE_REPLICAS: is \"2\"; must be 1, 3 or 5\n" +
			"environment: QUORATE_IDLE: idle 3s is not longer than sync 5s; must be longer"},
	} {
		file := ""
		if c.file != "" {
			file = writeFile(t, c.file)
		}
		_, err := loadNode(file, c.environ)
		want := strings.ReplaceAll(c.want, "$FILE", file)
		var fe *FileError
		if !errors.As(err, &fe) || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", name, err, want)
		}
	}
}
