package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestJoinAtAnotherPort checks that joining at a port without gRPC reports what it reached, and
// which port is right.
func TestJoinAtAnotherPort(t *testing.T) {
	h := http.NotFoundHandler()
	plain, h2, h1 := httptest.NewServer(h), httptest.NewUnstartedServer(h), httptest.NewTLSServer(h)
	h2.EnableHTTP2 = true
	h2.StartTLS()
	h1.TLS.NextProtos = nil
	blind := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}) //nolint:gosec // of this test
	for name, tt := range map[string]struct {
		server *httptest.Server
		creds  credentials.TransportCredentials
		want   string
	}{
		"HTTP without TLS":             {plain, insecure.NewCredentials(), "reached HTTP, not gRPC"},
		"HTTP with TLS":                {h2, blind, "reached HTTP, not gRPC"},
		"TLS without a known protocol": {h1, blind, "reached a port with TLS and without gRPC"},
		"no TLS where there should be": {plain, blind, "reached a port without TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			defer tt.server.CloseClientConnections()
			conn, err := grpc.NewClient("passthrough:///"+tt.server.Listener.Addr().String(), grpc.WithTransportCredentials(tt.creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_, err = quoratev1.NewClusterServiceClient(conn).Join(t.Context(), &quoratev1.JoinRequest{})
			var log strings.Builder
			j := joiner{log: slog.New(slog.NewTextHandler(&log, nil))}
			j.logOnce("x", err)
			j.logOnce("x", err) // logs at debug level only
			if text := log.String(); strings.Count(text, tt.want) != 1 || !strings.Contains(text, "7412") {
				t.Errorf("%s: %v", text, err)
			}
		})
	}
	for _, s := range []*httptest.Server{plain, h1, h2} {
		s.Close()
	}
}
