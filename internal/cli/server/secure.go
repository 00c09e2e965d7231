package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
)

// Files of certificates in a node's data directory.
const (
	pkiDir    = "pki"
	caKeyFile = "ca.key"
)

// security holds the certificates that a node presents and trusts. The zero value is no TLS.
type security struct {
	store     *pki.Store
	authority *pki.Pair // for the cluster to sign with, if this node creates it
	own       bool      // the operator provides and renews the certificates
}

// openSecurity opens the certificates that the settings name. A node without certificates that is
// to join gets an empty store. cluster is the name that the certificates must carry; it is empty if
// the node learns the name by joining.
func openSecurity(s *config.Node, cluster string, log *slog.Logger) (*security, error) {
	switch {
	case s.TLS.Mode == config.TLSOff:
		return &security{}, nil
	case s.TLS.Cert != "":
		store, err := pki.OpenFiles(pki.Files{CA: s.TLS.CA, Cert: s.TLS.Cert, Key: s.TLS.Key}, pki.Options{Cluster: cluster, Log: log})
		return &security{store: store, own: true}, err
	}
	dir := filepath.Join(s.Data, pkiDir)
	store, err := pki.OpenStore(dir, pki.Options{Cluster: cluster, Log: log})
	if err != nil {
		return nil, err
	}
	sec := &security{store: store}
	caCert, caKey := filepath.Join(dir, "ca.crt"), filepath.Join(dir, caKeyFile)
	if s.TLS.CAKey != "" {
		caCert, caKey = s.TLS.CA, s.TLS.CAKey
	}
	if sec.authority, err = readAuthority(caCert, caKey); err != nil {
		if s.TLS.CAKey != "" || !hasRun(s.Data) {
			return nil, err
		}
		// "quorate init" put the key there. Since then the cluster keeps its authority itself, and
		// a rotation replaces only the certificate.
		log.Warn("the key of an earlier CA remains from the creation of the cluster; it is not needed, delete it", "file", caKey, "err", err)
		err = nil
	}
	if s.TLS.CAKey != "" && store.Empty() {
		err = sec.issueOwn(s)
	}
	return sec, err
}

// hasRun reports whether a node has been started with that data before.
func hasRun(data string) bool {
	_, err := os.Stat(filepath.Join(data, "raft"))
	return err == nil
}

// readAuthority reads the authority that signs certificates. It returns nil without a key.
func readAuthority(certFile, keyFile string) (*pki.Pair, error) {
	key, err := os.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no key is not an error
	}
	if err != nil {
		return nil, fmt.Errorf("key of the CA: %w", err)
	}
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("certificate of the CA: %w", err)
	}
	if _, err := pki.ParseCA(cert, pki.KeyPEM(key), time.Now()); err != nil {
		return nil, fmt.Errorf("the CA in %s and %s: %w", certFile, keyFile, err)
	}
	return &pki.Pair{CertPEM: cert, KeyPEM: pki.KeyPEM(key)}, nil
}

// certificateTTL is the lifetime of a node's first certificate. The cluster renews it.
const certificateTTL = 30 * 24 * time.Hour

// issueOwn signs this node's certificate with the given authority.
func (sec *security) issueOwn(s *config.Node) error {
	ca, err := pki.ParseCA(sec.authority.CertPEM, sec.authority.KeyPEM, time.Now())
	if err != nil {
		return err
	}
	id := pki.Identity{Cluster: s.Cluster, Kind: pki.Node, Name: string(s.Node)}
	if err := id.CheckNew(); err != nil {
		return err
	}
	pair, err := ca.Issue(id, hostsOf(s.Addresses()), time.Now(), certificateTTL)
	if err != nil {
		return err
	}
	if err := sec.store.SetBundle(sec.authority.CertPEM); err != nil {
		return err
	}
	return sec.store.Install(pair.CertPEM, pair.KeyPEM)
}

