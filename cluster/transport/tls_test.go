package transport

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	mathbig "math/big"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/quota"
)

// authority is a test CA.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	ca := &authority{t: t}
	ca.key, ca.cert = ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	})
	return ca
}

func (ca *authority) sign(c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	c.SerialNumber = mathbig.NewInt(time.Now().UnixNano())
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		ca.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return key, cert
}

// issue creates a certificate for a URI of this cluster, such as node/a, valid for the given time
// from now.
func (ca *authority) issue(name string, valid time.Duration) *tls.Certificate {
	ca.t.Helper()
	key, cert := ca.sign(&x509.Certificate{
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "test", Path: "/" + name}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (ca *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(ca.cert)
	return p
}

// trusting returns a TLS that presents the certificate that show returns and trusts what trust
// returns.
func trusting(trust func() *x509.CertPool, show func() *tls.Certificate) *TLS {
	return &TLS{
		Server: func() *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{*show()}, ClientCAs: trust(), MinVersion: tls.VersionTLS13}
		},
		Client: func(quota.NodeID) *tls.Config {
			return &tls.Config{Certificates: []tls.Certificate{*show()}, RootCAs: trust(), MinVersion: tls.VersionTLS13}
		},
		NodeID: func(cs tls.ConnectionState) (quota.NodeID, error) {
			uri := cs.PeerCertificates[0].URIs[0]
			if path.Dir(uri.Path) != "/node" {
				return "", fmt.Errorf("%s is no node", uri)
			}
			return quota.NodeID(path.Base(uri.Path)), nil
		},
	}
}

func (ca *authority) with(cert *tls.Certificate) *TLS {
	return trusting(ca.pool, func() *tls.Certificate { return cert })
}

// secure gives a node TLS with a certificate of its own.
func (ca *authority) secure(c *Config) { c.TLS = ca.with(ca.issue("node/"+string(c.Self), time.Hour)) }

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	a, b := pair(t, ca.secure, ca.secure)
	got, err := a.Call(within(t, patience), "b", data, big(MaxFrame-64))
	if err != nil || len(got.GetCall().GetSetLimits().GetCommand()) != MaxFrame-64 {
		t.Fatal(err)
	}
	if _, err := a.Snapshot(within(t, patience), "b", frame(1), 3, strings.NewReader("abc")); fmt.Sprint(err) != "b answered: this node takes no snapshots" {
		t.Fatal(err)
	}
	cs := a.peer("b").links[0].conn.Load().nc.(*tls.Conn).ConnectionState()
	if cs.Version != tls.VersionTLS13 {
		t.Fatalf("TLS %x", cs.Version)
	}
	lost := time.Now()
	_ = b.Close()
	eventually(t, "b refuses", func() bool { return a.seen("b", Refused) == 1 })
	t.Logf("refused after %v", time.Since(lost).Round(time.Microsecond))
}

