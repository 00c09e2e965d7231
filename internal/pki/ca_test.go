package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

func certOf(t testing.TB, p Pair) *x509.Certificate {
	t.Helper()
	return must[[]*x509.Certificate](t)(ParseCertificates(p.CertPEM))[0]
}

func TestNewCA(t *testing.T) {
	ca := must[*CA](t)(NewCA("prod", start, 0))
	c := ca.Certificate
	switch {
	case !c.IsCA || !c.BasicConstraintsValid || c.MaxPathLen != 0 || !c.MaxPathLenZero:
		t.Error("is no CA with path length 0")
	case c.Subject.CommonName != "quorate CA of prod":
		t.Errorf("common name %q", c.Subject.CommonName)
	case !c.NotBefore.Equal(start.Add(-Skew)) || !c.NotAfter.Equal(start.Add(CALife)):
		t.Errorf("valid from %s to %s", c.NotBefore, c.NotAfter)
	case c.SerialNumber.BitLen() != 128:
		t.Errorf("the serial number has %d bits", c.SerialNumber.BitLen())
	case c.PublicKey.(*ecdsa.PublicKey).Curve != elliptic.P256():
		t.Error("the key is not P-256")
	case !slices.Equal(c.PermittedURIDomains, []string{"prod"}) || !c.PermittedDNSDomainsCritical:
		t.Error("the CA may name anybody")
	}
	long := must[*CA](t)(NewCA(strings.Repeat("x", 63)+"."+strings.Repeat("y", 60), start, 0))
	if cn := long.Certificate.Subject.CommonName; len(cn) != 64 {
		t.Errorf("the common name %q has %d characters, want 64", cn, len(cn))
	}
	for name, err := range map[string]error{
		`cluster: "a b"`:      second(NewCA("a b", start, 0)),
		"cluster: is empty":   second(NewCA("", start, 0)),
		"not be an address":   second(NewCA("10.1.1.1", start, 0)),
		"the parts between":   second(NewCA("a..b", start, 0)),
		"ttl: is -1s; must":   second(NewCA("prod", start, -time.Second)),
		"begin with a letter": second(NewCA("_x", start, 0)),
	} {
		wantErr(t, name, err, name)
	}
}

func TestParseCA(t *testing.T) {
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	p, q := must[Pair](t)(ca.Pair()), must[Pair](t)(other.Pair())
	got := must[*CA](t)(ParseCA(p.CertPEM, p.KeyPEM, start))
	if !got.Certificate.Equal(ca.Certificate) {
		t.Error("another certificate comes back")
	}
	// What comes back signs for those who trust the first.
	leaf := issue(t, got, nodeID("n1"), start)
	check(t, newTrust([]*x509.Certificate{ca.Certificate}).verify([]*x509.Certificate{certOf(t, leaf)}, x509.ExtKeyUsageServerAuth, start))

	noSign := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	crlOnly := selfSigned(t, noSign, func(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCRLSign })
	for _, tc := range []struct {
		name string
		cert []byte
		key  KeyPEM
		now  time.Time
		err  string
	}{
		{"another key", p.CertPEM, q.KeyPEM, start, "the key does not belong to the certificate (CA "},
		{"a node's", leaf.CertPEM, leaf.KeyPEM, start, "the certificate (node n1 of cluster prod) is not a CA certificate"},
		{"may not sign", crlOnly.CertPEM, crlOnly.KeyPEM, start, "may not sign others"},
		{"expired", p.CertPEM, p.KeyPEM, start.Add(CALife), "expired 30 days ago"},
		{"not yet", p.CertPEM, p.KeyPEM, start.Add(-31 * day), "is valid only in 23 hours"},
		{"two", append(slices.Clone(p.CertPEM), q.CertPEM...), p.KeyPEM, start, "has 2 certificates; must be one"},
		{"none", nil, p.KeyPEM, start, "certificates: none found; must be PEM"},
		{"no key", p.CertPEM, nil, start, "private key: none found; must be PEM"},
		{"exchanged", []byte(p.KeyPEM), p.CertPEM, start, `have a PEM block "PRIVATE KEY"; must be CERTIFICATE alone`},
		{"certificate as key", p.CertPEM, p.CertPEM, start, `private key: is a PEM block "CERTIFICATE"; must be PRIVATE KEY`},
		{"broken key", p.CertPEM, KeyPEM(strings.Replace(string(p.KeyPEM), "M", "N", 3)), start, "private key: cannot be read; the file is damaged"},
		{"encrypted key", p.CertPEM, []byte(strings.ReplaceAll(string(p.KeyPEM), "PRIVATE", "ENCRYPTED PRIVATE")), start, "is encrypted with a password; must be without one"},
		{"huge", make([]byte, 2<<20), p.KeyPEM, start, "2097152 bytes; at most 1048576"},
	} {
		wantErr(t, tc.name, second(ParseCA(tc.cert, tc.key, tc.now)), tc.err)
	}
}

