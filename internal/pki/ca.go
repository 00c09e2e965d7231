package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Validity of certificates.
const (
	// CALife is the default validity of a new CA. A CA is rotated when its key may have leaked, not
	// on a schedule.
	CALife = 10 * 365 * 24 * time.Hour
	// Skew is how far the clocks of nodes may differ: certificates are valid from that long before
	// their creation.
	Skew = 5 * time.Minute
)

const serialBits = 128

// CA signs the certificates of one cluster. It is immutable and safe for concurrent use.
type CA struct {
	Certificate *x509.Certificate
	key         crypto.Signer
}

// NewCA creates the CA of a cluster: ECDSA P-256, valid for ttl ([CALife] if 0). It can sign
// certificates of nodes and clients of this cluster, and no further CA.
func NewCA(cluster string, now time.Time, ttl time.Duration) (*CA, error) {
	if err := checkCluster(cluster); err != nil {
		return nil, err
	}
	if ttl == 0 {
		ttl = CALife
	}
	if ttl < 0 {
		return nil, fmt.Errorf("ttl: is %s; must be positive", ttl)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The serial distinguishes the old CA from the new one while both are trusted.
		Subject:   pkix.Name{CommonName: commonName("quorate CA of ", cluster), SerialNumber: fmt.Sprintf("%x", serial)[:8]},
		NotBefore: now.Add(-Skew), NotAfter: now.Add(ttl),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		// A program that trusts the CAs of several clusters need not fear that one of them names nodes
		// of another.
		PermittedURIDomains: []string{cluster}, PermittedDNSDomainsCritical: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	return &CA{Certificate: cert, key: key}, nil
}

// ParseCA parses a CA. The certificate must be that of a CA, belong to the key and be valid at now.
func ParseCA(certPEM []byte, keyPEM KeyPEM, now time.Time) (*CA, error) {
	certs, err := ParseCertificates(certPEM)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	cert := certs[0]
	key, err := parseKey(keyPEM)
	switch {
	case len(certs) != 1:
		return nil, fmt.Errorf("CA: has %d certificates; must be one", len(certs))
	case err != nil:
		return nil, fmt.Errorf("CA: %w", err)
	case !cert.BasicConstraintsValid || !cert.IsCA:
		return nil, fmt.Errorf("CA: the certificate (%s) is not a CA certificate", describe(cert))
	case cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, fmt.Errorf("CA: the certificate (%s) may not sign others", describe(cert))
	case !sameKey(cert.PublicKey, key.Public()):
		return nil, fmt.Errorf("CA: the key does not belong to the certificate (%s)", describe(cert))
	}
	if err := checkTime(cert, now); err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	return &CA{Certificate: cert, key: key}, nil
}

// Pair returns the CA in its stored form.
func (ca *CA) Pair() (Pair, error) {
	key, err := encodeKey(ca.key)
	return Pair{CertPEM: EncodeCertificates(ca.Certificate), KeyPEM: key}, err
}

// Pair is a certificate and its key as PEM, the stored form.
type Pair struct {
	CertPEM []byte
	KeyPEM  KeyPEM
}

// Sign issues a certificate for id from a certificate request, valid from [Skew] before now for
// ttl, or until the CA expires. The caller must have verified that the requester is id and may be
// reached under hosts: only the key is taken from the request.
//
// A node's certificate is valid for both ends of a connection, a client's for the client end only.
// Neither can sign.
func (ca *CA) Sign(csrDER []byte, id Identity, hosts []string, now time.Time, ttl time.Duration) (certPEM []byte, err error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("ttl: is %s; must be positive", ttl)
	}
	if err := checkTime(ca.Certificate, now); err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	if of := ca.Certificate.PermittedURIDomains; len(of) > 0 && !slices.Contains(of, id.Cluster) {
		return nil, fmt.Errorf("CA: is for cluster %q; cannot sign for %s", of, id)
	}
	names, err := sansOf(id, hosts)
	if err != nil {
		return nil, err
	}
	req, err := parseCSR(csrDER, id)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subjectOf(id),
		NotBefore:    now.Add(-Skew), NotAfter: earlier(now.Add(ttl), ca.Certificate.NotAfter),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses(id.Kind),
		BasicConstraintsValid: true, // says that it is no CA
		URIs:                  names.uris, DNSNames: names.dns, IPAddresses: names.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Certificate, req.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	return encodeCert(der), nil
}

// Issue creates a key and its certificate, for those who hold the CA: the first node of a cluster,
// and its operator for clients.
func (ca *CA) Issue(id Identity, hosts []string, now time.Time, ttl time.Duration) (Pair, error) {
	key, csr, err := NewKeyAndCSR(id, hosts)
	if err != nil {
		return Pair{}, err
	}
	cert, err := ca.Sign(csr, id, hosts, now, ttl)
	return Pair{CertPEM: cert, KeyPEM: key}, err
}

func uses(k Kind) []x509.ExtKeyUsage {
	if k == Node {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
}

// newSerial returns a random serial number of exactly 128 bits.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	return serial.SetBit(serial, serialBits-1, 1), nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func sameKey(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.Equal(b)
}
