package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// start is when the tests take place.
var start = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCA(t testing.TB, cluster string) *CA { return must[*CA](t)(NewCA(cluster, start, 0)) }

func bundleOf(cas ...*CA) []byte {
	var out []byte
	for _, ca := range cas {
		out = append(out, EncodeCertificates(ca.Certificate)...)
	}
	return out
}

func nodeID(id string) Identity { return Identity{"prod", Node, id} }

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
	return connect(t, func(c net.Conn) error { return talk(tls.Server(c, server)) }, func(c net.Conn) error { return talk(tls.Client(c, client)) })
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

func talk(c *tls.Conn) error {
	if err := c.HandshakeContext(context.Background()); err != nil {
		return err
	}
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
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
