package api

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/peer"

	"github.com/quorate/quorate/api/auth"
)

// TestOwner checks that shares are charged to a proven identity, else to the address or its /64.
func TestOwner(t *testing.T) {
	at := func(ip string) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}})
	}
	called := func(c *auth.Caller) context.Context {
		return callContext{at("192.0.2.1"), &Call{Caller: c, Address: "192.0.2.2"}}
	}
	for _, c := range []struct {
		ctx  context.Context
		want string
	}{
		{t.Context(), ""},
		{WithAddress(t.Context(), "192.0.2.3:80"), "address:192.0.2.3"},
		{WithAddress(t.Context(), "@"), ""},
		{WithAddress(called(&auth.Caller{Identity: "client:envoy", Credential: auth.Certificate}), "192.0.2.3:80"), "client:envoy"},
		{at("192.0.2.1"), "address:192.0.2.1"},
		{at("2001:db8:1:2:3::4"), "address:2001:db8:1:2::/64"},
		{called(&auth.Caller{Identity: "client:envoy", Credential: auth.Certificate}), "client:envoy"},
		{called(auth.UnverifiedCaller("client:envoy")), "address:192.0.2.2"},
		{called(auth.UnverifiedCaller("")), "address:192.0.2.2"},
	} {
		if got := Owner(c.ctx); got != c.want {
			t.Errorf("owner %q; want %q", got, c.want)
		}
	}
}
