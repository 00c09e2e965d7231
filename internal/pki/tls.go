package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

// Port is what a server's port is for.
type Port uint8

// The ports.
const (
	PeerPort Port = iota + 1 // nodes of the cluster only
	APIPort                  // anybody; who sends a certificate must be somebody
)

// base is what all configurations share. Sessions are never resumed: one that is
// would not ask whether its CA is still trusted.
func (s *Store) base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: s.opts.Now}
}

// ServerConfig returns the configuration of a port. It looks at the store in
// each handshake. It may be cloned, and NextProtos are the caller's to add;
// GetConfigForClient is left alone for that reason. What it refuses, it refuses
// with an [Error].
//
// The certificates are verified here and not by crypto/tls, so the field
// VerifiedChains of a connection's state stays empty: ask [Store.Caller].
func (s *Store) ServerConfig(p Port) *tls.Config {
	c := s.base()
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if m := s.fresh(); m.shown != nil {
			return m.shown, nil
		}
		return nil, errors.New("this node has no certificate yet")
	}
	c.ClientAuth = tls.RequireAnyClientCert
	if p == APIPort {
		c.ClientAuth = tls.RequestClientCert
	}
	c.VerifyConnection = func(cs tls.ConnectionState) error { return s.CheckCaller(p, cs) }
	return c
}

// CheckCaller verifies the other end of a connection that came in at a port, as
// each handshake does. For connections that live long: a CA that was dropped, or
// a certificate that has expired, ends none by itself.
func (s *Store) CheckCaller(p Port, cs tls.ConnectionState) error {
	m := s.fresh()
	if p == APIPort && len(cs.PeerCertificates) == 0 {
		return nil
	}
	if err := m.verify(cs.PeerCertificates, x509.ExtKeyUsageClientAuth, s.opts.Now()); err != nil {
		return err
	}
	leaf := cs.PeerCertificates[0]
	if p == APIPort {
		id, err := s.clientOf(m, leaf)
		if err == nil {
			s.saw(m, id, cs.PeerCertificates)
		}
		return err
	}
	return s.anyNode(m, leaf)
}

func (s *Store) saw(m *material, id Identity, chain []*x509.Certificate) {
	k := seenKey{id: id}
	if ca := m.namedIssuer(chain); ca != nil {
		k.issuer = Fingerprint(ca)
	}
	s.seen.add(k, s.opts.Now())
}

// Caller returns who is at the other end of a connection that came in at the API
// port: a client of the cluster, a node of it, or a foreign client. It says false
// if no certificate was sent. The connection must have been made with
// [Store.ServerConfig].
func (s *Store) Caller(cs tls.ConnectionState) (Identity, bool, error) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, false, nil
	}
	id, err := s.clientOf(s.current(), cs.PeerCertificates[0])
	return id, err == nil, err
}

// clientOf returns a caller's identity. Without a URI SAN, which only the
// operator's own CA leaves out, its first DNS SAN is its name: its CA has vouched
// for all of them.
func (s *Store) clientOf(m *material, leaf *x509.Certificate) (Identity, error) {
	id, err := IdentityOf(leaf, s.cluster(m))
	switch {
	case err == nil:
		return id, nil
	case !errors.Is(err, ErrNoURI) || s.files == nil:
		return Identity{}, &Error{NoIdentity, err.Error(), err}
	case len(leaf.DNSNames) == 0:
		return Identity{}, refuse(NoIdentity, "the certificate of %s has neither a URI SAN nor a DNS SAN; one must name the client", describe(leaf))
	}
	return Identity{Kind: Client, Name: "dns:" + leaf.DNSNames[0]}, nil
}

