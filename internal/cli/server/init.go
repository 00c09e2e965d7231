package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/syncdir"
)

// SettingsFile is the name of a node's settings in its data directory, which init and joining
// write.
const SettingsFile = "node.yaml"

// adminDir is the directory of the first administrator's certificate.
const adminDir = "admin"

// initOptions holds the flags of init.
type initOptions struct {
	placeFlags
	cluster          string
	ranges, replicas int
	plain            bool
}

// NewInitCommand returns "quorate init".
func NewInitCommand() *cobra.Command {
	o := &initOptions{}
	cmd := &cobra.Command{
		Use:   "init --data DIR",
		Short: "Create a cluster of one node",
		Long: `Create a cluster of one node in an empty directory: its settings, its CA, the
node's certificate, and the certificate of a first administrator. It starts
nothing; the last lines of the output show the next steps.

The number of ranges cannot change later; 64 suit 3 to 16 nodes.`,
		Example: `  quorate init --data /var/lib/quorate --node n1 --host 10.0.0.1
  quorate init --data /var/lib/quorate --cluster prod --node n1 --host 10.0.0.1 --zone eu-1a --ranges 128`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout()) },
	}
	d := config.Default()
	o.placeFlags.add(cmd)
	f := cmd.Flags()
	f.StringVar(&o.cluster, "cluster", d.Cluster, "`name` of the cluster")
	f.IntVar(&o.ranges, "ranges", d.Ranges, "number of key ranges, 1 to 256; cannot change later")
	f.IntVar(&o.replicas, "replicas", d.Replicas, "replicas of each range, 1, 3 or 5; fewer while the cluster has fewer nodes")
	f.BoolVar(&o.plain, "insecure", false, "no TLS and no authentication: only for a fully trusted network")
	return cmd
}

func (o *initOptions) run(out io.Writer) error {
	s, text, err := o.prepare()
	if err != nil {
		return err
	}
	if err := emptyDir(o.data); err != nil {
		return err
	}
	if err := o.make(&s, text); err != nil {
		return err
	}
	return o.report(out, &s)
}

// prepare returns the node's settings and their text. It writes nothing.
func (o *initOptions) prepare() (s config.Node, text string, err error) {
	if o.data == "" {
		return s, "", exit.Usagef("--data is missing; choose the directory of the node's data")
	}
	at, err := filepath.Abs(o.data)
	if err != nil {
		return s, "", fmt.Errorf("data: %w", err)
	}
	o.data = at
	if o.node == "" {
		o.node = "n1"
	}
	text = o.settings(o.cluster) + fmt.Sprintf("ranges: %d\nreplicas: %d\n", o.ranges, o.replicas)
	if o.plain {
		text += "tls: {mode: off}\n"
	}
	s, err = config.ParseNode(filepath.Join(o.data, SettingsFile), []byte(text))
	if wrong, ok := errors.AsType[*config.FileError](err); ok {
		f := wrong.Faults[0]
		flag := strings.TrimPrefix(f.Path, "listen.")
		if flag == "advertise" {
			flag = "host"
		}
		err = exit.Usagef("--%s: %s", flag, f.Message)
	}
	if err == nil && !o.plain {
		if long := (pki.Identity{Cluster: s.Cluster, Kind: pki.Node, Name: string(s.Node)}).CheckNew(); long != nil {
			err = exit.Usagef("--%v", long)
		}
	}
	return s, text, err
}

// make creates the authority and the settings file.
func (o *initOptions) make(s *config.Node, text string) error {
	if !o.plain {
		if err := makeAuthority(s); err != nil {
			return err
		}
	}
	return writeNew(filepath.Join(o.data, SettingsFile), []byte(text))
}

