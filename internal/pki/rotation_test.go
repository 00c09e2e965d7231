package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/buftest"
)

// TestRotation takes a server, two nodes and a client through the steps of a rotation,
// in the order in which cluster/membership/authority.go has them: all trust the next CA too, all get
// certificates of it, all drop the old one. After each single change at any of them,
// everybody dials the server and it dials everybody: none of these handshakes may fail.
// In the end what is of the old CA is refused.
func TestRotation(t *testing.T) {
	c := &clock{now: start}
	old, next := newCA(t, "prod"), newCA(t, "prod")
	ids := []Identity{nodeID("n1"), nodeID("n2"), nodeID("n3"), clientID("billing")}
	stores := make([]*Store, len(ids))
	for i, id := range ids {
		stores[i] = storeOf(t, c, Pair{}, old)
		check(t, install(stores[i], old, id, c.Now()))
	}
	server := stores[0].ServerConfig(PeerPort)
	api := stores[0].ServerConfig(APIPort)
	toServer := make([]*tls.Config, len(ids)) // made once: a running process does not make them again
	for i, s := range stores {
		toServer[i] = s.ClientConfig(Want{Node: "n1"})
	}
	done := 0
	everybody := func(when string) {
		t.Helper()
		for i, id := range ids[1:] {
			at := server
			if id.Kind == Client {
				at = api
			}
			serverErr, clientErr := handshake(t, at, toServer[i+1])
			if err := errors.Join(serverErr, clientErr); err != nil {
				t.Fatalf("%s: %s dials n1: %v", when, id, err)
			}
			if done++; id.Kind == Client {
				continue
			}
			serverErr, clientErr = handshake(t, stores[i+1].ServerConfig(PeerPort), stores[0].ClientConfig(Want{Node: id.Name}))
			if err := errors.Join(serverErr, clientErr); err != nil {
				t.Fatalf("%s: n1 dials %s: %v", when, id, err)
			}
			done++
		}
	}
	spread := func(when string, trusted ...*CA) {
		t.Helper()
		for i, s := range stores {
			check(t, s.SetBundle(bundleOf(trusted...)))
			everybody(fmt.Sprintf("%s, %s has the bundle", when, ids[i]))
		}
	}

	everybody("before")
	spread("trusting", old, next)
	for i, id := range ids {
		if stores[i].Status().Issuer != Fingerprint(old.Certificate) || !stores[i].Status().Trusts(Fingerprint(next.Certificate)) {
			t.Fatalf("%s before it renews: %+v", id, stores[i].Status())
		}
		check(t, install(stores[i], next, id, c.Now()))
		if stores[i].Status().Issuer != Fingerprint(next.Certificate) {
			t.Fatalf("%s after it has renewed: %+v", id, stores[i].Status())
		}
		everybody(fmt.Sprintf("renewing, %s has renewed", id))
	}
	spread("dropping", next)

	late := storeOf(t, c, issue(t, old, nodeID("n4"), start), old, next)
	serverErr, _ := handshake(t, server, late.ClientConfig(Want{Node: "n1"}))
	expect(t, "server", serverErr, OtherCA, "signed by another CA")
	_, clientErr := handshake(t, late.ServerConfig(PeerPort), stores[0].ClientConfig(Want{Node: "n4"}))
	expect(t, "client", clientErr, OtherCA, "signed by another CA")
	t.Logf("%d handshakes, none failed", done)
}

func install(s *Store, ca *CA, id Identity, now time.Time) error {
	p, err := ca.Issue(id, hostsOf(id), now, 7*day)
	return errors.Join(err, s.Install(p.CertPEM, p.KeyPEM))
}