// anyNode refuses certificates that are no node's of the cluster.
func (s *Store) anyNode(m *material, leaf *x509.Certificate) error {
	cluster := s.cluster(m)
	id, err := IdentityOf(leaf, cluster)
	switch {
	case errors.Is(err, ErrNoURI) && s.files != nil && len(leaf.DNSNames) > 0:
		return nil // which one, IsNode says
	case err != nil:
		return &Error{NoIdentity, err.Error(), err}
	case id.Kind == Node:
		return nil
	}
	if far, err := ParseURI(id.Name); err == nil && far.Kind == Node {
		return refuse(OtherCluster, "the certificate is that of %s; must be of a node of cluster %s", far, cluster)
	}
	return refuse(WrongKind, "the certificate is that of %s; only a node of cluster %s will do here", id, cluster)
}

// IsNode returns an error unless the certificate is that of this node of the
// cluster. It is for the name that a node gives itself inside a verified
// connection: without it any node could speak for any other.
func (s *Store) IsNode(leaf *x509.Certificate, node string) error {
	return s.isNode(s.current(), leaf, node)
}

func (s *Store) isNode(m *material, leaf *x509.Certificate, node string) error {
	if err := s.anyNode(m, leaf); err != nil {
		return err
	}
	if len(leaf.URIs) == 0 {
		if slices.Contains(leaf.DNSNames, node) {
			return nil
		}
		return refuse(WrongNode, "the certificate's DNS SANs are %q; must have the node's id %s among them", leaf.DNSNames[:min(4, len(leaf.DNSNames))], node)
	}
	if id, err := IdentityOf(leaf, s.cluster(m)); err != nil || id.Name != node {
		return refuse(WrongNode, "the certificate is that of %s; must be that of node %s", describe(leaf), node)
	}
	return nil
}

// Want is who must be at the other end of a connection that this side opens.
type Want struct {
	// Node is the node that must answer; empty for any node of the cluster.
	Node string
	// Host is the name or address that was dialed. With certificates of the
	// operator's own CA, and Node empty, it must be among the SANs unless the URI
	// SAN is that of a node.
	Host string
}

// ClientConfig returns the configuration for connections to nodes. It looks at
// the store in each handshake, and shows its certificate if it has one. The
// other end must show that of the node wanted, whatever its address.
func (s *Store) ClientConfig(w Want) *tls.Config {
	c := s.base()
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if m := s.fresh(); m.shown != nil {
			return m.shown, nil
		}
		return &tls.Certificate{}, nil
	}
	// crypto/tls would hold the certificate to the host name, and to a bundle
	// that never changes. VerifyConnection does all of the verifying instead.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error { return s.CheckServer(w, cs) }
	return c
}

// CheckServer verifies the other end of a connection that this side opened, as
// each handshake does; see [Store.CheckCaller].
func (s *Store) CheckServer(w Want, cs tls.ConnectionState) error {
	m := s.fresh()
	if err := m.verify(cs.PeerCertificates, x509.ExtKeyUsageServerAuth, s.opts.Now()); err != nil {
		return err
	}
	if ca := m.namedIssuer(cs.PeerCertificates); ca != nil {
		s.served.Store(ca)
	}
	leaf := cs.PeerCertificates[0]
	if w.Node != "" {
		return s.isNode(m, leaf, w.Node)
	}
	if id, err := IdentityOf(leaf, s.cluster(m)); s.files != nil && (err != nil || id.Kind != Node) {
		return namesHost(leaf, w.Host, cs.ServerName)
	}
	return s.anyNode(m, leaf)
}

// namesHost is the check of a certificate that names no node.
func namesHost(leaf *x509.Certificate, dialed, sni string) error {
	if dialed == "" {
		dialed = sni
	}
	if dialed == "" {
		return refuse(NoIdentity, "the certificate of %s names no node by a URI SAN, and it is not known which host was dialed", describe(leaf))
	}
	if err := leaf.VerifyHostname(dialed); err != nil {
		return &Error{WrongNode, "the certificate of " + describe(leaf) + " is neither that of a node of the cluster, nor of the host that was dialed, " + clip(dialed), err}
	}
	return nil
}