// report prints what init created, and the next steps.
func (o *initOptions) report(out io.Writer, s *config.Node) error {
	at := s.Addresses()
	var b strings.Builder
	fmt.Fprintf(&b, "Cluster %q with its first node %q is in %s.\n\n", s.Cluster, s.Node, o.data)
	fmt.Fprintf(&b, "Start it:            quorate serve --data %s\n", o.data)
	if !o.plain {
		fmt.Fprintf(&b, "Administer it:       export QUORATE_TLS_DIR=%s\n", filepath.Join(o.data, adminDir))
	}
	fmt.Fprintf(&b, "Check it:            quorate cluster status --addr %s\n", at.GRPC)
	fmt.Fprintf(&b, "Add another node:    quorate join-token create --addr %s\n", at.GRPC)
	if !o.plain {
		fmt.Fprintf(&b, "\nThe key of the CA is in %s: anyone with this key, or with a node's data, can make certificates.\n", filepath.Join(o.data, pkiDir, caKeyFile))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// makeAuthority creates the CA, the node's certificate and the administrator's.
func makeAuthority(s *config.Node) error {
	ca, err := pki.NewCA(s.Cluster, time.Now(), 10*365*24*time.Hour)
	if err != nil {
		return err
	}
	pair, err := ca.Pair()
	if err != nil {
		return err
	}
	store, err := pki.OpenStore(filepath.Join(s.Data, pkiDir), pki.Options{Cluster: s.Cluster})
	if err != nil {
		return err
	}
	sec := &security{store: store, authority: &pair}
	if err := sec.issueOwn(s); err != nil {
		return err
	}
	if err := writeNew(filepath.Join(s.Data, pkiDir, caKeyFile), pair.KeyPEM); err != nil {
		return err
	}
	admin, err := ca.Issue(pki.Identity{Cluster: s.Cluster, Kind: pki.Client, Name: "admin"}, nil, time.Now(), 365*24*time.Hour)
	if err != nil {
		return err
	}
	return writeCredentials(filepath.Join(s.Data, adminDir), pair.CertPEM, admin)
}

// Files of a client's credentials.
const (
	TrustFile     = pki.CallerTrust
	ClientFile    = pki.CallerCert
	ClientKeyFile = pki.CallerKey
)

// writeCredentials writes a client's credentials into a directory.
func writeCredentials(dir string, trust []byte, pair pki.Pair) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return errors.Join(
		writeNew(filepath.Join(dir, TrustFile), trust),
		writeNew(filepath.Join(dir, ClientFile), pair.CertPEM),
		writeNew(filepath.Join(dir, ClientKeyFile), pair.KeyPEM),
	)
}

// emptyDir creates a directory, which must be empty if it exists.
func emptyDir(dir string) error {
	if at, err := os.Stat(dir); err == nil && !at.IsDir() {
		return fmt.Errorf("data: %s is a file; must be an empty directory, or a new one", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if len(list) > 0 {
		return fmt.Errorf("data: %s is not empty: it has %s; choose an empty directory, or start its node with \"quorate serve --data %s\"", dir, list[0].Name(), dir)
	}
	return nil
}

// writeNew writes a file that must not exist yet, as [syncdir.WriteFile] does.
func writeNew(path string, data []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	return syncdir.WriteFile(path, data)
}

// placeFlags hold the addresses of a node and its data directory.
type placeFlags struct {
	data, node, host, zone string
	http, grpc, peer       string
	given                  func(flag string) bool
}

func (p *placeFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	p.given = f.Changed
	f.StringVar(&p.data, "data", "", "`directory` of the node's data")
	f.StringVar(&p.node, "node", "", "unique `name` of the node in the cluster (default: n1 in a new cluster)")
	f.StringVar(&p.host, "host", "127.0.0.1", "`host` at which others reach the node")
	f.StringVar(&p.zone, "zone", "", "failure zone of the node, a `label`: replicas are spread over zones")
	f.StringVar(&p.http, "http", ":7411", "address of the HTTP port, host:port; without a host at --host")
	f.StringVar(&p.grpc, "grpc", ":7412", "address of the gRPC port")
	f.StringVar(&p.peer, "peer", ":7413", "address of the port for other nodes")
}

// over applies the given flags to existing settings.
func (p *placeFlags) over(s *config.Node) error {
	if p.given("node") && p.node != string(s.Node) {
		return exit.Usagef("--node %s: the node here is %s; a node keeps its name", p.node, s.Node)
	}
	for _, f := range []struct{ flag, setting, value string }{{"zone", "zone", p.zone}, {"host", "advertise", p.host}} {
		if !p.given(f.flag) {
			continue
		}
		if err := s.Set(f.setting, f.value); err != nil {
			return exit.Usagef("--%s: %w", f.flag, err)
		}
	}
	for _, f := range []struct{ name, flag, addr string }{{"http", p.http, s.Listen.HTTP}, {"grpc", p.grpc, s.Listen.GRPC}, {"peer", p.peer, s.Listen.Peer}} {
		if err := p.move(s, f.name, f.flag, f.addr); err != nil {
			return err
		}
	}
	return nil
}

// move changes an address if its flag or --host gives another. If neither gives a host, the address
// keeps its own.
func (p *placeFlags) move(s *config.Node, name, flag, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen.%s: %w", name, err)
	}
	if p.given("host") && !net.ParseIP(host).IsUnspecified() {
		host = p.host
	}
	if p.given(name) {
		toHost, toPort, err := net.SplitHostPort(flag)
		if err != nil || toPort == "" {
			return exit.Usagef("--%s %q: must be host:port or :port", name, flag)
		}
		if port = toPort; toHost != "" {
			host = toHost
		}
	}
	if err := s.Set("listen."+name, net.JoinHostPort(host, port)); err != nil {
		return exit.Usagef("--%s: %w", name, err)
	}
	return nil
}

// nodeSchemaURL is the URL of the schema of a node's settings, for editors. A node also serves the
// schema, at GET /v1/schema/node.json.
const nodeSchemaURL = "https://raw.githubusercontent.com/quorate/quorate/main/docs/schema/node.json"

// settings returns the text of a node's settings, from the flags.
func (p *placeFlags) settings(cluster string) string {
	at := func(addr string) string {
		if strings.HasPrefix(addr, ":") {
			if strings.Contains(p.host, ":") {
				return "[" + p.host + "]" + addr
			}
			return p.host + addr
		}
		return addr
	}
	var b strings.Builder
	b.WriteString("# yaml-language-server: $schema=" + nodeSchemaURL + "\n")
	fmt.Fprintf(&b, "cluster: %q\nnode: %q\ndata: .\nadvertise: %q\n", cluster, p.node, p.host)
	fmt.Fprintf(&b, "listen: {http: %q, grpc: %q, peer: %q}\n", at(p.http), at(p.grpc), at(p.peer))
	if p.zone != "" {
		fmt.Fprintf(&b, "zone: %q\n", p.zone)
	}
	return b.String()
}
