package pki

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestParseURI(t *testing.T) {
	long := strings.Repeat("x", 128)
	for _, tc := range []struct {
		uri  string
		want Identity
		err  string
	}{
		{uri: "spiffe://prod/node/n1", want: Identity{"prod", Node, "n1"}},
		{uri: "spiffe://eu.Prod_1-a/client/a.b_c-D", want: Identity{"eu.Prod_1-a", Client, "a.b_c-D"}},
		{uri: "spiffe://prod/client/" + long, want: Identity{"prod", Client, long}},
		{uri: "spiffe://prod/client/x" + long, err: "client: is 129 bytes; at most 128"},
		{uri: "", err: "must begin with spiffe://"},
		{uri: "https://prod/node/n1", err: "must begin with spiffe://"},
		{uri: "SPIFFE://prod/node/n1", err: "must begin with spiffe://"},
		{uri: "spiffe://prod/node", err: "must be spiffe://<cluster>/node/<id> or spiffe://<cluster>/client/<name>"},
		{uri: "spiffe://prod/node/n1/", err: "must be spiffe://<cluster>/node/<id>"},
		{uri: "spiffe://prod/node/a/b", err: "must be spiffe://<cluster>/node/<id>"},
		{uri: "spiffe://prod//n1", err: "the word after the cluster must be node or client"},
		{uri: "spiffe://prod/Node/n1", err: "the word after the cluster must be node or client"},
		{uri: "spiffe:///node/n1", err: "cluster: is empty"},
		{uri: "spiffe://prod/node/", err: "node: is empty"},
		{uri: "spiffe://prod/node/..", err: `node: is ".."; must begin with a letter or digit`},
		{uri: "spiffe://prod/node/n%31", err: `node: "n%31" has '%' at byte 1`},
		{uri: "spiffe://prod/node/n1?x", err: `node: "n1?x" has '?' at byte 2`},
		{uri: "spiffe://prod/node/n1#", err: `node: "n1#" has '#' at byte 2`},
		{uri: "spiffe://prod/node/n1\n", err: `has '\n' at byte 2`},
		{uri: "spiffe://prod:1/node/n1", err: `cluster: "prod:1" has ':' at byte 4`},
		{uri: "spiffe://me@prod/node/n1", err: `has '@' at byte 2`},
		{uri: "spiffe://prod./node/n1", err: "the parts between its dots must have 1 to 63 bytes"},
		{uri: "spiffe://a..b/node/n1", err: "the parts between its dots must have 1 to 63 bytes"},
		{uri: "spiffe://" + strings.Repeat("y", 64) + "/node/n1", err: "the parts between its dots must have 1 to 63 bytes"},
		{uri: "spiffe://10.0.0.1/node/n1", err: "must not be an address"},
		{uri: "spiffe://prod/node/" + strings.Repeat("z", 3000), err: "has 3019 bytes; at most 2048"},
	} {
		got, err := ParseURI(tc.uri)
		if tc.err != "" {
			wantErr(t, tc.uri, err, tc.err)
			if got != (Identity{}) {
				t.Errorf("%s: an error and %v", tc.uri, got)
			}
			continue
		}
		if err != nil || got != tc.want || got.URI() != tc.uri {
			t.Errorf("%s: got %v, %v; want %v", tc.uri, got, err, tc.want)
		}
	}
}

