package remote

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAdviceLeadsOn checks that the advice to a caller without a valid credential does not need one
// of the missing ones.
func TestAdviceLeadsOn(t *testing.T) {
	t.Setenv("QUORATE_TLS_DIR", "")
	addrs := []string{"n1:7412"}
	plain, secured := &Targets{}, &Targets{tlsDir: "dir"}
	for _, at := range []struct {
		name, got string
		want      string
		not       string
	}{
		{"no TLS", plain.NoneAnswers(addrs, status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: EOF"`)).Error(), "DATA/admin", "quorate dev"},
		{"another authority", secured.NoneAnswers(addrs, status.Error(codes.Unavailable, "signed by another CA than those trusted here: x")).Error(), "--trust-out", "quorate dev"},
		{"nobody there", secured.NoneAnswers(addrs, status.Error(codes.Unavailable, "connection refused")).Error(), "quorate dev", "DATA/admin"},
		{"no credential", Refusal(status.Error(codes.Unauthenticated, "the call carries no credential; its caller needs check")).Error(), "DATA/admin", "roles bind"},
		{"no role", Refusal(status.Error(codes.PermissionDenied, `"client:shop" needs cluster.read everywhere`)).Error(), "quorate roles bind client:shop ROLE", "DATA/admin"},
		{"an HTTP port", Refusal(status.Error(codes.Unknown, `unexpected HTTP status code received from server: 404 (Not Found); transport: received unexpected content-type "text/plain"`)).Error(), "--addr needs a gRPC port", "transport"},
		{"an HTTP port without TLS", plain.NoneAnswers(addrs, status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: http2: frame too large, note that the frame header looked like an HTTP/1.1 header"`)).Error(), "n1:7412 is HTTP, not gRPC: --addr needs a gRPC port", "quorate dev"},
		{"a port of the Redis protocol", plain.NoneAnswers(addrs, status.Error(codes.Unavailable, `connection error: desc = "error reading server preface: http2: frame too large"`)).Error(), "n1:7412 is a port without gRPC, such as that of the Redis protocol: --addr needs a gRPC port", "HTTP"},
		{"a port for peers", secured.NoneAnswers(addrs, status.Error(codes.Unavailable, `authentication handshake failed: credentials: cannot check peer: missing selected ALPN property.`)).Error(), "such as that for peers: --addr needs a gRPC port", "quorate dev"},
		{"a port without TLS", secured.NoneAnswers(addrs, status.Error(codes.Unavailable, "tls: first record does not look like a TLS handshake")).Error(), "is a port without TLS", "quorate dev"},
		{"a forbidden join", Refusal(status.Error(codes.PermissionDenied, "join token x: its secret is wrong")).Error(), "its secret is wrong", "roles bind"},
	} {
		if !strings.Contains(at.got, at.want) || strings.Contains(at.got, at.not) {
			t.Errorf("%s: %q; want %q in it, and not %q", at.name, at.got, at.want, at.not)
		}
	}
}
