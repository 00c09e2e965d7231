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

// TLS makes all connections TLS 1.3 with a certificate on both sides. The
// functions are asked in every handshake, from many goroutines at a time, and
// must not block: what they return may change at run time. Sessions are never
// resumed, so a certificate or CA that is no longer good is found out with the
// next connection.
//
// A configuration says which certificates are trusted: by its ClientCAs on the
// server's side, and its RootCAs on the client's, against which the chain is
// verified, and no host name; or by a VerifyConnection or VerifyPeerCertificate
// that does all of that, with RequireAnyClientCert on the server's side, and
// InsecureSkipVerify on the client's. One that says neither is an error.
// GetConfigForClient is not asked. The configurations are cloned, never changed.
type TLS struct {
	// Server returns the configuration for a connection that is accepted.
	Server func() *tls.Config
	// Client returns the configuration for a connection that is dialed.
	Client func(to quota.NodeID) *tls.Config
	// NodeID says whose certificate the other side has shown; the error is why
	// it is no node's. It must be the node that the other side says it is.
	NodeID func(tls.ConnectionState) (quota.NodeID, error)
	// IsNode, if set, is asked instead of NodeID: for certificates that may be
	// those of several nodes. The error is why the certificate is not id's.
	IsNode func(cs tls.ConnectionState, id quota.NodeID) error
	// Explain, if set, puts faults of TLS in better words for the log.
	Explain func(error) error
}

// tlsError is a fault of TLS: in the handshake, or the alert that comes after it.
type tlsError struct {
	err error
	own bool // this side's configuration is at fault, whoever is at the other
}

func (e *tlsError) Error() string { return "TLS: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

func (t *TLS) validate() error {
	if t == nil || t.Server != nil && t.Client != nil && (t.NodeID != nil || t.IsNode != nil) {
		return nil
	}
	return errors.New("tls: Server, Client, and one of NodeID and IsNode must be set")
}

// fault makes a tlsError.
func (t *TLS) fault(err error) error {
	var record tls.RecordHeaderError
	switch {
	case t.Explain != nil:
		err = t.Explain(err)
	case errors.As(err, &record):
		err = fmt.Errorf("the other side speaks without it: %w", err)
	}
	return &tlsError{err, false}
}

// isAlert says whether an error is the other side's word that it refuses TLS.
// Since TLS 1.3 that may come with the first read after the handshake.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// secureConn is a connection that TLS has been agreed on, if there is to be any.
type secureConn struct {
	net.Conn
	tls *TLS // nil: plain
}

// accept does the server's side of the TLS handshake.
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

// dial does the client's side of it.
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
	case ctx.Err() != nil: // ended by this side
		return secureConn{}, ctx.Err()
	}
	return secureConn{}, t.fault(err)
}

// belongsTo returns an error unless the other side has shown the certificate of
// the node id, which is said to be so by whom.
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
		return fmt.Errorf("certificate: it is of no node: %w", err)
	case of != id:
		return fmt.Errorf("certificate: it is of node %q, %s %q", of, whom, clip(string(id)))
	}
	return nil
}

// serverConfig makes sure of what every server must ask for.
func serverConfig(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("there is no configuration for the server's side")
	}
	c = strict(c)
	c.GetConfigForClient = nil // would bring one that is not strict
	switch {
	case c.ClientCAs != nil:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case c.ClientAuth == tls.RequireAnyClientCert && verifiesItself(c):
	default:
		return nil, errors.New("the configuration for the server's side has neither ClientCAs nor RequireAnyClientCert with VerifyConnection")
	}
	return c, nil
}

// clientConfig makes sure of what every client must ask for.
func clientConfig(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("there is no configuration for the client's side")
	}
	c = strict(c)
	switch {
	case c.RootCAs != nil:
	case c.InsecureSkipVerify && verifiesItself(c):
		return c, nil
	default:
		return nil, errors.New("the configuration for the client's side has neither RootCAs nor InsecureSkipVerify with VerifyConnection")
	}
	// Nodes are known by their ids, wherever they listen: the chain is verified
	// here, and whose certificate it is by belongsTo.
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

// verifyServer is what crypto/tls does, but for the host name.
func verifyServer(c *tls.Config, cs tls.ConnectionState) error {
	o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()} // for servers, when no usage is named
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
