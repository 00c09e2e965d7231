package grpcapi

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/api/apitest"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
)

// TestPointToHTTP checks that the gRPC port tells HTTP/1 callers where HTTP is, and serves gRPC.
func TestPointToHTTP(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := New(api.New(apitest.New(t), api.Options{}), nil)
	go srv.Serve(PointToHTTP(l, "127.0.0.1:7411"))
	t.Cleanup(srv.Stop)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for method, body := range map[string][]byte{http.MethodGet: nil, http.MethodPost: bytes.Repeat([]byte("x"), 20_000), http.MethodDelete: nil} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+"/v1/allow", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", method, err)
			continue
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusBadRequest || string(text) != "this is the gRPC port; HTTP is at 127.0.0.1:7411\n" {
			t.Errorf("%s: %d %s, %v", method, res.StatusCode, text, err)
		}
	}
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := quoratev1.NewClusterServiceClient(conn).GetStatus(t.Context(), &quoratev1.GetStatusRequest{}); err != nil {
		t.Errorf("gRPC: %v", err)
	}
}
