//go:build proxies

package systemtest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProxies is TestGateway for the other proxies of examples/gateway. CI has none of them, so
// only make proxies builds this test.
func TestProxies(t *testing.T) {
	needBinary(t)
	for _, c := range []struct {
		name, program, install string
		args, files            []string
	}{
		{"Caddy", "caddy", "apt-get install caddy", []string{"run", "--adapter", "caddyfile", "--config"}, []string{"Caddyfile"}},
		{"HAProxy", "haproxy", "apt-get install haproxy", []string{"-db", "-f"}, []string{"haproxy.cfg", "quorate.lua"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			program, err := exec.LookPath(c.program)
			if err != nil {
				t.Fatalf("%s is not here: %s", c.name, c.install)
			}
			base, front := freeBase(t), freeAddr(t)
			node := startDev(t, base, t.TempDir(), "--nodes", "1", "--ranges", "4", "--limits", "../examples/gateway/limits.yaml")
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				fmt.Fprint(w, "served ", req.URL.Path)
			}))
			t.Cleanup(service.Close)
			dir := gatewayFiles(t, strings.NewReplacer(
				"127.0.0.1:7411", fmt.Sprintf("127.0.0.1:%d", base+11), "127.0.0.1:9000", service.Listener.Addr().String(), "127.0.0.1:8080", front), c.files...)
			p := startProcess(t, append([]string{"env", "-C", dir, "HOME=" + dir, program}, append(c.args, c.files[0])...))
			t.Cleanup(func() {
				_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited already
				<-p.ended
			})
			eventually(t, 10*time.Second, c.name+" answers", func() error {
				_, _, err := through(front, "/ready", "")
				return err
			})
			limited(t, front)

			// Without a node, each proxy answers as docs/reference/compat/proxies.md says.
			want := map[string][2]int{"Caddy": {http.StatusBadGateway, http.StatusGatewayTimeout}, "HAProxy": {http.StatusOK, http.StatusOK}}[c.name]
			without := func(what string, want int) {
				t.Helper()
				began := time.Now()
				if code, _, err := through(front, "/login", "ann"); err != nil || code != want {
					t.Errorf("%s: %d, %v; want %d", what, code, err, want)
				}
				if took := time.Since(began); took > 500*time.Millisecond { // 50 ms, plus the delay of a busy machine
					t.Errorf("%s a request waits %v", what, took)
				}
			}
			node.kill()
			without("its port is closed:", want[0])
			silent, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", base+11))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { silent.Close() })
			without("what listens there never answers:", want[1])
		})
	}
}
