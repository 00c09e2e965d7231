package resp

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/rbac"
)

// TestTLS checks that a certificate identifies the caller on a port with TLS, and that a caller
// without TLS gets no answer.
func TestTLS(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate, and for clients that trust it
	defer web.Close()
	roots := web.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	g := newGuarded(t)
	g.bind(t, "client:ci", "checker", rbac.Namespace("web"))
	l := listener(t)
	served := make(chan error, 1)
	go func() {
		served <- g.Serve(tls.NewListener(l, &tls.Config{Certificates: web.TLS.Certificates, ClientAuth: tls.RequestClientCert}))
	}()
	for _, c := range []struct {
		name  string
		certs []tls.Certificate
		want  string
	}{
		{"with a certificate", web.TLS.Certificates, "*6"},
		{"without one", nil, "-NOAUTH the call carries no credential"},
	} {
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com", Certificates: c.certs}}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		k := &talk{t, conn, bufio.NewReader(conn)}
		if got := k.ask("PING"); got != "+PONG" {
			t.Errorf("%s: PING: %s", c.name, got)
		}
		if got := k.ask("QUORATE.ALLOW", "web", "api", "k"); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s; want %s", c.name, got, c.want)
		}
		_ = conn.Close() // the conversation is over
	}
	plain, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(plain, array("PING")); err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(plain); strings.Contains(string(got), "PONG") { // a TLS alert, or a reset
		t.Errorf("without TLS: %q", got)
	}
	_ = plain.Close() // the server has closed it
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
}
