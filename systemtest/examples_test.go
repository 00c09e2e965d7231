package systemtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestExamples runs the programs that link the client against a cluster, as their
// first lines say.
func TestExamples(t *testing.T) {
	needBinary(t)
	base := freeBase(t)
	startDev(t, base, t.TempDir(), "--ranges", "4", "--limits", "../examples/clients.yaml")
	nodes := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", base+12, base+22, base+32)
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "../examples/worker", "../examples/llm").CombinedOutput(); err != nil {
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
		// 60 mails of two workers at 20/s and a burst of 5 take 2.75 s.
		if took := time.Since(began); took < 2500*time.Millisecond {
			t.Errorf("60 mails in %v; at least 2.75 s at 20/s", took)
		}
	})
	t.Run("llm", func(t *testing.T) {
		t.Parallel()
		out := run(t, filepath.Join(dir, "llm"), "-nodes", nodes, "acme", "6")
		took := 0
		for _, m := range regexp.MustCompile(`took (\d+) tokens`).FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[1])
			took += n
		}
		if took > 11_000 || took < 4_000 || // some come back meanwhile
			!strings.Contains(out, "refused, ") {
			t.Errorf("%d tokens of 10,000:\n%s", took, out)
		}
	})
}

func run(t *testing.T, program string, args ...string) string {
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v", program, args, err)
	}
	return string(out)
}
