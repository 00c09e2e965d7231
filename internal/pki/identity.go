package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Kind is what a certificate speaks for.
type Kind uint8

// The kinds.
const (
	Node   Kind = iota + 1 // a node of a cluster
	Client                 // whoever calls the API
)

// String returns the word that the URI SAN uses.
func (k Kind) String() string {
	switch k {
	case Node:
		return "node"
	case Client:
		return "client"
	}
	return "unknown"
}

// Bounds of names in certificates.
const (
	maxURI   = 2048 // bytes of a SPIFFE id, as its standard has it
	maxLabel = 63   // bytes between two dots of a cluster's name: it is a URI's host
)

const scheme = "spiffe://"

// Identity is who a certificate speaks for.
//
// Cluster is empty for identities that the cluster did not name: clients with a
// certificate of the operator's own CA. Their Name is then the whole SPIFFE id
// (spiffe://corp.example/billing), or "dns:" and the DNS SAN
// (dns:billing.corp.example). Neither can be the name of one of the cluster's
// own clients, because these have no colon.
type Identity struct {
	Cluster string
	Kind    Kind
	Name    string // the node's id, or the client's name
}

// Check returns an error that names the part which does not fit into a URI SAN:
// names are letters, digits and . _ -, begin with a letter or digit, and have at
// most 128 bytes; a cluster's name must also do for the host of a URI.
func (id Identity) Check() error {
	if err := checkCluster(id.Cluster); err != nil {
		return err
	}
	if id.Kind != Node && id.Kind != Client {
		return fmt.Errorf("kind: is %d; must be node or client", id.Kind)
	}
	return checkName(id.Kind.String(), id.Name)
}

func checkName(field, s string) error {
	if err := quota.CheckName(field, s); err != nil {
		return err
	}
	if strings.IndexByte("._-", s[0]) >= 0 {
		return fmt.Errorf("%s: is %q; must begin with a letter or digit", field, s)
	}
	return nil
}

// checkCluster refuses names that cannot be the host of a URI: certificates that
// carry such a one cannot be read again.
func checkCluster(s string) error {
	if err := checkName("cluster", s); err != nil {
		return err
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel {
			return fmt.Errorf("cluster: is %q; for TLS, the parts between its dots must have 1 to %d bytes", s, maxLabel)
		}
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return fmt.Errorf("cluster: is %q; for TLS, it must not be an address", s)
	}
	return nil
}

// Foreign says that the cluster did not name this identity itself.
func (id Identity) Foreign() bool { return id.Cluster == "" }

// URI returns the URI SAN: spiffe://<cluster>/node/<id> or
// spiffe://<cluster>/client/<name>. For a foreign identity it is the Name.
func (id Identity) URI() string {
	if id.Foreign() {
		return id.Name
	}
	return scheme + id.Cluster + "/" + id.Kind.String() + "/" + id.Name
}

// String returns words for logs and errors.
func (id Identity) String() string {
	if id.Foreign() {
		return id.Kind.String() + " " + id.Name
	}
	return fmt.Sprintf("%s %s of cluster %s", id.Kind, id.Name, id.Cluster)
}

// ParseURI reads what [Identity.URI] writes for a cluster's own nodes and
// clients, and nothing else: what it takes, URI gives back byte for byte.
func ParseURI(s string) (Identity, error) {
	if len(s) > maxURI {
		return Identity{}, fmt.Errorf("identity: has %d bytes; at most %d", len(s), maxURI)
	}
	rest, ok := strings.CutPrefix(s, scheme)
	if !ok {
		return Identity{}, fmt.Errorf("identity: is %q; must begin with %s", clip(s), scheme)
	}
	part := strings.Split(rest, "/")
	if len(part) != 3 {
		return Identity{}, fmt.Errorf("identity: is %q; must be %s<cluster>/node/<id> or %[2]s<cluster>/client/<name>", clip(s), scheme)
	}
	id := Identity{Cluster: part[0], Name: part[2]}
	switch part[1] {
	case "node":
		id.Kind = Node
	case "client":
		id.Kind = Client
	default:
		return Identity{}, fmt.Errorf("identity: is %q; the word after the cluster must be node or client", clip(s))
	}
	if err := id.Check(); err != nil {
		return Identity{}, fmt.Errorf("identity: %w", err)
	}
	return id, nil
}

// IdentityOf returns whom a certificate of the cluster speaks for, by its URI
// SAN. With a cluster's name, SPIFFE ids of other trust domains are foreign
// clients, whatever their path says; without one (""), nodes and clients of any
// cluster are taken as such.
//
// The SAN must be the only URI. A certificate without one is [ErrNoURI]. Nothing
// is verified here: ask only about certificates that have been.
func IdentityOf(cert *x509.Certificate, cluster string) (Identity, error) {
	switch len(cert.URIs) {
	case 0:
		return Identity{}, ErrNoURI
	case 1:
	default:
		return Identity{}, fmt.Errorf("the certificate has %d URI SANs; must be exactly one", len(cert.URIs))
	}
	uri := cert.URIs[0].String()
	id, err := ParseURI(uri)
	if err == nil && (cluster == "" || id.Cluster == cluster) {
		return id, nil
	}
	domain, domErr := checkForeign(uri)
	switch {
	case domErr != nil:
		return Identity{}, domErr
	case cluster == "" || domain == cluster:
		return Identity{}, err // of this cluster, and neither node nor client
	}
	return Identity{Kind: Client, Name: uri}, nil
}

// ErrNoURI says that a certificate names nobody by a URI SAN.
var ErrNoURI = errors.New("the certificate has no URI SAN; must be one such as spiffe://<cluster>/node/<id>")

// checkForeign checks a SPIFFE id of any trust domain by the rules of its
// standard, and returns the trust domain. Capitals are let through there: a
// cluster's name may have them.
func checkForeign(uri string) (domain string, err error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok || len(uri) > maxURI {
		return "", fmt.Errorf("the URI SAN is %q; must be a SPIFFE id of at most %d bytes", clip(uri), maxURI)
	}
	domain, path, ok := strings.Cut(rest, "/")
	if !ok || checkCluster(domain) != nil {
		return "", fmt.Errorf("the URI SAN is %q; a SPIFFE id has a trust domain and a path of letters, digits and . _ -", clip(uri))
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || quota.CheckName("", segment) != nil {
			return "", fmt.Errorf("the URI SAN is %q; each part of a SPIFFE id's path has 1 to %d letters, digits and . _ -", clip(uri), quota.MaxNameLen)
		}
	}
	return domain, nil
}

// clip bounds what an error repeats of what a stranger sent.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
