package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestJoiningNode checks the error for the certificate that a joining node shows.
func TestJoiningNode(t *testing.T) {
	key, _, err := NewKeyAndCSR(nodeID("n2"), nil)
	check(t, err)
	probe := must[tls.Certificate](t)(ProbeCertificate(key))
	leaf := must[*x509.Certificate](t)(x509.ParseCertificate(probe.Certificate[0]))
	err = newTrust([]*x509.Certificate{newCA(t, "prod").Certificate}).verify([]*x509.Certificate{leaf}, x509.ExtKeyUsageServerAuth, time.Now())
	if whyOf(err) != Joining || !err.(*Error).Joining() || err.Error() != "the other side is a node that is still joining: it has no certificate of this cluster yet" {
		t.Errorf("%v", err)
	}
}

// TestPeerPort is the table of who gets in at the port for nodes, and what both
// logs say of the others.
func TestPeerPort(t *testing.T) {
	c := &clock{now: start}
	ca, stranger := newCA(t, "prod"), newCA(t, "prod")
	expired := issue(t, ca, nodeID("n2"), start.Add(-10*day))
	server := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	const refused = "the other side refused this side's certificate; its log says why"
	for _, tc := range []struct {
		name                 string
		shown                Pair
		change               func(*tls.Config)
		serverWhy, clientWhy Why
		server, client       string
	}{
		{name: "good", shown: issue(t, ca, nodeID("n2"), start)},
		{
			name: "no certificate", serverWhy: NoCertificate, clientWhy: NoCertificate,
			server: "the other side sent no certificate; one is needed here",
			client: "the other side needs a certificate, and this side sent none",
		},
		{
			name: "other CA", shown: issue(t, stranger, nodeID("n2"), start), serverWhy: OtherCA, clientWhy: Refused,
			server: `the certificate of node n2 of cluster prod was signed by another CA ("SERIALNUMBER=`, client: refused,
		},
		{
			name: "other CA, sent along", serverWhy: OtherCA, clientWhy: Refused,
			shown:  withChain(issue(t, stranger, nodeID("n2"), start), stranger),
			server: "was signed by another CA", client: refused,
		},
		{
			name: "expired", shown: expired, serverWhy: Expired, clientWhy: Refused,
			server: "the certificate of node n2 of cluster prod expired 3 days ago, at 2026-11-19 12:00:00 UTC", client: refused,
		},
		{
			name: "not yet valid", shown: issue(t, ca, nodeID("n2"), start.Add(2*time.Hour+Skew)), serverWhy: NotYetValid, clientWhy: Refused,
			server: "the certificate of node n2 of cluster prod is valid only in 2 hours, from 2026-11-22 14:00:00 UTC: are the clocks right?", client: refused,
		},
		{
			name: "a client's", shown: issue(t, ca, clientID("billing"), start), serverWhy: WrongKind, clientWhy: Refused,
			server: "the certificate is that of client billing of cluster prod; must be of a node of cluster prod", client: refused,
		},
		{
			name: "no URI SAN", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"n2"} }),
			serverWhy: NoIdentity, clientWhy: Refused, server: "the certificate has no URI SAN", client: refused,
		},
		{
			name: "two URI SANs", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs = append(c.URIs, c.URIs[0]) }),
			serverWhy: NoIdentity, clientWhy: Refused, server: "the certificate has 2 URI SANs; must be exactly one", client: refused,
		},
		{
			name: "for servers only", serverWhy: WrongUse, clientWhy: Refused,
			shown:  custom(t, ca, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }),
			server: "may not be used by the client of a connection", client: refused,
		},
		{
			name: "signed by a node", shown: signedByLeaf(t, ca), serverWhy: OtherCA, clientWhy: Refused,
			server: "was signed by another CA", client: refused,
		},
		{
			name: "the name of another cluster", serverWhy: OtherCluster, clientWhy: Refused,
			shown:  custom(t, ca, func(c *x509.Certificate) { c.URIs = must[sans](t)(sansOf(Identity{"test", Node, "n2"}, nil)).uris }),
			server: "was signed by a CA that may not sign for it", client: refused,
		},
		{
			name: "the CA itself", serverWhy: WrongUse, clientWhy: Refused,
			change: func(c *tls.Config) {
				shown := &tls.Certificate{Certificate: [][]byte{ca.Certificate.Raw}, PrivateKey: ca.key}
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
			},
			server: "the certificate is that of a CA", client: refused,
		},
		{
			name: "TLS 1.2", shown: issue(t, ca, nodeID("n2"), start), serverWhy: OldTLS, clientWhy: OldTLS,
			change: func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 },
			server: "the other side has no TLS 1.3; it is needed",
			client: "the other side has no common version of TLS with this one; TLS 1.3 is needed",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := storeOf(t, c, tc.shown, ca).ClientConfig(Want{Node: "n1"})
			if tc.change != nil {
				tc.change(config)
			}
			serverErr, clientErr := handshake(t, server.ServerConfig(PeerPort), config)
			expect(t, "server", serverErr, tc.serverWhy, tc.server)
			expect(t, "client", clientErr, tc.clientWhy, tc.client)
		})
	}
}

