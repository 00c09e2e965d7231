package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	"github.com/quorate/quorate/internal/quota"
)

// TLS makes all connections TLS 1.3 with a certificate on both sides. Its functions are called in
// every handshake, concurrently, and must not block; their results may change at run time.
// Sessions are never resumed, so the next connection detects a certificate or CA that is no
// longer valid.
//
// A configuration must say which certificates it trusts. It may set ClientCAs on the server side
// and RootCAs on the client side; the chain is verified against them, but no host name. Or it may
// set a VerifyConnection or VerifyPeerCertificate that does all of that, with
// RequireAnyClientCert on the server side and InsecureSkipVerify on the client side. A
// configuration with neither is an error. GetConfigForClient is ignored. The configurations are
// cloned, never modified.
type TLS struct {
	// Server returns the configuration for an accepted connection.
	Server func() *tls.Config
	// Client returns the configuration for a dialed connection.
	Client func(to quota.NodeID) *tls.Config
	// NodeID returns the node of the other side's certificate, or an error that says why it
	// belongs to no node. The result must equal the node that the other side claims to be.
	NodeID func(tls.ConnectionState) (quota.NodeID, error)
	// IsNode, if set, is called instead of NodeID, for certificates that may belong to several
	// nodes. The error says why the certificate is not id's.
	IsNode func(cs tls.ConnectionState, id quota.NodeID) error
	// Explain, if set, rewords TLS errors for the log.
	Explain func(error) error
}

// tlsError is a TLS error: in the handshake, or an alert that follows it.
type tlsError struct {
	err error
	own bool // this side's configuration is at fault, whatever the other side is
}

func (e *tlsError) Error() string { return "TLS: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

func (t *TLS) validate() error {
	if t == nil || t.Server != nil && t.Client != nil && (t.NodeID != nil || t.IsNode != nil) {
		return nil
	}
	return errors.New("tls: Server, Client, and one of NodeID and IsNode must be set")
}

// fault wraps err in a tlsError.
func (t *TLS) fault(err error) error {
	var record tls.RecordHeaderError
	switch {
	case t.Explain != nil:
		err = t.Explain(err)
	case errors.As(err, &record):
		err = fmt.Errorf("the other side does not use TLS: %w", err)
	}
	return &tlsError{err, false}
}

// isAlert reports whether an error is a TLS alert from the other side. Since TLS 1.3 the alert
// may arrive with the first read after the handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// secureConn is a connection after its TLS handshake, or a plain one without TLS.
type secureConn struct {
	net.Conn
	tls *TLS // nil: plain
}

// accept runs the server side of the TLS handshake.
func (t *TLS) accept(ctx context.Context, nc net.Conn) (secureConn, error) {
	if t == nil {
		return secureConn{nc, nil}, nil
	}
	cfg, err := serverConfig(t.Server())
	if err != nil {
		return secureConn{}, &tlsError{err, true}
	}
	return t.handshake(ctx, tls.Server(nc, cfg))
}

// dial runs the client side of the TLS handshake.
func (t *TLS) dial(ctx context.Context, nc net.Conn, to quota.NodeID) (secureConn, error) {
	if t == nil {
		return secureConn{nc, nil}, nil
	}
	cfg, err := clientConfig(t.Client(to))
	if err != nil {
		return secureConn{}, &tlsError{err, true}
	}
	return t.handshake(ctx, tls.Client(nc, cfg))
}

func (t *TLS) handshake(ctx context.Context, nc *tls.Conn) (secureConn, error) {
	err := nc.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secureConn{nc, t}, nil
	case ctx.Err() != nil: // canceled by this side
		return secureConn{}, ctx.Err()
	}
	return secureConn{}, t.fault(err)
}

// belongsTo returns an error unless the other side has shown the certificate of node id. whom
// says where id comes from, for the error text.
func (s secureConn) belongsTo(id quota.NodeID, whom string) error {
	if s.tls == nil {
		return nil
	}
	cs := s.Conn.(*tls.Conn).ConnectionState()
	if s.tls.IsNode != nil {
		if err := s.tls.IsNode(cs, id); err != nil {
			return fmt.Errorf("certificate: %w; %s %q", err, whom, clip(string(id)))
		}
		return nil
	}
	of, err := s.tls.NodeID(cs)
	switch {
	case err != nil:
		return fmt.Errorf("certificate: not of a node: %w", err)
	case of != id:
		return fmt.Errorf("certificate: of node %q, %s %q", of, whom, clip(string(id)))
	}
	return nil
}

// serverConfig returns a copy of c with the settings that every server needs.
func serverConfig(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("no configuration for the server side")
	}
	c = strict(c)
	c.GetConfigForClient = nil // its configuration might not be strict
	switch {
	case c.ClientCAs != nil:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case c.ClientAuth == tls.RequireAnyClientCert && verifiesItself(c):
	default:
		return nil, errors.New("the configuration for the server's side has neither ClientCAs nor RequireAnyClientCert with VerifyConnection")
	}
	return c, nil
}

// clientConfig returns a copy of c with the settings that every client needs.
func clientConfig(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("no configuration for the client side")
	}
	c = strict(c)
	switch {
	case c.RootCAs != nil:
	case c.InsecureSkipVerify && verifiesItself(c):
		return c, nil
	default:
		return nil, errors.New("the configuration for the client's side has neither RootCAs nor InsecureSkipVerify with VerifyConnection")
	}
	// Nodes are identified by their ids, wherever they listen: verifyServer checks the chain, and
	// belongsTo checks whose certificate it is.
	inner := c.VerifyConnection
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		if err := verifyServer(c, cs); err != nil || inner == nil {
			return err
		}
		return inner(cs)
	}
	return c, nil
}

// verifyServer verifies the chain as crypto/tls does, but without the host name.
func verifyServer(c *tls.Config, cs tls.ConnectionState) error {
	o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()} // KeyUsages defaults to server authentication
	if c.Time != nil {
		o.CurrentTime = c.Time()
	}
	for _, cert := range cs.PeerCertificates[1:] {
		o.Intermediates.AddCert(cert)
	}
	_, err := cs.PeerCertificates[0].Verify(o)
	return err
}

func strict(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.MaxVersion = tls.VersionTLS13, 0
	c.SessionTicketsDisabled, c.ClientSessionCache = true, nil
	return c
}

func verifiesItself(c *tls.Config) bool {
	return c.VerifyConnection != nil || c.VerifyPeerCertificate != nil
}
