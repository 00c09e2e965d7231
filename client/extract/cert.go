package extract

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"net/url"

	"google.golang.org/protobuf/proto"
)

// CertURI returns the first URI among the names in the caller's certificate, such as
// spiffe://example.org/ns/shop/sa/cart.
func CertURI() Key {
	return certificate("URI in the client certificate", func(c *x509.Certificate) string {
		return firstURI(c.URIs)
	})
}

func firstURI(uris []*url.URL) string {
	if len(uris) == 0 {
		return ""
	}
	return uris[0].String()
}

// CertDNS returns the first DNS name in the caller's certificate.
func CertDNS() Key {
	return certificate("DNS name in the client certificate", func(c *x509.Certificate) string {
		if len(c.DNSNames) == 0 {
			return ""
		}
		return c.DNSNames[0]
	})
}

// CertCommonName returns the common name of the subject of the caller's certificate.
func CertCommonName() Key {
	return certificate("common name in the client certificate", func(c *x509.Certificate) string {
		return c.Subject.CommonName
	})
}

// certificate returns a part of the certificate that the handshake verified.
func certificate(what string, part func(*x509.Certificate) string) Key {
	none := missing(what)
	return func(r Request) (string, error) {
		state := r.tls()
		if state == nil || len(state.PeerCertificates) == 0 {
			return "", errNoCert
		}
		if len(state.VerifiedChains) == 0 {
			return "", errUnverified
		}
		if s := part(state.PeerCertificates[0]); s != "" {
			return s, nil
		}
		return "", none
	}
}

var (
	errNoCert     = missing("client certificate")
	errUnverified = &MissingError{"client certificate", "was not verified; tls.Config.ClientAuth must be VerifyClientCertIfGiven or RequireAndVerifyClientCert"}
)

// CertFingerprint returns the SHA-256 of the caller's certificate in hexadecimal. The handshake
// proves possession of its key, so the certificate need not be verified. But a caller that may use
// any certificate may use many.
func CertFingerprint() Key {
	return func(r Request) (string, error) {
		state := r.tls()
		if state == nil || len(state.PeerCertificates) == 0 {
			return "", errNoCert
		}
		sum := sha256.Sum256(state.PeerCertificates[0].Raw)
		return hex.EncodeToString(sum[:]), nil
	}
}

// messageSize returns the size of a protobuf message without encoding it.
func messageSize(m any) (int64, bool) {
	if m, ok := m.(proto.Message); ok {
		return int64(proto.Size(m)), true
	}
	return 0, false
}