// TestNotTLS is what comes in at any port that the world can reach.
func TestNotTLS(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	server := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	for _, tc := range []struct {
		name, sent string
		why        Why
	}{
		{"garbage", strings.Repeat("\xde\xad\xbe\xef", 100), NotTLS},
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", NotTLS},
		{"nothing", "", HungUp},
		{"half a record", "\x16\x03\x01\x01\x00abc", HungUp},
	} {
		for port, config := range map[string]*tls.Config{"peer": server.ServerConfig(PeerPort), "API": server.ServerConfig(APIPort)} {
			t.Run(tc.name+", "+port, func(t *testing.T) {
				serverErr, _ := connect(t, func(c net.Conn) error { return second(serve(c, config)) }, func(c net.Conn) error {
					_, err := io.WriteString(c, tc.sent)
					return errors.Join(err, c.(*net.TCPConn).CloseWrite(), drain(c))
				})
				expect(t, "server", serverErr, tc.why, "")
			})
		}
	}
	t.Run("dialed", func(t *testing.T) {
		_, clientErr := connect(t, func(c net.Conn) error {
			_, err := io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			return errors.Join(err, c.(*net.TCPConn).CloseWrite(), drain(c))
		}, func(c net.Conn) error { return second(dial(c, server.ClientConfig(Want{}))) })
		expect(t, "client", clientErr, NotTLS, "the input is not TLS")
	})
}

func drain(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// TestDial is the table of whom a node takes for the one that it has dialed.
func TestDial(t *testing.T) {
	c := &clock{now: start}
	ca, stranger := newCA(t, "prod"), newCA(t, "prod")
	node := func(id string) Pair { return issue(t, ca, nodeID(id), start) }
	for _, tc := range []struct {
		name  string
		shown Pair
		want  Want
		why   Why
		text  string
	}{
		{name: "the node wanted", shown: node("n1"), want: Want{Node: "n1"}},
		{name: "any node", shown: node("n7")},
		{name: "any node, whatever the host", shown: node("n7"), want: Want{Host: "elsewhere.example"}},
		{
			name: "another node", shown: node("n3"), want: Want{Node: "n1"}, why: WrongNode,
			text: "the certificate is that of node n3 of cluster prod; must be that of node n1",
		},
		{
			name: "the node's name with other capitals", shown: node("N1"), want: Want{Node: "n1"}, why: WrongNode,
			text: "must be that of node n1",
		},
		{name: "other CA", shown: issue(t, stranger, nodeID("n1"), start), want: Want{Node: "n1"}, why: OtherCA, text: "signed by another CA"},
		{name: "expired", shown: issue(t, ca, nodeID("n1"), start.Add(-8*day)), want: Want{Node: "n1"}, why: Expired, text: "expired 1 day ago"},
		{
			name: "a client poses as a server", shown: issue(t, ca, clientID("n1"), start), want: Want{Node: "n1"}, why: WrongUse,
			text: "the certificate of client n1 of cluster prod may not be used by the server of a connection",
		},
		{
			name: "a client of the API", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs = must[sans](t)(sansOf(clientID("x"), nil)).uris }),
			why: WrongKind, text: "must be of a node of cluster prod",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := storeOf(t, c, tc.shown, ca, stranger)
			client := storeOf(t, c, node("n2"), ca)
			_, clientErr := handshake(t, server.ServerConfig(APIPort), client.ClientConfig(tc.want))
			expect(t, "client", clientErr, tc.why, tc.text)
		})
	}
}

