package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
)

// Port is the purpose of a server's port.
type Port uint8

// The ports.
const (
	PeerPort Port = iota + 1 // only nodes of the cluster
	APIPort                  // anybody; a certificate, if sent, must be valid
)

// base returns the common TLS configuration. Sessions are never resumed, because a resumed session
// does not check whether its CA is still trusted.
func (s *Store) base() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: s.opts.Now}
}

// ServerConfig returns the TLS configuration of a port. It uses the store's current state in each
// handshake. Callers may clone it and set NextProtos; GetConfigForClient is unused for that reason.
// Rejections are of type [Error].
//
// The configuration verifies certificates itself, so VerifiedChains of the connection state is
// empty: use [Store.Caller].
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

// CheckCaller verifies the client of an accepted connection, as each handshake does. Long-lived
// connections call it again, because they do not end by themselves when a CA is dropped or a
// certificate expires.
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
			k := seenKey{id: id}
			if ca := m.namedIssuer(cs.PeerCertificates); ca != nil {
				k.issuer = Fingerprint(ca)
			}
			s.seen.add(k, s.opts.Now())
		}
		return err
	}
	return s.anyNode(m, leaf)
}

// Caller returns the client of a connection that was accepted at the API port: a client of the
// cluster, one of its nodes, or a foreign client; false if it sent no certificate. The connection
// must use [Store.ServerConfig].
func (s *Store) Caller(cs tls.ConnectionState) (Identity, bool, error) {
	if len(cs.PeerCertificates) == 0 {
		return Identity{}, false, nil
	}
	id, err := s.clientOf(s.current(), cs.PeerCertificates[0])
	return id, err == nil, err
}

// clientOf returns a caller's identity. Without a URI SAN, which only the operator's own CA may
// omit, its name is its first DNS SAN: the CA has vouched for all of them.
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

// anyNode rejects certificates that are not of a node of the cluster.
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
	return refuse(WrongKind, "the certificate is that of %s; must be of a node of cluster %s", id, cluster)
}

// IsNode returns an error unless the certificate is that of the given node of the cluster. Use it
// to check the name that a node claims within a verified connection; otherwise any node could
// impersonate any other.
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

// Want says which server a client connection must reach.
type Want struct {
	// Node is the required node; empty for any node of the cluster.
	Node string
	// Host is the name or address that was dialed. With the operator's own CA and an empty Node it
	// must be among the SANs, unless the URI SAN is that of a node.
	Host string
}

// ClientConfig returns the TLS configuration for connections to nodes. It uses the store's current
// state in each handshake and sends its certificate if it has one. The server must prove to be the
// wanted node, whatever its address.
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

// CheckServer verifies the server of a connection that this side opened, as each handshake does;
// see [Store.CheckCaller].
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

// namesHost checks a certificate that names no node against the dialed host.
func namesHost(leaf *x509.Certificate, dialed, sni string) error {
	if dialed == "" {
		dialed = sni
	}
	if dialed == "" {
		return refuse(NoIdentity, "the certificate of %s names no node by a URI SAN, and the dialed host is unknown", describe(leaf))
	}
	if err := leaf.VerifyHostname(dialed); err != nil {
		return &Error{WrongNode, "the certificate of " + describe(leaf) + " is neither that of a node of the cluster, nor of the host that was dialed, " + clip(dialed), err}
	}
	return nil
}
