package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/pki"
)

const mistakesLimits = `version: 1
namespaces:
  api:
    limits:
      per_tenant: {rate: 100/s, burst: 200}
      builds: {rate: 10/d, ceiling: hard}
`

// part is a chapter of the document.
type part struct {
	title string
	all   []mistake
}

// settings returns a settings file of a node n2 that belongs to no cluster.
func settings(more string) map[string]string {
	return map[string]string{"node.yaml": "node: n2\nnodes: [{id: n2, peer: \"127.0.0.1:7423\"}]\ntls: {mode: off}\n" + more}
}

func limits(more string) map[string]string {
	return map[string]string{"limits.yaml": "version: 1\nnamespaces:\n  api:\n    limits:\n      " + more + "\n"}
}

const (
	serveFile = "quorate serve --config node.yaml --http 127.0.0.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2"
	join      = "quorate serve --data n2 --node n2 --join 127.0.0.1:$GRPC1 --http 127.0.0.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2 --token-file "
	validate  = "quorate limits validate limits.yaml"
)

var mistakes = []part{
	{"Commands", []mistake{
		{title: "An unknown command", line: "quorate stats", code: 2, names: []string{"stats", "status"}},
		{title: "An unknown flag", line: "quorate init --rangse 8", code: 2, names: []string{"--rangse", "--ranges"}},
		{title: "A flag with a value of the wrong type", line: "quorate init --data new --ranges many", code: 2, names: []string{"--ranges", "many", "a whole number"}},
		{title: "A missing argument", line: "quorate allow api/per_tenant", code: 2, names: []string{"KEY"}},
		{title: "An unknown output format", line: "quorate status -o xml --addr $ADDR", code: 2, names: []string{"xml", "table", "json"}},
		{title: "No node at the address", line: "quorate status --addr 127.0.0.1:1", code: 4, names: []string{"127.0.0.1:1", "--addr"}},
		{title: "An address without a port", line: "quorate status --addr localhost", code: 2, names: []string{"localhost", "host:port"}},
		{title: "The HTTP port where gRPC is meant", line: "quorate status --addr 127.0.0.1:$HTTP1", code: 4, names: []string{"$HTTP1", "gRPC", "7412"}},
		{title: "No certificate for a cluster with TLS", line: "env QUORATE_TLS_DIR= quorate status --addr $ADDR", code: 4, names: []string{"--tls-dir"}},
		{title: "A certificate of another cluster", line: "quorate status --tls-dir other/admin --addr $ADDR", code: 4, names: []string{"certificate"}},
		{title: "A directory without certificates", line: "quorate status --tls-dir n1 --addr $ADDR", code: 2, names: []string{"--tls-dir n1", "ca.crt", "client.key"}},
		{title: "A directory of certificates that does not exist", line: "quorate status --tls-dir n1/admn --addr $ADDR", code: 2, names: []string{"--tls-dir n1/admn", "no such directory", "ca.crt"}},
		{title: "The HTTP port where gRPC is meant, for checks", line: "quorate allow api/per_tenant acme --addr 127.0.0.1:$HTTP1", code: 4, names: []string{"$HTTP1", "gRPC", "7412"}},
		{title: "The HTTP port where gRPC is meant, for events", line: "quorate events --for 1s --addr 127.0.0.1:$HTTP1", code: 4, names: []string{"$HTTP1", "gRPC", "7412"}},
		{title: "The gRPC port where HTTP is meant", line: "curl -sS http://127.0.0.1:$GRPC1/v1/status", code: 0, names: []string{"gRPC", "https://127.0.0.1:$HTTP1"}},
		{
			title: "An unknown bearer token", files: map[string]string{"token": "open-sesame\n"}, line: "quorate whoami --tls-dir ca --token-file token --addr $ADDR", code: 7, names: []string{"token"},
			after: func(d *workspace) { d.must("mkdir -p ca && cp n1/admin/ca.crt ca/") },
		},
	}},
	{"Starting a node", []mistake{
		{title: "No cluster yet", line: "quorate serve", code: 1, names: []string{"quorate init", "--join"}},
		{title: "A missing settings file", line: "quorate serve --config nodes.yaml", code: 2, names: []string{"nodes.yaml"}},
		{title: "A tab in YAML", files: map[string]string{"node.yaml": "listen:\n\thttp: :7411\n"}, line: "quorate serve --config node.yaml", code: 2, names: []string{"node.yaml:2", "tab", "spaces"}},
		{title: "An unknown setting", files: settings("rangs: 8\n"), line: serveFile, code: 2, names: []string{"rangs", "ranges"}},
		{title: "A setting out of range", files: settings("ranges: 1000\n"), line: serveFile, code: 2, names: []string{"ranges", "1000", "256"}},
		{title: "A duration without a unit", files: settings("sync: 100\n"), line: serveFile, code: 2, names: []string{"sync", "100"}},
		{title: "Two invalid settings", files: settings("replicas: 2\nidle: 10\n"), line: serveFile, code: 2, names: []string{"replicas", "idle"}},
		{title: "An unknown environment variable", files: settings(""), line: "env QUORATE_RANGE=8 " + serveFile, code: 2, names: []string{"QUORATE_RANGE"}},
		{title: "A list of nodes without this one", files: map[string]string{"node.yaml": "node: n4\ntls: {mode: off}\nnodes: [{id: n1, peer: \"10.0.0.1:7413\"}, {id: n2, peer: \"10.0.0.2:7413\"}]\n"}, line: serveFile, code: 2, names: []string{"n4", "nodes"}},
		{title: "A port in use", files: settings(""), line: "quorate serve --config node.yaml --http 127.0.0.1:$HTTP1 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2", code: 1, names: []string{"$HTTP1", "taken"}},
		{title: "An address of another machine", files: settings(""), line: "quorate serve --config node.yaml --http 192.0.2.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2", code: 1, names: []string{"192.0.2.1"}},
		{title: "A data directory that is a file", files: map[string]string{"data2": "x\n"}, line: "quorate init --data data2", code: 1, names: []string{"data2"}},
		{title: "Two processes with one data directory", line: "quorate serve --data n1 --http 127.0.0.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2", code: 1, names: []string{"n1"}},
		{title: "A data directory in use", line: "quorate init --data n1", code: 1, names: []string{"n1"}},
		{title: "A data directory of another node", files: map[string]string{"node.yaml": "cluster: prod\nnode: n7\nnodes: [{id: n7, peer: \"127.0.0.1:7423\"}]\ndata: other\n"}, line: serveFile, code: 1, names: []string{"n1", "staging", "prod"}},
		{title: "A data directory without a node", line: "quorate serve --data n9", code: 2, names: []string{"n9", "quorate init"}},
		{title: "A name with a space", line: "quorate init --data new --node 'node 1'", code: 2, names: []string{"node 1"}},
		{title: "An expired certificate", line: "quorate serve --config late.yaml --http 127.0.0.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2", code: runsOn, names: []string{"expired"}, after: expired},
	}},
	{"Joining", []mistake{
		{title: "A missing token file", line: join + "join.token", code: 1, names: []string{"join.token"}},
		{title: "A malformed token", files: map[string]string{"join.token": "open sesame\n"}, line: join + "join.token", code: 1, names: []string{"token_file"}},
		{title: "A token with a typing error", line: join + "wrong.token", code: 1, names: []string{"secret is wrong"}, after: func(d *workspace) {
			d.must("quorate join-token create -o token --addr $ADDR > good.token")
			b, err := os.ReadFile(filepath.Join(d.dir, "good.token"))
			if err != nil {
				d.t.Fatal(err)
			}
			write(d.t, filepath.Join(d.dir, "wrong.token"), wrongSecret(strings.TrimSpace(string(b)))+"\n")
		}},
		{title: "An expired token", line: join + "old.token", code: 1, names: []string{"expired"}, after: func(d *workspace) {
			d.must("quorate join-token create --ttl 1s -o token --addr $ADDR > old.token")
			time.Sleep(1100 * time.Millisecond) // until the token has expired
		}},
		{title: "A name in use", line: strings.Replace(join, "--node n2", "--node n1", 1) + "good.token", code: 1, names: []string{"n1"}},
		{title: "An address that others cannot reach", line: "quorate serve --data n3 --node n3 --host 192.0.2.1 --join 127.0.0.1:$GRPC1 --http 127.0.0.1:$HTTP2 --grpc 127.0.0.1:$GRPC2 --peer 127.0.0.1:$PEER2 --token-file good.token", code: 1, names: []string{"192.0.2.1"}},
		{title: "No member to join", line: strings.Replace(join, "$GRPC1", "$GRPC3", 1) + "good.token", code: runsOn, names: []string{"retrying"}},
	}},
	{"Limits", []mistake{
		{title: "An unknown field", files: limits("per_tenant: {rate: 100/s, brust: 200}"), line: validate, code: 2, names: []string{"brust", "burst"}},
		{title: "A rate without a unit of time", files: limits("per_tenant: {rate: 100}"), line: validate, code: 2, names: []string{"rate", "100"}},
		{title: "An unknown unit", files: limits("per_tenant: {rate: 100/fortnight}"), line: validate, code: 2, names: []string{"fortnight"}},
		{title: "A rate of zero", files: limits("per_tenant: {rate: 0/s}"), line: validate, code: 2, names: []string{"rate"}},
		{title: "A negative burst", files: limits("per_tenant: {rate: 100/s, burst: -1}"), line: validate, code: 2, names: []string{"burst", "-1"}},
		{title: "An unknown algorithm", files: limits("per_tenant: {rate: 100/s, algorithm: leaky}"), line: validate, code: 2, names: []string{"leaky"}},
		{title: "A name with a space", files: limits("'per tenant': {rate: 100/s}"), line: validate, code: 2, names: []string{"per tenant"}},
		{title: "A duplicate limit", files: limits("per_tenant: {rate: 100/s}\n      per_tenant: {rate: 10/s}"), line: validate, code: 2, names: []string{"per_tenant"}},
		{title: "Not a limit file", files: map[string]string{"limits.yaml": "- rate: 100/s\n"}, line: validate, code: 2, names: []string{"limits.yaml"}},
		{title: "A missing file", line: "quorate limits apply limit.yaml --addr $ADDR", code: 2, names: []string{"limit.yaml"}},
		{title: "A conflicting change", files: limits("per_tenant: {rate: 10/s}"), line: "quorate limits apply limits.yaml --expected-version 7 --addr $ADDR", code: 3, names: []string{"7", "1"}},
	}},
	{"Checks", []mistake{
		{title: "An unknown limit", line: "quorate allow api/per_tennant acme --addr $ADDR", code: 5, names: []string{"per_tennant"}},
		{title: "A limit without its namespace", line: "quorate allow per_tenant acme --addr $ADDR", code: 2, names: []string{"per_tenant", "namespace"}},
		{title: "More tokens than the burst", line: "quorate allow api/per_tenant acme --cost 500 --addr $ADDR", code: 1, names: []string{"never passes", "burst 200"}},
		{title: "Less than one token", line: "quorate allow api/per_tenant acme --cost -1 --addr $ADDR", code: 2, names: []string{"cost", "-1"}},
		{title: "A key that is too long", line: "quorate allow api/per_tenant $(printf %01100d 7) --addr $ADDR", code: 2, names: []string{"key", "1024"}},
	}},
	{"From Go", []mistake{
		{title: "A node address without a port", line: "worker -nodes localhost 10", code: 1, names: []string{"localhost", "host:port", "7412"}, after: buildWorker},
		{title: "The HTTP port of a node", line: "worker -tls-dir n1/admin -nodes 127.0.0.1:$HTTP1 10", code: runsOn, names: []string{"no node answers", "gRPC port"}},
		{title: "No node at that address", line: "worker -tls-dir n1/admin -nodes 127.0.0.1:$GRPC2 10", code: runsOn, names: []string{"no node answers", "$GRPC2", "refused"}},
		{title: "No certificate for nodes that require one", line: "worker -nodes 127.0.0.1:$GRPC1 10", code: runsOn, names: []string{"no node answers", "WithTLSDir"}},
		{title: "An unknown limit in a service", line: "worker -tls-dir n1/admin -nodes 127.0.0.1:$GRPC1 10", code: 1, names: []string{"unknown limit", "work/mails", "known: api"}},
	}},
	{"Operating", []mistake{
		{title: "An unknown node", line: "quorate cluster drain n5 --addr $ADDR", code: 5, names: []string{"n5"}},
		{title: "An unknown range", line: "quorate cluster transfer --range 99 --addr $ADDR", code: 5, names: []string{"99", "known: 0 to"}},
		{title: "An unknown role", line: "quorate roles bind user:ann cheker --addr $ADDR", code: 5, names: []string{"cheker", "did you mean \"checker\""}},
		{title: "An unknown namespace", line: "quorate keys top apl --addr $ADDR", code: 5, names: []string{"apl"}},
		{title: "A report on an unknown namespace", line: "quorate plan report apl --addr $ADDR", code: 5, names: []string{"apl"}},
		{title: "Removing the last node", line: "quorate cluster leave n1 --addr $ADDR", code: 1, names: []string{"n1"}},
		{title: "Removing a live node", line: "quorate cluster remove n1 --yes --addr $ADDR", code: 1, names: []string{"n1"}},
		{title: "A damaged backup", line: "quorate restore broken.quorate --data again", code: 1, names: []string{"broken.quorate"}, after: func(d *workspace) {
			d.must("quorate backup --out whole.quorate --addr $ADDR")
			b, err := os.ReadFile(filepath.Join(d.dir, "whole.quorate"))
			if err != nil {
				d.t.Fatal(err)
			}
			b[len(b)/2] ^= 1
			write(d.t, filepath.Join(d.dir, "broken.quorate"), string(b))
		}},
		{title: "A restore into a directory in use", line: "quorate restore whole.quorate --data n1", code: 1, names: []string{"n1"}},
		{title: "A full disk", line: "quorate backup --out /dev/full --addr $ADDR", code: 1, names: []string{"/dev/full"}},
	}},
}

