package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"strings"
	"time"
)

// Pinned is the verified identity of the server of a pinned connection.
type Pinned struct {
	Node Identity          // node and cluster
	CA   *x509.Certificate // CA certificate with the pinned hash
}

// PinnedConfig returns the TLS configuration with which a node that has only a join token connects
// to a member. The member must send the CA certificate with that hash and prove to be a node whose
// certificate that CA has signed; [CheckPinned] returns its identity. A nil clock means time.Now.
func PinnedConfig(ca Hash, now func() time.Time) *tls.Config {
	if now == nil {
		now = time.Now
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, Time: now,
		// There is no bundle to verify with yet: VerifyConnection does it all.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := CheckPinned(cs, ca, now())
			return err
		},
	}
}

// CheckPinned verifies the server of a connection by the hash of its CA.
func CheckPinned(cs tls.ConnectionState, ca Hash, now time.Time) (Pinned, error) {
	if len(cs.PeerCertificates) == 0 {
		return Pinned{}, refuse(NoCertificate, "the other side sent no certificate")
	}
	leaf, sent := cs.PeerCertificates[0], cs.PeerCertificates[1:]
	var root *x509.Certificate
	var others strings.Builder
	for _, c := range sent {
		switch {
		case Fingerprint(c) == ca:
			root = c
		case c.IsCA:
			others.WriteString("; it sent that of " + describe(c))
		}
	}
	if root == nil {
		return Pinned{}, refuse(OtherCA,
			"the other side did not send the CA certificate that the token names (SHA-256 %s): it is of another cluster, or its CA was changed after the token was made%s",
			ca.String()[:16], others.String())
	}
	if !root.BasicConstraintsValid || !root.IsCA {
		return Pinned{}, refuse(WrongUse, "the certificate that the token names (%s) is not a CA certificate", describe(root))
	}
	if err := newTrust([]*x509.Certificate{root}).verify(cs.PeerCertificates, x509.ExtKeyUsageServerAuth, now); err != nil {
		return Pinned{}, err
	}
	id, err := IdentityOf(leaf, "")
	if err != nil {
		return Pinned{}, &Error{NoIdentity, err.Error(), err}
	}
	if id.Kind != Node || id.Foreign() {
		return Pinned{}, refuse(WrongKind, "the certificate is that of %s; must be a node's", id)
	}
	return Pinned{Node: id, CA: root}, nil
}

// A joining node has no certificate yet. It proves that it owns its address with the key of its
// certificate request: it serves TLS there with a self-signed certificate of that key.

// ProbeCertificate returns the self-signed certificate of a key.
func ProbeCertificate(key KeyPEM) (tls.Certificate, error) {
	signer, err := parseKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}, err
}

// isProbe reports whether a certificate is like one of ProbeCertificate, which names nobody.
func isProbe(cert *x509.Certificate) bool {
	return len(cert.URIs)+len(cert.DNSNames)+len(cert.IPAddresses) == 0 && len(cert.Subject.Names)+len(cert.Issuer.Names) == 0
}

// ProbeConfig returns the client's configuration: the handshake succeeds only if the server holds
// the key of the certificate request.
func ProbeConfig(csrDER []byte) (*tls.Config, error) {
	csr, err := x509.ParseCertificateRequest(csrDER)
	if err != nil || len(csrDER) > maxCSR {
		return nil, errors.New("certificate request: cannot be read")
	}
	want, ok := csr.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if err := checkPublicKey(csr.PublicKey); err != nil || !ok {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the key, and nothing is sent
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 || !want.Equal(cs.PeerCertificates[0].PublicKey) {
				return errors.New("the server at that address does not have the key of the certificate request")
			}
			return nil
		},
	}, nil
}
