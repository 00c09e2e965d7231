package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Kind is the kind of an identity.
type Kind uint8

// The kinds.
const (
	Node   Kind = iota + 1 // a node of a cluster
	Client                 // a caller of the API
)

// String returns the word in the URI SAN.
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
	maxURI   = 2048 // bytes of a SPIFFE ID, from its standard
	maxLabel = 63   // bytes between two dots of a cluster's name, because it is the host of a URI
)

const scheme = "spiffe://"

// Identity is what a certificate identifies.
//
// Cluster is empty for identities that the cluster did not issue: clients with a certificate of the
// operator's own CA. Their Name is the whole SPIFFE ID (spiffe://corp.example/billing), or "dns:"
// and the DNS SAN (dns:billing.corp.example). Neither can be the name of one of the cluster's own
// clients, because these contain no colon.
type Identity struct {
	Cluster string
	Kind    Kind
	Name    string // the node's ID, or the client's name
}

// Check returns an error for the part that is invalid in a URI SAN. Names consist of letters,
// digits and . _ -, begin with a letter or digit, and have at most 128 bytes; a cluster's name must
// also be valid as the host of a URI.
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

// checkCluster rejects names that are invalid as the host of a URI: a certificate with such a name
// cannot be parsed.
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

// Foreign reports whether the cluster did not issue this identity.
func (id Identity) Foreign() bool { return id.Cluster == "" }

// URI returns the URI SAN: spiffe://<cluster>/node/<id> or
// spiffe://<cluster>/client/<name>. For a foreign identity it is the Name.
func (id Identity) URI() string {
	if id.Foreign() {
		return id.Name
	}
	return scheme + id.Cluster + "/" + id.Kind.String() + "/" + id.Name
}

// Caller returns the name by which roles are bound to the identity: node:<id>, client:<name>, or
// the Name of a foreign identity.
func (id Identity) Caller() string {
	if id.Foreign() {
		return id.Name
	}
	return id.Kind.String() + ":" + id.Name
}

// CheckNew returns an error if the Caller of a new identity is too long: nobody could bind a role to it, and every call with
// its certificate would be refused.
func (id Identity) CheckNew() error {
	if most := quota.MaxNameLen - len(id.Kind.String()+":"); len(id.Name) > most {
		return fmt.Errorf("%s: is %d bytes; at most %d, so that %s:NAME has at most %d", id.Kind, len(id.Name), most, id.Kind, quota.MaxNameLen)
	}
	return nil
}

// String formats the identity for logs and errors.
func (id Identity) String() string {
	if id.Foreign() {
		return id.Kind.String() + " " + id.Name
	}
	return fmt.Sprintf("%s %s of cluster %s", id.Kind, id.Name, id.Cluster)
}

// ParseURI parses the result of [Identity.URI] for the cluster's own nodes and clients, and nothing
// else: URI returns accepted input unchanged.
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

// IdentityOf returns the identity in a certificate's URI SAN. If cluster is given, SPIFFE IDs of
// other trust domains are foreign clients, whatever their path; if it is "", nodes and clients of
// any cluster are accepted as such.
//
// The SAN must be the only URI. A certificate without one returns [ErrNoURI]. IdentityOf verifies
// nothing: call it only for verified certificates.
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

// ErrNoURI reports that a certificate has no URI SAN.
var ErrNoURI = errors.New("the certificate has no URI SAN; must be one such as spiffe://<cluster>/node/<id>")

// checkForeign checks a SPIFFE ID of any trust domain by the rules of its standard, and returns the
// trust domain. Unlike the standard it allows upper case, because a cluster's name may have it.
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

// clip bounds the part of untrusted input that an error repeats.
func clip(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
