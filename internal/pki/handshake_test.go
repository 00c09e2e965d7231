package pki

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

// TestPeerPort is the table of who gets in at the port for nodes, and what the
// log says of the others.
func TestPeerPort(t *testing.T) {
	c := &clock{now: start}
	ca, other := newCA(t, "prod"), newCA(t, "prod")
	issue := func(ca *CA, id Identity, at time.Time, ttl time.Duration) Pair {
		t.Helper()
		return must[Pair](t)(ca.Issue(id, hostsOf(id), at, ttl))
	}
	server := storeOf(t, c, issue(ca, nodeID("n1"), start, day), ca)
	wantN1 := Want{Node: "n1"}
	for _, tc := range []struct {
		name                 string
		shown                Pair
		want                 Want
		trust                *CA
		change               func(*tls.Config)
		server, client       string // what the sentences have
		serverWhy, clientWhy Why
	}{
		{name: "good", shown: issue(ca, nodeID("n2"), start, day), want: wantN1},
		{name: "good, any node wanted", shown: issue(ca, nodeID("n2"), start, day)},
		{
			name: "wrong CA", shown: issue(other, nodeID("n2"), start, day), want: wantN1,
			server: `the certificate of node n2 of cluster prod was signed by another CA ("`, serverWhy: OtherCA,
			client: "the other side refused this side's certificate; its log says why", clientWhy: Refused,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			trusted := ca
			if tc.trust != nil {
				trusted = tc.trust
			}
			config := storeOf(t, c, tc.shown, trusted).ClientConfig(tc.want)
			if tc.change != nil {
				tc.change(config)
			}
			serverErr, clientErr := handshake(t, server.ServerConfig(PeerPort), config)
			expect(t, "server", serverErr, tc.serverWhy, tc.server)
			expect(t, "client", clientErr, tc.clientWhy, tc.client)
		})
	}
}

func expect(t *testing.T, end string, err error, why Why, text string) {
	t.Helper()
	if got := whyOf(err); got != why {
		t.Errorf("%s: got %q (%v), want %q", end, got, err, why)
		return
	}
	if err = Explain(err); err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: says %q, want %q in it", end, err, text)
	}
	if err != nil {
		t.Logf("%s: %s", end, err)
	}
}