// TestTLSRefusals checks that a node without the certificate of the node that it claims to be
// cannot connect, and that the logs say why. Node a dials b, which does not dial back.
func TestTLSRefusals(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	goodA, goodB := ca.issue("node/a", time.Hour), ca.issue("node/b", time.Hour)
	shows := func(cert *tls.Certificate) *TLS { return trusting(ca.pool, func() *tls.Certificate { return cert }) }
	trusts := func(pool *x509.CertPool) *TLS {
		return trusting(func() *x509.CertPool { return pool }, func() *tls.Certificate { return goodA })
	}
	cases := map[string]struct {
		a, b       *TLS
		logA, logB string // expected in the logs; "" means no line
	}{
		"fits": {shows(goodA), shows(goodB), "", ""},
		"other node dials": {
			shows(ca.issue("node/c", time.Hour)), shows(goodB),
			`certificate: of node "c", the hello says "a"`, `certificate: of node "c", the hello says "a"`,
		},
		"other node answers": {
			shows(goodA), shows(ca.issue("node/c", time.Hour)),
			`by this side: certificate: of node "c", this side dialed "b"`, "",
		},
		"client dials": {
			shows(ca.issue("client/a", time.Hour)), shows(goodB),
			"certificate: not of a node: spiffe://test/client/a is no node", "certificate: not of a node: spiffe://test/client/a is no node",
		},
		"no certificate":     {shows(&tls.Certificate{}), shows(goodB), "remote error: tls: certificate required", "client didn't provide a certificate"},
		"wrong CA":           {shows(other.issue("node/a", time.Hour)), shows(goodB), "remote error: tls: unknown certificate authority", "signed by unknown authority"},
		"expired":            {shows(ca.issue("node/a", -time.Minute)), shows(goodB), "remote error: tls: expired certificate", "certificate has expired"},
		"answers expired":    {shows(goodA), shows(ca.issue("node/b", -time.Minute)), "certificate has expired", "remote error: tls: "},
		"trusts another CA":  {trusts(other.pool()), shows(goodB), "signed by unknown authority", "remote error: tls: "},
		"trusts nobody":      {trusts(nil), shows(goodB), "neither RootCAs nor", ""},
		"accepts anybody":    {shows(goodA), trusts(nil), "", "neither ClientCAs nor"},
		"has only TLS 1.2":   {old(shows(goodA)), shows(goodB), "", ""}, // strict raises it to TLS 1.3
		"no configuration":   {&TLS{Server: none, Client: noneFor, NodeID: shows(goodA).NodeID}, shows(goodB), "no configuration", ""},
		"plain dials TLS":    {nil, shows(goodB), "", "TLS: the other side does not use TLS"},
		"TLS dials plain":    {shows(goodA), nil, "TLS: ", "the other side uses TLS, and this node does not"},
		"several ids, right": {anyOf(shows(goodA), "a", "b"), anyOf(shows(goodB), "a", "b"), "", ""},
		"several ids, wrong": {shows(goodA), anyOf(shows(goodB), "b", "c"), `certificate: is not of that node; the hello says "a"`, `certificate: is not of that node; the hello says "a"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var logA, logB buftest.Buffer
			b := start(t, listen(t, "127.0.0.1:0"), "b", nil, func(cfg *Config) { cfg.TLS, cfg.Logger = c.b, logTo(&logB) })
			a := start(t, listen(t, "127.0.0.1:0"), "a", bookOf(b), func(cfg *Config) { cfg.TLS, cfg.Logger = c.a, logTo(&logA) })
			if c.logA == "" && c.logB == "" {
				setPeers(t, b, map[quota.NodeID]string{"a": deaf(t)})
				eventually(t, "b is up", func() bool { return a.Connected("b") })
				return
			}
			eventually(t, fmt.Sprintf("a logs %q", c.logA), func() bool { return strings.Contains(unquoted(&logA), c.logA) })
			eventually(t, fmt.Sprintf("b logs %q", c.logB), func() bool { return strings.Contains(unquoted(&logB), c.logB) })
			time.Sleep(200 * time.Millisecond) // and keeps failing
			if n := strings.Count(logB.String(), "connection rejected"); n > logLines {
				t.Errorf("b has logged it %d times:\n%s", n, logB.String())
			}
			if c.logB == "" && strings.Contains(logB.String(), "connection rejected") && c.logA == "" {
				t.Errorf("b has logged:\n%s", logB.String())
			}
			if a.Connected("b") {
				t.Error("connected")
			}
		})
	}
}

func logTo(b *buftest.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func unquoted(b *buftest.Buffer) string { return strings.ReplaceAll(b.String(), `\"`, `"`) }

func none() *tls.Config                { return nil }
func noneFor(quota.NodeID) *tls.Config { return nil }

// old requests an outdated TLS version.
func old(t *TLS) *TLS {
	edit := func(c *tls.Config) *tls.Config {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return c
	}
	return &TLS{
		Server: func() *tls.Config { return edit(t.Server()) },
		Client: func(to quota.NodeID) *tls.Config { return edit(t.Client(to)) },
		NodeID: t.NodeID,
	}
}

// anyOf accepts any certificate for the given ids and does the verification itself.
func anyOf(t *TLS, ids ...quota.NodeID) *TLS {
	return &TLS{
		Server: func() *tls.Config {
			c := t.Server()
			c.ClientCAs, c.ClientAuth = nil, tls.RequireAnyClientCert
			c.VerifyConnection = func(tls.ConnectionState) error { return nil }
			return c
		},
		Client: func(to quota.NodeID) *tls.Config {
			c := t.Client(to)
			c.RootCAs, c.InsecureSkipVerify = nil, true
			c.VerifyConnection = func(tls.ConnectionState) error { return nil }
			return c
		},
		IsNode: func(_ tls.ConnectionState, id quota.NodeID) error {
			if !slices.Contains(ids, id) {
				return errors.New("is not of that node")
			}
			return nil
		},
	}
}

func TestTLSNeedsItsFunctions(t *testing.T) {
	_, err := New(Config{Cluster: "test", Self: "a", Ranges: 1, Listener: noListener{}, TLS: &TLS{Server: none}})
	if err == nil || !strings.Contains(err.Error(), "tls: Server, Client, and one of NodeID and IsNode must be set") {
		t.Fatal(err)
	}
}

func TestExplain(t *testing.T) {
	var log buftest.Buffer
	ca := newAuthority(t)
	b := start(t, listen(t, "127.0.0.1:0"), "b", nil, func(c *Config) {
		ca.secure(c)
		c.TLS.Explain = func(err error) error { return fmt.Errorf("in better words: %w", err) }
		c.Logger = logTo(&log)
	})
	_, _ = dialIn(t, b).Write([]byte("GET / HTTP/1.1\r\nHost: b\r\n\r\n"))
	eventually(t, "b explains", func() bool { return strings.Contains(log.String(), "TLS: in better words: ") })
}

// notYet is the error for the certificate of a node that is still joining.
type notYet struct{}

func (notYet) Error() string { return "has not joined yet" }
func (notYet) Joining() bool { return true }

// TestJoiningNodeIsDialed checks that a node that is dialed before it has its certificate causes a
// warning only if it still has none after the grace.
func TestJoiningNodeIsDialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log buftest.Buffer
		a := newMemory().start(t, "a", map[quota.NodeID]string{"b": "nowhere"}, func(c *Config) { c.Logger = logTo(&log) })
		l := &link{peer: a.peer("b"), lane: peerv1.Lane_LANE_DATA}
		fails := func(after time.Duration) string {
			time.Sleep(after)
			l.failed("b", &tlsError{notYet{}, false})
			return log.String()
		}
		if got := fails(0) + fails(joiningGrace/2); got != "" {
			t.Errorf("b may join in a moment, and there is a warning:\n%s", got)
		}
		if got := fails(joiningGrace); !strings.Contains(got, `msg="no connection" peer=b`) || !strings.Contains(got, "has not joined yet") {
			t.Errorf("b does not join, and the log is:\n%s", got)
		}
	})
}

// TestRotation checks that every handshake uses the current certificates and CAs, and that
// established connections stay.
func TestRotation(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	both := func() *x509.CertPool {
		p := first.pool()
		p.AddCert(second.cert)
		return p
	}
	type shown struct {
		trust *x509.CertPool
		cert  *tls.Certificate
	}
	var now [2]atomic.Pointer[shown]
	turn := func(trust *x509.CertPool, ca *authority) {
		now[0].Store(&shown{trust, ca.issue("node/a", time.Hour)})
		now[1].Store(&shown{trust, ca.issue("node/b", time.Hour)})
	}
	turn(first.pool(), first)
	secure := func(i int) func(*Config) {
		return func(c *Config) {
			c.TLS = trusting(func() *x509.CertPool { return now[i].Load().trust }, func() *tls.Certificate { return now[i].Load().cert })
		}
	}
	a, b := pair(t, secure(0), secure(1))
	again := func(what string) {
		t.Helper()
		old := a.peer("b").links[1].conn.Load()
		old.close(errCut)
		eventually(t, what, func() bool {
			c := a.peer("b").links[1].conn.Load()
			return c != nil && c != old && a.Connected("b") && b.Connected("a")
		})
	}
	turn(both(), first)
	again("with both trusted")
	turn(both(), second)
	again("with certificates of the second CA")
	standing := a.peer("b").links[0].conn.Load()
	turn(second.pool(), second)
	again("with only the second CA trusted")
	if a.peer("b").links[0].conn.Load() != standing {
		t.Fatal("a connection that stands must stay")
	}
	turn(first.pool(), second)
	a.peer("b").links[1].conn.Load().close(errCut)
	eventually(t, "b is down", func() bool { return !a.Connected("b") })
	if a.WaitConnected(within(t, 300*time.Millisecond), "b") == nil {
		t.Fatal("connected with certificates that nobody trusts")
	}
}

// TestGarbageOnTLS checks that garbage soon closes the connection, with a line in the log, and
// leaves nothing behind.
func TestGarbageOnTLS(t *testing.T) {
	ca := newAuthority(t)
	hello, _ := encode(goodHello())
	for name, raw := range map[string][]byte{
		"http":               []byte("GET / HTTP/1.1\r\nHost: b\r\n\r\n"),
		"plain hello":        hello,
		"zeros":              make([]byte, 4096),
		"long client hello":  append([]byte{22, 3, 1, 0x48, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 0x4800)...),
		"record cut short":   {22, 3, 1, 2, 0, 1, 0},
		"alert of the other": {21, 3, 3, 0, 2, 2, 42},
	} {
		t.Run(name, func(t *testing.T) {
			var log buftest.Buffer
			b := start(t, listen(t, "127.0.0.1:0"), "b", nil, func(c *Config) { ca.secure(c); c.Logger = logTo(&log) })
			nc := dialIn(t, b)
			_, _ = nc.Write(raw)
			if name == "record cut short" {
				_ = nc.(*net.TCPConn).CloseWrite()
			}
			closedSoon(t, nc)
			eventually(t, "one line is logged", func() bool {
				return strings.Count(log.String(), "level=WARN msg=\"connection rejected\"") == 1 && strings.Contains(log.String(), "TLS: ")
			})
			eventually(t, "nothing is left", func() bool { return b.unauthenticated.len() == 0 && len(b.handshakes) == 0 })
		})
	}
}
