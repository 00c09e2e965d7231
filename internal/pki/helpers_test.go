package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// start is when the tests take place.
var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

var serialOne = big.NewInt(1)

// clock is a clock that tests set. Safe for concurrent use.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newCA makes one that is a month old, so that it can have signed what has
// expired since.
func newCA(t testing.TB, cluster string) *CA {
	t.Helper()
	return must[*CA](t)(NewCA(cluster, start.Add(-30*day), 0))
}

// issue makes a certificate that is valid for a week.
func issue(t testing.TB, ca *CA, id Identity, at time.Time) Pair {
	t.Helper()
	return must[Pair](t)(ca.Issue(id, hostsOf(id), at, 7*day))
}

func bundleOf(cas ...*CA) []byte {
	var out []byte
	for _, ca := range cas {
		out = append(out, EncodeCertificates(ca.Certificate)...)
	}
	return out
}

func nodeID(id string) Identity { return Identity{"prod", Node, id} }

func clientID(name string) Identity { return Identity{"prod", Client, name} }

// storeOf returns a store in memory that shows what p has and trusts cas. What
// Install would refuse is let through: strangers do not ask it.
func storeOf(t testing.TB, c *clock, p Pair, cas ...*CA) *Store {
	t.Helper()
	s := NewStore(Options{Cluster: "prod", Now: c.Now})
	check(t, s.SetBundle(bundleOf(cas...)))
	if len(p.CertPEM) > 0 {
		s.now.Store(must[*material](t)(s.current().withPair(p.CertPEM, p.KeyPEM)))
	}
	return s
}

// handshake connects two configurations over loopback, sends a byte each way, and
// returns what each end failed with.
func handshake(t testing.TB, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	return connect(t,
		func(c net.Conn) error { return second(serve(c, server)) },
		func(c net.Conn) error { return second(dial(c, client)) })
}

func connect(t testing.TB, server, client func(net.Conn) error) (serverErr, clientErr error) {
	t.Helper()
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	ended := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = within(c, server)
		}
		ended <- err
	}()
	c := must[net.Conn](t)(net.Dial("tcp", l.Addr().String()))
	clientErr = within(c, client)
	return <-ended, clientErr
}

func within(c net.Conn, do func(net.Conn) error) error {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return do(c)
}

// serve and dial are the two ends of a conversation. The server speaks first:
// a client that writes before it has heard that it is refused may see a reset
// connection and not the reason.
func serve(nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	c := tls.Server(nc, config)
	_, err := c.Write([]byte{1})
	return c, errors.Join(err, readByte(c, err))
}

func dial(nc net.Conn, config *tls.Config) (*tls.Conn, error) {
	c := tls.Client(nc, config)
	err := readByte(c, nil)
	if err == nil {
		_, err = c.Write([]byte{1})
	}
	return c, err
}

func readByte(r io.Reader, before error) error {
	if before != nil {
		return nil
	}
	_, err := io.ReadFull(r, make([]byte, 1))
	return err
}

// whyOf returns the reason of a refusal, "" for none, "?" for another error.
func whyOf(err error) Why {
	var e *Error
	switch err = Explain(err); {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Why
	}
	return "?"
}

func hostsOf(id Identity) []string {
	if id.Kind == Node {
		return []string{"127.0.0.1", "a.example"}
	}
	return nil
}

// custom makes a certificate of node n2 that Sign would not make.
func custom(t testing.TB, ca *CA, change func(*x509.Certificate)) Pair {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: serialOne, NotBefore: start, NotAfter: start.Add(day), ExtKeyUsage: uses(Node),
		URIs: must[sans](t)(sansOf(nodeID("n2"), nil)).uris,
	}
	change(template)
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, ca.Certificate, key.Public(), ca.key))
	return Pair{encodeCert(der), must[KeyPEM](t)(encodeKey(key))}
}

func withChain(p Pair, ca *CA) Pair {
	return Pair{append(p.CertPEM, bundleOf(ca)...), p.KeyPEM}
}

// signedByLeaf makes a certificate that a node has signed with its own.
func signedByLeaf(t testing.TB, ca *CA) Pair {
	t.Helper()
	p := issue(t, ca, nodeID("n3"), start)
	leaf := &CA{must[[]*x509.Certificate](t)(ParseCertificates(p.CertPEM))[0], must[crypto.Signer](t)(parseKey(p.KeyPEM))}
	return withChain(custom(t, leaf, func(*x509.Certificate) {}), leaf)
}

var serialTwo = big.NewInt(2)

func mustURI(t testing.TB, s string) []*url.URL {
	t.Helper()
	return []*url.URL{must[*url.URL](t)(url.Parse(s))}
}
