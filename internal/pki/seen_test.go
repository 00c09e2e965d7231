package pki

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSeen checks that the store remembers callers that the API port accepted, with the CA and the
// time, and neither callers that it refused nor those of the peer port.
func TestSeen(t *testing.T) {
	c := &clock{now: start}
	old, next := newCA(t, "prod"), newCA(t, "prod")
	server := storeOf(t, c, Pair{}, old, next)
	check(t, install(server, next, nodeID("n1"), c.Now()))
	api := server.ServerConfig(APIPort)
	call := func(ca *CA, id Identity) error {
		client := storeOf(t, c, Pair{}, old, next)
		check(t, client.SetBundle(bundleOf(old, next, ca)))
		check(t, install(client, ca, id, c.Now()))
		serverErr, _ := handshake(t, api, client.ClientConfig(Want{}))
		return serverErr
	}
	check(t, call(old, clientID("shop")))
	c.add(time.Minute)
	check(t, call(old, clientID("shop")))
	c.add(time.Minute)
	check(t, call(next, clientID("shop")))
	check(t, call(old, nodeID("n2")))
	if err := call(newCA(t, "prod"), clientID("stranger")); whyOf(err) != OtherCA || !strings.Contains(err.Error(), `"quorate cert issue --name stranger --out DIR --replace"`) {
		t.Errorf("a stranger: %v", err)
	}
	var got []string
	for _, s := range server.Seen() {
		got = append(got, fmt.Sprintf("%s old=%t %v", s.Identity.Name, s.Issuer == Fingerprint(old.Certificate), s.At.Sub(start)))
	}
	if all := strings.Join(got, ", "); !strings.Contains(all, "shop old=true 1m0s") || !strings.Contains(all, "shop old=false 2m0s") || !strings.Contains(all, "n2 old=true 2m0s") || len(got) != 3 {
		t.Errorf("seen: %s", all)
	}
}

// TestSeenIsBounded: at the bound the one that was not seen for longest is forgotten.
func TestSeenIsBounded(t *testing.T) {
	var s Store
	for i := range MaxSeen + 10 {
		s.seen.add(seenKey{id: clientID(fmt.Sprint("c", i))}, start.Add(time.Duration(i)*time.Second))
	}
	s.seen.add(seenKey{id: clientID("c10")}, start.Add(time.Hour))
	list := s.Seen()
	if len(list) != MaxSeen {
		t.Fatalf("%d are remembered, want %d", len(list), MaxSeen)
	}
	for _, seen := range list {
		if age := seen.At.Sub(start); age < 10*time.Second {
			t.Errorf("%s, seen at %v, is remembered", seen.Identity, age)
		}
	}
}

// TestWhyRefused: a client whose certificate is refused says that its authority is trusted no
// more, and which command makes another.
func TestWhyRefused(t *testing.T) {
	c := &clock{now: start}
	old, next := newCA(t, "prod"), newCA(t, "prod")
	server, client := storeOf(t, c, Pair{}, next), storeOf(t, c, Pair{}, old, next)
	check(t, install(server, next, nodeID("n1"), c.Now()))
	check(t, install(client, old, clientID("shop"), c.Now()))
	_, err := handshake(t, server.ServerConfig(APIPort), client.ClientConfig(Want{}))
	if err == nil {
		t.Fatal("it is not refused")
	}
	why := client.WhyRefused(err.Error())
	for _, part := range []string{"client shop", "issued by an authority that is no longer trusted", "quorate cert issue --name shop --out DIR --replace", Fingerprint(next.Certificate).String()[:16]} {
		if !strings.Contains(why, part) {
			t.Errorf("of %q it says %q, without %q", err, why, part)
		}
	}
	if why := client.WhyRefused("connection refused"); why != "" {
		t.Errorf("of what is no refusal: %q", why)
	}
	c.add(1000 * 24 * time.Hour)
	if why := client.WhyRefused(err.Error()); !strings.Contains(why, "expired") {
		t.Errorf("of a certificate that has expired: %q", why)
	}
}