// selfSigned makes a certificate that is its own CA.
func selfSigned(t testing.TB, key crypto.Signer, change func(*x509.Certificate)) Pair {
	t.Helper()
	template := &x509.Certificate{SerialNumber: serialOne, NotBefore: start.Add(-day), NotAfter: start.Add(day), BasicConstraintsValid: true}
	change(template)
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return Pair{encodeCert(der), must[KeyPEM](t)(encodeKey(key))}
}

func TestSign(t *testing.T) {
	ca := must[*CA](t)(NewCA("prod", start, 100*day))
	hosts := []string{"10.0.0.1", "::1", "::ffff:10.0.0.2", "N1.example", "n1"}
	key, csr, err := NewKeyAndCSR(nodeID("n1"), hosts)
	check(t, err)
	c := certOf(t, Pair{CertPEM: must[[]byte](t)(ca.Sign(csr, nodeID("n1"), hosts, start, day))})
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	switch {
	case c.IsCA || !c.BasicConstraintsValid || c.KeyUsage != x509.KeyUsageDigitalSignature:
		t.Error("the certificate may sign others")
	case !slices.Equal(c.ExtKeyUsage, both):
		t.Errorf("a node's uses: %v", c.ExtKeyUsage)
	case len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://prod/node/n1":
		t.Errorf("URI SANs: %v", c.URIs)
	case !slices.Equal(c.DNSNames, []string{"n1.example", "n1"}) || len(c.IPAddresses) != 3:
		t.Errorf("SANs: %v %v", c.DNSNames, c.IPAddresses)
	case c.SerialNumber.BitLen() != 128 || c.SerialNumber.Cmp(ca.Certificate.SerialNumber) == 0:
		t.Errorf("serial number %x", c.SerialNumber)
	case !c.NotBefore.Equal(start.Add(-Skew)) || !c.NotAfter.Equal(start.Add(day)):
		t.Errorf("valid from %s to %s", c.NotBefore, c.NotAfter)
	case c.CheckSignatureFrom(ca.Certificate) != nil:
		t.Error("is not signed by the CA")
	case !sameKey(c.PublicKey, must[crypto.Signer](t)(parseKey(key)).Public()):
		t.Error("is for another key")
	}
	for _, h := range []string{"10.0.0.2", "::1", "n1.example", "N1"} {
		check(t, c.VerifyHostname(h))
	}
	client := certOf(t, issue(t, ca, clientID("x"), start))
	if !slices.Equal(client.ExtKeyUsage, both[1:]) || client.URIs[0].String() != "spiffe://prod/client/x" {
		t.Errorf("a client's: %v %v", client.ExtKeyUsage, client.URIs)
	}
	// Nothing outlives its CA.
	late := certOf(t, issue(t, ca, nodeID("n1"), start.Add(99*day)))
	if !late.NotAfter.Equal(ca.Certificate.NotAfter) {
		t.Errorf("expires at %s, its CA at %s", late.NotAfter, ca.Certificate.NotAfter)
	}
}

