package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/pki"
)

// TestWarnOpen checks that ports open to other machines without TLS or authentication are logged as a
// warning, and loopback ports are not.
func TestWarnOpen(t *testing.T) {
	plain, secured := &security{}, &security{store: &pki.Store{}}
	for _, c := range []struct {
		host string
		sec  *security
		who  callers
		want string
	}{
		{"127.0.0.1:0", plain, callers{auth: config.Auth{Mode: config.AuthAuto}, redis: "127.0.0.1:7415"}, ""},
		{"0.0.0.0:0", plain, callers{auth: config.Auth{Mode: config.AuthAuto}}, "have no TLS"},
		{"[::]:0", plain, callers{auth: config.Auth{Mode: config.AuthOn}}, "have no TLS"},
		{"127.0.0.1:0", plain, callers{redis: ":7415"}, "redis :7415"},
		{"0.0.0.0:0", secured, callers{auth: config.Auth{Mode: config.AuthOff}}, "have no authentication"},
		{"0.0.0.0:0", secured, callers{auth: config.Auth{Mode: config.AuthAuto}}, ""},
		{"127.0.0.1:0", secured, callers{auth: config.Auth{Mode: config.AuthOff}}, ""},
	} {
		ports, err := listen(t.Context(), c.host, c.host, "127.0.0.1:0")
		if err != nil {
			t.Skip(err) // the machine has no IPv6
		}
		var out bytes.Buffer
		c.who.warnOpen(&ports, c.sec, slog.New(slog.NewTextHandler(&out, nil)))
		ports.close()
		if got := out.String(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) || got != "" && !strings.Contains(got, "level=WARN") {
			t.Errorf("%s, redis %q: %q; want %q", c.host, c.who.redis, got, c.want)
		}
	}
}
