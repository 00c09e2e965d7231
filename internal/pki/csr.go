package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// Bounds of a certificate request.
const (
	maxCSR   = 16 << 10 // bytes
	maxHosts = 32
	maxHost  = 253 // bytes of a host name
	minRSA   = 2048
	maxRSA   = 8192 // bits; verifying with a larger key costs more than sending it
)

// NewKeyAndCSR creates a key (ECDSA P-256, PKCS#8) and a certificate request for id. The key stays
// with the caller. hosts are the names and addresses under which others reach the node; a client
// has none.
func NewKeyAndCSR(id Identity, hosts []string) (key KeyPEM, csrDER []byte, err error) {
	names, err := sansOf(id, hosts)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	csrDER, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  subjectOf(id),
		URIs:     names.uris,
		DNSNames: names.dns, IPAddresses: names.ips,
	}, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate request: %w", err)
	}
	key, err = encodeKey(signer)
	return key, csrDER, err
}

// parseCSR checks a request from an unauthenticated sender: its size, its key, and that the sender
// holds the key. If the request names an identity, it must be id.
func parseCSR(der []byte, id Identity) (*x509.CertificateRequest, error) {
	if len(der) > maxCSR {
		return nil, fmt.Errorf("certificate request: is %d bytes; at most %d", len(der), maxCSR)
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("certificate request: cannot be read: %w", err)
	}
	// The key's size first: checking a signature of a huge one takes long.
	if err := checkPublicKey(req.PublicKey); err != nil {
		return nil, fmt.Errorf("certificate request: %w", err)
	}
	if err := req.CheckSignature(); err != nil {
		return nil, errors.New("certificate request: its signature does not match its key")
	}
	for _, u := range req.URIs {
		if u.String() != id.URI() {
			return nil, fmt.Errorf("certificate request: is for %q; must be for %s", clip(u.String()), id.URI())
		}
	}
	return req, nil
}

func checkPublicKey(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() {
			return nil
		}
		return fmt.Errorf("key: is ECDSA %s; must be ECDSA P-256 or P-384, Ed25519, or RSA of at least %d bits", k.Curve.Params().Name, minRSA)
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if n := k.N.BitLen(); n < minRSA || n > maxRSA {
			return fmt.Errorf("key: is RSA of %d bits; must be %d to %d", n, minRSA, maxRSA)
		}
		return nil
	}
	return fmt.Errorf("key: is a %T; must be ECDSA P-256 or P-384, Ed25519, or RSA of at least %d bits", key, minRSA)
}

// sans are the subject alternative names of a certificate.
type sans struct {
	uris []*url.URL
	dns  []string
	ips  []net.IP
}

func sansOf(id Identity, hosts []string) (sans, error) {
	if err := id.Check(); err != nil {
		return sans{}, err
	}
	if id.Kind == Client { // nodes that exist have to renew theirs
		if err := id.CheckNew(); err != nil {
			return sans{}, err
		}
	}
	if id.Kind == Client && len(hosts) > 0 {
		return sans{}, fmt.Errorf("hosts: %d; a client has none, because nobody dials it", len(hosts))
	}
	if len(hosts) > maxHosts {
		return sans{}, fmt.Errorf("hosts: %d; at most %d", len(hosts), maxHosts)
	}
	out := sans{uris: []*url.URL{{Scheme: "spiffe", Host: id.Cluster, Path: "/" + id.Kind.String() + "/" + id.Name}}}
	for _, h := range hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			if ip.Zone() != "" {
				return sans{}, fmt.Errorf("hosts: %q has a zone; must be an address without one", h)
			}
			out.ips = append(out.ips, ip.Unmap().AsSlice())
			continue
		}
		if err := checkHost(h); err != nil {
			return sans{}, err
		}
		out.dns = append(out.dns, strings.ToLower(h))
	}
	return out, nil
}

// checkHost accepts host names only, without wildcard or port.
func checkHost(h string) error {
	bad := fmt.Errorf("hosts: %q is neither a host name nor an address", clip(h))
	if len(h) > maxHost {
		return bad
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
			return bad
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
				return bad
			}
		}
	}
	return nil
}

// subjectOf returns a subject for people who list certificates; no code reads it.
func subjectOf(id Identity) pkix.Name {
	return pkix.Name{CommonName: commonName(id.Kind.String()+" ", id.Name)}
}

// commonName cuts a name to the 64 characters that X.520 allows for a common name.
func commonName(what, name string) string {
	const most = 64
	if len(what)+len(name) > most {
		name = name[:most-len(what)-3] + "..."
	}
	return what + name
}