func TestIdentityOf(t *testing.T) {
	for _, tc := range []struct {
		uris    []string
		cluster string
		want    Identity
		err     string
	}{
		{uris: []string{"spiffe://prod/node/n1"}, cluster: "prod", want: nodeID("n1")},
		{uris: []string{"spiffe://prod/client/x"}, cluster: "prod", want: clientID("x")},
		{uris: []string{"spiffe://prod/node/n1"}, want: nodeID("n1")},
		{uris: []string{"spiffe://prod/billing"}, cluster: "prod", err: "must be spiffe://<cluster>/node/<id>"},
		{uris: []string{"spiffe://prod/billing"}, err: "must be spiffe://<cluster>/node/<id>"},
		{uris: []string{"spiffe://corp.example/ns/a/sa/b"}, cluster: "prod", want: Identity{Kind: Client, Name: "spiffe://corp.example/ns/a/sa/b"}},
		// However another trust domain names its own, here it is a client.
		{uris: []string{"spiffe://test/node/n1"}, cluster: "prod", want: Identity{Kind: Client, Name: "spiffe://test/node/n1"}},
		{uris: []string{"spiffe://PROD/node/n1"}, cluster: "prod", want: Identity{Kind: Client, Name: "spiffe://PROD/node/n1"}},
		{uris: []string{"spiffe://test/../prod/node/n1"}, cluster: "prod", err: "each part of a SPIFFE id's path"},
		{uris: []string{"spiffe://test/node//n1"}, cluster: "prod", err: "each part of a SPIFFE id's path"},
		{uris: []string{"spiffe://test/a%2Fb"}, cluster: "prod", err: "each part of a SPIFFE id's path"},
		{uris: []string{"spiffe://test"}, cluster: "prod", err: "has a trust domain and a path"},
		{uris: []string{"spiffe://test:8080/x"}, cluster: "prod", err: "has a trust domain and a path"},
		{uris: []string{"https://prod/node/n1"}, cluster: "prod", err: "must be a SPIFFE id"},
		{uris: []string{"spiffe://prod/node/n1", "spiffe://prod/node/n2"}, cluster: "prod", err: "has 2 URI SANs; must be exactly one"},
		{uris: []string{"spiffe://prod/node/n1", "https://x"}, cluster: "prod", err: "has 2 URI SANs; must be exactly one"},
		{cluster: "prod", err: "has no URI SAN"},
	} {
		cert := &x509.Certificate{DNSNames: []string{"n1"}}
		for _, u := range tc.uris {
			cert.URIs = append(cert.URIs, must[*url.URL](t)(url.Parse(u)))
		}
		got, err := IdentityOf(cert, tc.cluster)
		if tc.err != "" {
			wantErr(t, strings.Join(tc.uris, " "), err, tc.err)
			continue
		}
		if err != nil || got != tc.want || got.URI() != tc.uris[0] {
			t.Errorf("%v in %q: got %v, %v; want %v", tc.uris, tc.cluster, got, err, tc.want)
		}
	}
	if _, err := IdentityOf(&x509.Certificate{}, ""); !errors.Is(err, ErrNoURI) {
		t.Errorf("no URI SAN: got %v, want ErrNoURI", err)
	}
}

func FuzzParseURI(f *testing.F) {
	for _, s := range []string{"spiffe://prod/node/n1", "spiffe://a.b/client/x", "spiffe://a/b/c", "", "spiffe://a/node/%00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseURI(s)
		if err != nil {
			return
		}
		if id.URI() != s || id.Check() != nil || id.Foreign() {
			t.Fatalf("%q is %#v, which is %q again", s, id, id.URI())
		}
		// What is taken here must come back out of a certificate too.
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u}}, id.Cluster); err != nil || got != id {
			t.Fatalf("%q in a certificate: %v, %v", s, got, err)
		}
	})
}

// FuzzForeign: no URI SAN of another trust domain is ever taken for one of the
// cluster's own.
func FuzzForeign(f *testing.F) {
	for _, s := range []string{"spiffe://test/node/n1", "spiffe://prod@test/node/n1", "spiffe://test#prod/node/n1", "spiffe://prod/x", "SPIFFE://prod/node/n1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := url.Parse(s)
		if err != nil {
			return
		}
		id, err := IdentityOf(&x509.Certificate{URIs: []*url.URL{u}}, "prod")
		if err != nil {
			return
		}
		own := u.Scheme == "spiffe" && u.Host == "prod"
		if own == id.Foreign() || id.Foreign() && id.Kind != Client {
			t.Fatalf("%q is %#v", s, id)
		}
	})
}
