package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestJoinFault checks that the reason why a node has not joined yet is that of the connection, without gRPC's
// wrapping, and that a closed connection is explained.
func TestJoinFault(t *testing.T) {
	const wrapped = `connection error: desc = "transport: `
	for text, want := range map[string]string{
		wrapped + `Error while dialing: dial tcp 10.0.0.5:7412: connect: connection refused"`:                                "dial tcp 10.0.0.5:7412: connect: connection refused",
		wrapped + `authentication handshake failed: EOF"`:                                                                    "it waits to join too",
		wrapped + `authentication handshake failed: read tcp 10.0.0.5:52558->10.0.0.5:7412: read: connection reset by peer"`: "it waits to join too",
		wrapped + `authentication handshake failed: credentials: cannot check peer: missing selected ALPN property"`:         "such as that for peers",
		"the cluster is at feature level 2":                                                                                  "the cluster is at feature level 2",
	} {
		if got := joinFault(status.Error(codes.Unavailable, text)); !strings.Contains(got, want) || strings.Contains(got, "desc =") {
			t.Errorf("%s: %s", text, got)
		}
	}
}
