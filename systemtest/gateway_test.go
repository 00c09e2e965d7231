package systemtest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/freeport"
)

// TestGateway checks that examples/gateway works as it is, except for its ports: the real nginx
// asks a real node about every request.
func TestGateway(t *testing.T) {
	needBinary(t)
	nginx, err := findNginx()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	base := freeBase(t)
	startDev(t, base, t.TempDir(), "--nodes", "1", "--ranges", "4", "--limits", "../examples/gateway/limits.yaml")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		fmt.Fprint(w, "served ", req.URL.Path)
	}))
	t.Cleanup(service.Close)
	front := freeAddr(t)
	dir := gatewayFiles(t, strings.NewReplacer(
		"127.0.0.1:7411", fmt.Sprintf("127.0.0.1:%d", base+11), "127.0.0.1:9000", service.Listener.Addr().String(), "127.0.0.1:8080", front), "nginx.conf", "quorate.conf")
	p := startProcess(t, []string{nginx, "-p", dir, "-c", "nginx.conf"})
	t.Cleanup(func() { // kill -9 would leave its workers behind
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have exited already
		<-p.ended
	})
	eventually(t, 10*time.Second, "nginx answers", func() error {
		_, _, err := through(front, "/ready", "")
		return err
	})
	limited(t, front)
}

// limited checks that a proxy enforces the limits of the example on what is behind it, and what it
// tells a client that it refuses.
func limited(t *testing.T, front string) {
	t.Helper()
	var passed int
	var last http.Header
	for range 30 {
		code, header, err := through(front, "/", "")
		if err != nil {
			t.Fatal(err)
		}
		switch code {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
			last = header
		default:
			t.Fatalf("status %d, %v", code, header)
		}
	}
	if passed < 5 || passed > 25 || last == nil {
		t.Errorf("%d of 30 passed at 5/s with a burst of 10", passed)
	}
	for _, field := range []string{"Retry-After", "Ratelimit", "Ratelimit-Policy"} {
		if last.Get(field) == "" {
			t.Errorf("the client is refused without %s: %v", field, last)
		}
	}
	for user, tries := range map[string]int{"ann": 4, "bob": 3} { // each has its own limit
		for i := range tries {
			want := http.StatusOK
			if i == 3 {
				want = http.StatusTooManyRequests
			}
			if code, _, err := through(front, "/login", user); err != nil || code != want {
				t.Errorf("%s, attempt %d: %d, %v; want %d", user, i+1, code, err, want)
			}
		}
	}
}

func findNginx() (string, error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	if _, err := os.Stat("/usr/sbin/nginx"); err == nil {
		return "/usr/sbin/nginx", nil
	}
	return "", fmt.Errorf("nginx is not here: apt-get install nginx-light")
}

// gatewayFiles copies files of the example to a separate directory, with other ports and longer
// timeouts: nginx lets a request pass that a busy machine does not answer in 50 ms.
func gatewayFiles(t *testing.T, ports *strings.Replacer, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("../examples/gateway", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), strings.NewReplacer("timeout 20ms", "timeout 30s", "timeout 50ms", "timeout 30s").Replace(ports.Replace(string(text))))
	}
	return dir
}

func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func through(addr, path, user string) (int, http.Header, error) {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("X-User", user)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	return res.StatusCode, res.Header, nil
}