// TestSignKeys: which keys get a certificate.
func TestSignKeys(t *testing.T) {
	ca := newCA(t, "prod")
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	curve := func(c elliptic.Curve) crypto.Signer {
		return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(c, rand.Reader))
	}
	for name, tc := range map[string]struct {
		key crypto.Signer
		err string
	}{
		"P-256":    {curve(elliptic.P256()), ""},
		"P-384":    {curve(elliptic.P384()), ""},
		"P-224":    {curve(elliptic.P224()), "key: is ECDSA P-224; must be ECDSA P-256 or P-384, Ed25519, or RSA of at least 2048 bits"},
		"P-521":    {curve(elliptic.P521()), "key: is ECDSA P-521; must be"},
		"Ed25519":  {edKey, ""},
		"RSA 2048": {must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 2048)), ""},
		"RSA 1024": {must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, 1024)), "key: is RSA of 1024 bits; must be 2048 to 8192"},
	} {
		csr := must[[]byte](t)(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, tc.key))
		cert, err := ca.Sign(csr, nodeID("n1"), nil, start, day)
		if tc.err != "" {
			wantErr(t, name, err, tc.err)
			continue
		}
		if err != nil || !sameKey(certOf(t, Pair{CertPEM: cert}).PublicKey, tc.key.Public()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignErrors(t *testing.T) {
	if _, _, err := NewKeyAndCSR(clientID(strings.Repeat("x", quota.MaxNameLen-len("client:"))), nil); err != nil {
		t.Error(err)
	}
	ca := newCA(t, "prod")
	_, csr, err := NewKeyAndCSR(nodeID("n1"), nil)
	check(t, err)
	// A signature by another key: the sender does not hold the key.
	forged := slices.Clone(csr)
	forged[len(forged)-1] ^= 1
	requestErr := func(id Identity) error {
		_, _, err := NewKeyAndCSR(id, nil)
		return err
	}
	sign := func(csr []byte, id Identity, hosts []string, at time.Time, ttl time.Duration) error {
		return second(ca.Sign(csr, id, hosts, at, ttl))
	}
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"for another node", sign(csr, nodeID("n2"), nil, start, day), `is for "spiffe://prod/node/n1"; must be for spiffe://prod/node/n2`},
		{"for a client", sign(csr, clientID("n1"), nil, start, day), "must be for spiffe://prod/client/n1"},
		{"forged", sign(forged, nodeID("n1"), nil, start, day), "its signature does not match its key"},
		{"garbage", sign([]byte("x"), nodeID("n1"), nil, start, day), "certificate request: cannot be read"},
		{"empty", sign(nil, nodeID("n1"), nil, start, day), "certificate request: cannot be read"},
		{"huge", sign(make([]byte, 1<<20), nodeID("n1"), nil, start, day), "is 1048576 bytes; at most 16384"},
		{"no ttl", sign(csr, nodeID("n1"), nil, start, 0), "ttl: is 0s; must be positive"},
		{"CA expired", sign(csr, nodeID("n1"), nil, start.Add(CALife), day), "expired 30 days ago"},
		{"no name", sign(csr, nodeID(""), nil, start, day), "node: is empty"},
		{"no kind", sign(csr, Identity{"prod", 0, "n1"}, nil, start, day), "kind: is 0; must be node or client"},
		{"another cluster", sign(csr, Identity{"test", Node, "n1"}, nil, start, day), `is for cluster ["prod"]; cannot sign for node n1 of cluster test`},
		{"foreign", sign(csr, Identity{Kind: Client, Name: "spiffe://x/y"}, nil, start, day), "cannot sign for client spiffe://x/y"},
		{"a client's hosts", sign(csr, clientID("n1"), []string{"a"}, start, day), "a client has none"},
		{"a long client's name", requestErr(clientID(strings.Repeat("x", 122))), "client: is 122 bytes; at most 121"},
		{"a long client's name, signed", sign(csr, clientID(strings.Repeat("x", 128)), nil, start, day), "client: is 128 bytes; at most 121"},
		{"many hosts", sign(csr, nodeID("n1"), slices.Repeat([]string{"a"}, 33), start, day), "hosts: 33; at most 32"},
		{"wildcard", sign(csr, nodeID("n1"), []string{"*.example"}, start, day), `hosts: "*.example" is neither a host name nor an address`},
		{"port", sign(csr, nodeID("n1"), []string{"a:80"}, start, day), `"a:80" is neither`},
		{"zone", sign(csr, nodeID("n1"), []string{"fe80::1%eth0"}, start, day), "has a zone"},
		{"empty host", sign(csr, nodeID("n1"), []string{""}, start, day), `"" is neither`},
		{"dash", sign(csr, nodeID("n1"), []string{"-a"}, start, day), `"-a" is neither`},
		{"line break", sign(csr, nodeID("n1"), []string{"a\nb"}, start, day), `"a\nb" is neither`},
		{"long host", sign(csr, nodeID("n1"), []string{strings.Repeat("a.", 127) + "a"}, start, day), "is neither"},
	} {
		wantErr(t, tc.name, tc.err, tc.want)
	}
}
