package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"
)

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
				return errors.New("what listens there does not have the key of the certificate request")
			}
			return nil
		},
	}, nil
}
