package systemtest

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestExamples runs the example programs that link the client against a cluster, as their first
// lines say, and checks what they print.
func TestExamples(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir(), "--ranges", "4", "--limits", "../examples/clients.yaml")
	nodes := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", base+12, base+22, base+32)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../examples/worker", "../examples/jobs", "../examples/llm", "../examples/handle").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		outs := make(chan string, 2)
		for range 2 {
			go func() { outs <- run(t, filepath.Join(dir, "worker"), "-nodes", nodes, "30") }()
		}
		for range 2 {
			if out := <-outs; !strings.HasPrefix(out, "30 mails in ") {
				t.Error(out)
			}
		}
		// 60 mails of two workers at 20/s with a burst of 5 take 2.75 s.
		if took := time.Since(began); took < 2500*time.Millisecond {
			t.Errorf("60 mails in %v; at least 2.75 s at 20/s", took)
		}
	})
	t.Run("handle", func(t *testing.T) {
		t.Parallel()
		out := run(t, filepath.Join(dir, "handle"), "-nodes", nodes, "203.0.113.7", "25")
		m := regexp.MustCompile(`^(\d+) of 25 requests of 203.0.113.7 were admitted\nthe next one could pass in `).FindStringSubmatch(out)
		if m == nil {
			t.Fatal(out)
		}
		if n, _ := strconv.Atoi(m[1]); n < 8 || n > 12 {
			t.Errorf("%d were admitted at 10/m with a burst of 10", n)
		}
	})
	t.Run("jobs", func(t *testing.T) {
		t.Parallel()
		began := time.Now()
		outs := make(chan string, 2)
		for range 2 {
			go func() { outs <- run(t, filepath.Join(dir, "jobs"), "-nodes", nodes, "-takes", "1500ms", "2") }()
		}
		for range 2 {
			if out := <-outs; !strings.HasPrefix(out, "2 jobs in ") {
				t.Error(out)
			}
		}
		// 4 jobs of 1.5 s, two at a time, take 3 s; if nobody renewed the leases of 1 s, they would
		// take 2.5 s.
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("4 jobs in %v; at least 3 s with two at a time", took)
		}
	})
	t.Run("llm", func(t *testing.T) {
		t.Parallel()
		out := run(t, filepath.Join(dir, "llm"), "-nodes", nodes, "acme", "20")
		took := 0
		for _, m := range regexp.MustCompile(`took (\d+) tokens`).FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			took += n
		}
		// Calls that reserve 4,000 pass until less is left. Some tokens refill in that time.
		if took > 11_000 || took <= 6_000 || !strings.Contains(out, "refused, ") {
			t.Errorf("%d tokens of 10,000:\n%s", took, out)
		}
	})
}

// TestServices runs the example services with the middleware and calls them as their first lines
// say. It checks that each caller gets its burst and is then refused with a retry time.
func TestServices(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir(), "--ranges", "4", "--limits", "../examples/clients.yaml")
	nodes := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", base+12, base+22, base+32)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../examples/http-service", "../examples/grpc-service").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		admitted := 0
		for range 2 { // processes
			addr := freeAddr(t)
			startProcess(t, []string{filepath.Join(dir, "http-service"), "-nodes", nodes, "-listen", addr})
			eventually(t, 10*time.Second, "it refuses", func() error {
				res, err := httpGet(t, addr, "/")
				if err != nil {
					return err
				}
				left := res.Header.Get("RateLimit") // empty until the process knows the limit
				if res.StatusCode == http.StatusOK && left != "" {
					admitted++
				}
				if res.StatusCode != http.StatusTooManyRequests {
					return fmt.Errorf("status %d, RateLimit %q", res.StatusCode, left)
				}
				if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err != nil || s < 1 || s > 60 || !strings.HasPrefix(left, `"per_client";r=0;t=`) {
					t.Errorf("refused with %v", res.Header)
				}
				return nil
			})
			if res, err := httpGet(t, addr, "/healthz"); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("what is skipped: %v, %v", res, err)
			}
		}
		// The second process may lend itself its part before it learns of the first.
		if admitted < 1 || admitted > 22 {
			t.Errorf("%d requests were admitted, of a burst of 10", admitted)
		}
	})
	t.Run("grpc", func(t *testing.T) {
		t.Parallel()
		addr := freeAddr(t)
		startProcess(t, []string{filepath.Join(dir, "grpc-service"), "-nodes", nodes, "-listen", addr})
		began := time.Now()
		out := run(t, filepath.Join(dir, "grpc-service"), "-nodes", nodes, "-listen", addr, "-call", "30")
		m := regexp.MustCompile(`^30 calls in .* s: map\[OK:(\d+) ResourceExhausted:(\d+)\]`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("got %q", out)
		}
		// 30 calls at 20/s with a burst of 5 take 1.25 s. In that time the server's limit of 10/m
		// refills nothing, or little on a slow machine.
		if ok, _ := strconv.Atoi(m[1]); ok > 13 || ok == 0 || time.Since(began) < 1200*time.Millisecond {
			t.Errorf("after %v: %s", time.Since(began), out)
		}
	})
}

func httpGet(t *testing.T, addr, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err == nil {
		res.Body.Close()
	}
	return res, err
}

func run(t *testing.T, program string, args ...string) string {
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v", program, args, err)
	}
	return string(out)
}