// buildWorker builds the program of examples/worker, a service that links the client.
func buildWorker(d *workspace) {
	d.must("mkdir -p bin")
	out, err := exec.CommandContext(d.t.Context(), "go", "build", "-o", filepath.Join(d.dir, "bin"), "../examples/worker").CombinedOutput()
	if err != nil {
		d.t.Fatalf("build: %v\n%s", err, out)
	}
	d.env = append(d.env, "PATH="+filepath.Join(d.dir, "bin")+":"+filepath.Dir(binary)+":"+os.Getenv("PATH"))
}

// expired writes settings with a certificate that expired yesterday.
func expired(d *workspace) {
	then := time.Now().Add(-48 * time.Hour)
	ca, err := pki.NewCA("prod", then, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	pair, err := ca.Issue(pki.Identity{Cluster: "prod", Kind: pki.Node, Name: "n2"}, []string{"127.0.0.1"}, then, 24*time.Hour)
	if err != nil {
		d.t.Fatal(err)
	}
	own, err := ca.Pair()
	if err != nil {
		d.t.Fatal(err)
	}
	for name, text := range map[string][]byte{"late/ca.crt": own.CertPEM, "late/node.crt": pair.CertPEM, "late/node.key": []byte(pair.KeyPEM)} {
		if err := os.MkdirAll(filepath.Join(d.dir, "late"), 0o700); err != nil {
			d.t.Fatal(err)
		}
		write(d.t, filepath.Join(d.dir, name), string(text))
	}
	write(d.t, filepath.Join(d.dir, "late.yaml"), "cluster: prod\nnode: n2\nnodes: [{id: n2, peer: \"127.0.0.1:7423\"}]\ntls: {ca: late/ca.crt, cert: late/node.crt, key: late/node.key}\n")
}
