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
)

// TestRotation takes a server, two nodes and a client through a whole rotation.
// After each single change at any of them, everybody dials the server and it
// dials everybody: none of these handshakes may fail. In the end what is of the
// old CA is refused.
func TestRotation(t *testing.T) {
	c := &clock{now: start}
	old := newCA(t, "prod")
	a := Authority{Current: must[Pair](t)(old.Pair())}
	ids := []Identity{nodeID("n1"), nodeID("n2"), nodeID("n3"), clientID("billing")}
	stores := make([]*Store, len(ids))
	for i, id := range ids {
		stores[i] = storeOf(t, c, Pair{}, old)
		check(t, install(stores[i], old, id, c.Now()))
	}
	server := stores[0].ServerConfig(PeerPort)
	api := stores[0].ServerConfig(APIPort)
	toServer := make([]*tls.Config, len(ids)) // made once: a running process does not make them anew
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
	spread := func(when string) {
		t.Helper()
		for i, s := range stores {
			check(t, s.SetBundle(a.Bundle()))
			everybody(fmt.Sprintf("%s, %s has the bundle", when, ids[i]))
		}
	}
	advance := func(want Phase) {
		t.Helper()
		if stepped := step(t, &a, stores); !stepped || a.Phase != want {
			t.Fatalf("the rotation is %s (went on: %t), want %s", a.Phase, stepped, want)
		}
	}
	stuck := func(when string) {
		t.Helper()
		if before := a.Phase; step(t, &a, stores) {
			t.Fatalf("%s: the rotation went from %s to %s", when, before, a.Phase)
		}
	}

	everybody("before")
	next := must[*CA](t)(NewCA("prod", c.Now(), 0))
	a = must[Authority](t)(a.Rotate(must[Pair](t)(next.Pair())))
	check(t, stores[0].SetBundle(a.Bundle()))
	stuck("only n1 trusts the next CA")
	spread("trusting")
	advance(Renewing)
	for i, id := range ids {
		stuck(fmt.Sprintf("%s has not renewed", id))
		check(t, install(stores[i], must[*CA](t)(a.Signer(c.Now())), id, c.Now()))
		everybody(fmt.Sprintf("renewing, %s has renewed", id))
	}
	advance(Steady)
	spread("dropping")

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

// step asks all stores and advances if they are ready, as the meta leader does.
func step(t *testing.T, a *Authority, stores []*Store) (stepped bool) {
	t.Helper()
	_, next, err := a.Hashes()
	check(t, err)
	trust, renewed := true, true
	for _, s := range stores {
		st := s.Status()
		trust = trust && st.Trusts(next)
		renewed = renewed && st.Issuer == next
	}
	*a, stepped = a.Advance(trust, renewed)
	return stepped
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

// TestAuthority is the table of the state machine's edges.
func TestAuthority(t *testing.T) {
	one, two := Pair{CertPEM: []byte("one")}, Pair{CertPEM: []byte("two")}
	steady := Authority{Current: one}
	trusting := Authority{Trusting, one, two}
	renewing := Authority{Renewing, one, two}
	for _, tc := range []struct {
		from           Authority
		trust, renewed bool
		want           Phase
	}{
		{steady, true, true, Steady},
		{trusting, false, false, Trusting},
		{trusting, false, true, Trusting},
		{trusting, true, false, Renewing},
		{trusting, true, true, Renewing}, // one step at a time
		{renewing, true, false, Renewing},
		{renewing, false, true, Renewing},
		{renewing, true, true, Steady},
	} {
		got, stepped := tc.from.Advance(tc.trust, tc.renewed)
		if got.Phase != tc.want || stepped != (tc.want != tc.from.Phase) {
			t.Errorf("%s, trust %t, renewed %t: %s (went on: %t), want %s", tc.from.Phase, tc.trust, tc.renewed, got.Phase, stepped, tc.want)
		}
	}
	if got, _ := renewing.Advance(true, true); string(got.Current.CertPEM) != "two" || got.Next.CertPEM != nil {
		t.Errorf("at the end: %q and %q, want the next CA alone", got.Current.CertPEM, got.Next.CertPEM)
	}
	for name, tc := range map[string]struct {
		err  error
		text string
	}{
		"rotate while trusting": {second(trusting.Rotate(two)), "must end, or be aborted, first"},
		"rotate to nothing":     {second(steady.Rotate(Pair{})), "is empty"},
		"rotate to the same":    {second(steady.Rotate(one)), "is the current one"},
		"abort while renewing":  {second(renewing.Abort()), "the rotation is renewing; only while trusting can it be aborted"},
		"abort while steady":    {second(steady.Abort()), "the rotation is steady"},
		"sign with nothing":     {second(Authority{}.Signer(start)), "there is none"},
	} {
		wantErr(t, name, tc.err, tc.text)
	}
	if got, err := trusting.Abort(); err != nil || got.Phase != Steady || string(got.Bundle()) != "one" {
		t.Errorf("abort: %v, %v", got, err)
	}
}

// TestSigner: nobody gets a certificate of the next CA before all trust it.
func TestSigner(t *testing.T) {
	one, two := newCA(t, "prod"), newCA(t, "prod")
	a := Authority{Current: must[Pair](t)(one.Pair()), Next: must[Pair](t)(two.Pair())}
	for phase, want := range map[Phase]*CA{Steady: one, Trusting: one, Renewing: two} {
		a.Phase = phase
		if got := must[*CA](t)(a.Signer(start)); !got.Certificate.Equal(want.Certificate) {
			t.Errorf("%s: the wrong CA signs", phase)
		}
	}
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
	var logged syncBuffer
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

// syncBuffer is written by connections and read by the test.
type syncBuffer struct {
	mu sync.Mutex
	strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.String()
}

// TestPinned is a node with nothing but a token that dials a member.
func TestPinned(t *testing.T) {
	c := &clock{now: start}
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	pin := func(ca *CA) Hash {
		token, _, _ := NewJoinToken(ca.Certificate)
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