// hostsOf returns the hosts of a node's addresses, for its certificate.
func hostsOf(l config.Listen) []string {
	var out []string
	seen := map[string]bool{}
	for _, a := range []string{l.HTTP, l.GRPC, l.Peer} {
		if host, _, err := net.SplitHostPort(a); err == nil && host != "" && !seen[host] {
			seen[host] = true
			out = append(out, host)
		}
	}
	return append(out, "localhost")
}

// on reports whether TLS is on.
func (sec *security) on() bool { return sec.store != nil }

// scheme begins the URLs of the HTTP port.
func (sec *security) scheme() string {
	if sec.on() {
		return "https://"
	}
	return "http://"
}

// links returns the TLS configuration of connections between nodes, nil without TLS.
func (sec *security) links() *transport.TLS {
	if !sec.on() {
		return nil
	}
	server := sec.store.ServerConfig(pki.PeerPort)
	return &transport.TLS{
		Server: func() *tls.Config { return server },
		Client: func(to quota.NodeID) *tls.Config { return sec.store.ClientConfig(pki.Want{Node: string(to)}) },
		IsNode: func(cs tls.ConnectionState, id quota.NodeID) error {
			return sec.store.IsNode(cs.PeerCertificates[0], string(id))
		},
		Explain: pki.Explain,
	}
}

// serverConfig returns the TLS configuration of an API port, nil without TLS.
func (sec *security) serverConfig(protocols ...string) *tls.Config {
	if !sec.on() {
		return nil
	}
	c := sec.store.ServerConfig(pki.APIPort)
	c.NextProtos = protocols
	return c
}

// renewer returns the interface through which the cluster renews certificates and trust, nil if the
// operator provides them.
func (sec *security) renewer(s *config.Node) *renewer {
	if !sec.on() || sec.own {
		return nil
	}
	return &renewer{sec: sec, id: pki.Identity{Cluster: s.Cluster, Kind: pki.Node, Name: string(s.Node)}, hosts: hostsOf(s.Addresses())}
}

// renewer implements cluster.Certificates.
type renewer struct {
	sec   *security
	id    pki.Identity
	hosts []string
	key   pki.KeyPEM // of the last request
}

func (r *renewer) NeedsRenewal(now time.Time) bool { return r.sec.store.NeedsRenewal(now) }

func (r *renewer) Signer() string { return r.sec.store.Status().Issuer.String() }

func (r *renewer) Trusts() (out []string) {
	for _, h := range r.sec.store.Status().Bundle {
		out = append(out, h.String())
	}
	return out
}

func (r *renewer) Request() ([]byte, error) {
	key, csr, err := pki.NewKeyAndCSR(r.id, r.hosts)
	r.key = key
	return csr, err
}

func (r *renewer) Install(certificate []byte) error {
	if r.key == nil {
		return errors.New("an unexpected certificate")
	}
	return r.sec.store.Install(certificate, r.key)
}

func (r *renewer) Seen() []pki.Seen { return r.sec.store.Seen() }

func (r *renewer) SetTrust(bundle []byte) error { return r.sec.store.SetBundle(bundle) }

// ready returns an error if the node needs a certificate and has none.
func (sec *security) ready(s *config.Node) error {
	if !sec.on() || !sec.store.Empty() {
		return nil
	}
	return fmt.Errorf(`tls: node %s has no certificate in %s. Choose one:
  quorate init --data DIR             makes a new cluster, with certificates
  quorate serve --data DIR --join ... joins one, and gets a certificate
  tls: {ca: ..., cert: ..., key: ...} in the settings uses certificates of your own
  tls: {mode: off}                    in the settings disables TLS, for a network that you trust`, s.Node, filepath.Join(s.Data, pkiDir))
}

// certificateLook is the interval at which a node checks its certificates, and repeats its warnings
// about them.
const certificateLook = time.Hour

// watch warns about certificate problems that are not failures yet, at once and every hour until
// the context ends: certificates expire while the node runs.
func (sec *security) watch(ctx context.Context, log *slog.Logger) {
	if !sec.on() {
		return
	}
	tick := time.NewTicker(certificateLook)
	defer tick.Stop()
	for {
		for _, w := range sec.store.Warnings() {
			log.Warn("certificates: " + w)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