// TestConcurrent renews and changes the bundle while handshakes are under way.
func TestConcurrent(t *testing.T) {
	c := &clock{now: start}
	ca, next := newCA(t, "prod"), newCA(t, "prod")
	server := storeOf(t, c, issue(t, ca, nodeID("n1"), start), ca)
	client := storeOf(t, c, issue(t, ca, nodeID("n2"), start), ca)
	from, to := server.ServerConfig(PeerPort), client.ClientConfig(Want{Node: "n1"})
	var dialers sync.WaitGroup
	for range 4 {
		dialers.Go(func() {
			for range 20 {
				serverErr, clientErr := handshake(t, from, to)
				if err := errors.Join(serverErr, clientErr); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		for who, s := range map[string]*Store{"n1": server, "n2": client} {
			check(t, install(s, ca, nodeID(who), start))
			bundle := bundleOf(ca)
			if i%2 == 0 {
				bundle = bundleOf(next, ca)
			}
			check(t, s.SetBundle(bundle))
			if len(s.Warnings()) > 0 || s.Status().Issuer != Fingerprint(ca.Certificate) {
				t.Errorf("%s: %v %q", who, s.Status(), s.Warnings())
			}
		}
	}
	dialers.Wait()
}

func second[T any](_ T, err error) error { return err }

func wantErr(t *testing.T, name string, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: got error %v, want %q in it", name, err, text)
	}
}

// TestRenewal renews under a running HTTP server whose configuration net/http
// has cloned and changed: new handshakes show the new certificate, and speak
// HTTP/2 as before.
func TestRenewal(t *testing.T) {
	c := &clock{now: start}
	ca := newCA(t, "prod")
	s := storeOf(t, c, Pair{}, ca)
	check(t, install(s, ca, nodeID("n1"), start))
	var logged buftest.Buffer
	server := http.Server{TLSConfig: s.ServerConfig(APIPort), ErrorLog: log.New(&logged, "", 0)}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, sent, err := s.Caller(*r.TLS)
		fmt.Fprintf(w, "%s %v %t %v", r.Proto, who, sent, err)
	})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(l, "", "") }()
	defer server.Close()

	client := storeOf(t, c, issue(t, ca, clientID("billing"), start), ca)
	var serials []string
	get := func(config *tls.Config) (string, error) {
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		req := must[*http.Request](t)(http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+l.Addr().String(), http.NoBody))
		res, err := transport.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		serials = append(serials, fmt.Sprintf("%x", res.TLS.PeerCertificates[0].SerialNumber))
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	const want = "HTTP/2.0 client billing of cluster prod true <nil>"
	for i := range 3 {
		if got, err := get(client.ClientConfig(Want{})); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
		if got := s.Status().Serial; serials[i] != got {
			t.Errorf("the server shows %s, the store has %s", serials[i], got)
		}
		check(t, install(s, ca, nodeID("n1"), c.Now()))
	}
	if serials[0] == serials[1] || serials[1] == serials[2] {
		t.Errorf("certificates shown: %v; want another each time", serials)
	}
	// What net/http logs by itself is a sentence too.
	c.add(8 * day)
	check(t, install(s, ca, nodeID("n1"), c.Now()))
	if _, err := get(client.ClientConfig(Want{})); err == nil { // its words depend on who is faster
		t.Error("an expired client was served")
	}
	check(t, server.Shutdown(context.Background()))
	<-ended
	if text := "the certificate of client billing of cluster prod expired 1 day ago"; !strings.Contains(logged.String(), text) {
		t.Errorf("net/http logged %q, want %q in it", logged.String(), text)
	}
}

// TestPinned is a node with nothing but a token that dials a member.
func TestPinned(t *testing.T) {
	c := &clock{now: start}
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	pin := func(ca *CA) Hash {
		token, _, _ := NewJoinToken(ca.Certificate, NewSeed())
		return must[JoinToken](t)(ParseJoinToken(token)).CAHash
	}
	leaf := func(p Pair) Hash {
		return Fingerprint(must[[]*x509.Certificate](t)(ParseCertificates(p.CertPEM))[0])
	}
	node := issue(t, ca, nodeID("n1"), start)
	for _, tc := range []struct {
		name  string
		shown Pair
		trust []*CA
		pin   Hash
		why   Why
		text  string
	}{
		{name: "good", shown: node, trust: []*CA{ca}, pin: pin(ca)},
		{name: "while rotating", shown: node, trust: []*CA{other, ca}, pin: pin(ca)},
		{name: "another cluster's", shown: node, trust: []*CA{ca}, pin: pin(other), why: OtherCA, text: "it is of another cluster, or its CA was changed after the token was made; it sent that of CA"},
		{name: "the CA is sent, and has not signed", shown: withChain(issue(t, other, nodeID("n1"), start), ca), trust: []*CA{ca}, pin: pin(ca), why: OtherCA, text: "signed by another CA"},
		{name: "pinned to the node itself", shown: node, trust: []*CA{ca}, pin: leaf(node), why: OtherCA, text: "did not send the CA certificate"},
		{name: "expired", shown: issue(t, ca, nodeID("n1"), start.Add(-8*day)), trust: []*CA{ca}, pin: pin(ca), why: Expired, text: "expired 1 day ago"},
		{name: "a client", shown: issue(t, ca, clientID("x"), start), trust: []*CA{ca}, pin: pin(ca), why: WrongUse, text: "may not be used by the server"},
		{name: "a client that may serve", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs = must[sans](t)(sansOf(clientID("x"), nil)).uris }), trust: []*CA{ca}, pin: pin(ca), why: WrongKind, text: "must be a node's"},
		{name: "nobody", shown: custom(t, ca, func(c *x509.Certificate) { c.URIs = nil }), trust: []*CA{ca}, pin: pin(ca), why: NoIdentity, text: "has no URI SAN"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := storeOf(t, c, tc.shown, tc.trust...)
			var got Pinned
			_, clientErr := connect(t, func(nc net.Conn) error { return second(serve(nc, server.ServerConfig(APIPort))) }, func(nc net.Conn) error {
				conn, err := dial(nc, PinnedConfig(tc.pin, c.Now))
				if err != nil {
					return err
				}
				got, err = CheckPinned(conn.ConnectionState(), tc.pin, c.Now())
				return err
			})
			expect(t, "client", clientErr, tc.why, tc.text)
			if tc.why == "" && (got.Node != nodeID("n1") || !got.CA.Equal(ca.Certificate)) {
				t.Errorf("got %v, want node n1 and the CA", got)
			}
		})
	}
}