// TestAPIPort is the table of who gets in at the API's ports, and as whom.
func TestAPIPort(t *testing.T) {
	c := &clock{now: start}
	ca, stranger := newCA(t, "prod"), newCA(t, "prod")
	server := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	for _, tc := range []struct {
		name  string
		shown Pair
		who   string // "" for nobody
		why   Why
	}{
		{name: "no certificate"},
		{name: "client", shown: issue(t, ca, clientID("billing"), start), who: "client billing of cluster prod"},
		{name: "node", shown: issue(t, ca, nodeID("n2"), start), who: "node n2 of cluster prod"},
		{name: "expired", shown: issue(t, ca, clientID("billing"), start.Add(-8*day)), why: Expired},
		{name: "other CA", shown: issue(t, stranger, clientID("billing"), start), why: OtherCA},
		{name: "nobody", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs = nil }), why: NoIdentity},
		{name: "a DNS SAN alone", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs, c.DNSNames = nil, []string{"n2"} }), why: NoIdentity},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got Identity
			var sent bool
			client := storeOf(t, c, tc.shown, ca)
			serverErr, _ := connect(t, func(nc net.Conn) error {
				conn, err := serve(nc, server.ServerConfig(APIPort))
				if err != nil {
					return err
				}
				got, sent, err = server.Caller(conn.ConnectionState())
				return err
			}, func(nc net.Conn) error { return second(dial(nc, client.ClientConfig(Want{}))) })
			expect(t, "server", serverErr, tc.why, "")
			if sent != (tc.who != "") || sent && got.String() != tc.who {
				t.Errorf("the caller is %v %t, want %q", got, sent, tc.who)
			}
		})
	}
}

// TestIsNode holds the name that a peer gives itself to its certificate.
func TestIsNode(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	s := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	leaf := must[[]*x509.Certificate](t)(ParseCertificates(issue(t, ca, nodeID("n2"), start).CertPEM))[0]
	check(t, s.IsNode(leaf, "n2"))
	for _, other := range []string{"n1", "n22", "n", "", "N2", "node n2"} {
		if whyOf(s.IsNode(leaf, other)) != WrongNode {
			t.Errorf("n2 may call itself %q", other)
		}
	}
}

// TestStandingConnection: what was let in is refused when it is asked about
// again after its CA was dropped, or its time is over.
func TestStandingConnection(t *testing.T) {
	c := &clock{now: start}
	ca, next := newCA(t, "prod"), newCA(t, "prod")
	s := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	leaf := must[[]*x509.Certificate](t)(ParseCertificates(issue(t, ca, nodeID("n2"), start).CertPEM))
	cs := tls.ConnectionState{PeerCertificates: leaf}
	check(t, s.CheckCaller(PeerPort, cs))
	check(t, s.CheckServer(Want{Node: "n2"}, cs))
	c.add(8 * day)
	if got := whyOf(s.CheckCaller(PeerPort, cs)); got != Expired {
		t.Errorf("after its time: %q, want %q", got, Expired)
	}
	c.add(-8 * day)
	check(t, s.SetBundle(bundleOf(next)))
	if got := whyOf(s.CheckServer(Want{Node: "n2"}, cs)); got != OtherCA {
		t.Errorf("after its CA was dropped: %q, want %q", got, OtherCA)
	}
}

// TestNoResumption: a session is never taken up again, even by a client that
// would like to.
func TestNoResumption(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	server := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	serverConfig := server.ServerConfig(PeerPort) // one for all, as a ticket fits its own configuration alone
	config := storeOf(t, c, issue(t, ca, nodeID("n2"), start), ca).ClientConfig(Want{Node: "n1"})
	config.ClientSessionCache, config.SessionTicketsDisabled, config.ServerName = tls.NewLRUClientSessionCache(4), false, "n1"
	for range 3 {
		serverErr, clientErr := connect(t, func(nc net.Conn) error { return second(serve(nc, serverConfig)) }, func(nc net.Conn) error {
			conn, err := dial(nc, config)
			if conn.ConnectionState().DidResume {
				t.Error("the session was resumed")
			}
			return err
		})
		check(t, errors.Join(serverErr, clientErr))
	}
}

func expect(t *testing.T, end string, err error, why Why, text string) {
	t.Helper()
	if got := whyOf(err); got != why {
		t.Errorf("%s: is refused with %q (%v), want %q", end, got, err, why)
		return
	}
	if err == nil {
		return
	}
	if err = Explain(err); !strings.Contains(err.Error(), text) {
		t.Errorf("%s: says %q, want %q in it", end, err, text)
	}
	t.Logf("%s: %s", end, err)
}
