package pki

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"time"
)

// Pinned is what the other end of a pinned connection has shown.
type Pinned struct {
	Node Identity          // which node of which cluster
	CA   *x509.Certificate // the certificate that the hash names
}

// PinnedConfig returns the configuration with which a node that has nothing but
// a join token dials a member: the member must send the CA certificate of that
// hash, and show that it is a node whose certificate that CA has signed. Ask
// [CheckPinned] for who it was. A nil clock is time.Now.
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

// CheckPinned verifies the other end of a connection by the hash of its CA.
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
		return Pinned{}, refuse(WrongUse, "the certificate that the token names (%s) is no CA's", describe(root))
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
