package systemtest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/freeport"
)

var binary string // the built quorate program

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if args := os.Getenv(clientProcessEnv); args != "" {
		return runAsClient(args)
	}
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "quorate-systemtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "quorate")
	build := exec.Command("go", "build", "-o", binary, "../cmd/quorate")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		return 1
	}
	return m.Run()
}

func needBinary(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes; left out by -short")
	}
}

// freeBase returns a base port whose ports for three nodes are free.
func freeBase(t *testing.T) int { return freeBaseOf(t, 3) }

// freeBaseOf is freeBase for up to nine nodes.
func freeBaseOf(t *testing.T, nodes int) int {
	t.Helper()
	for range 100 {
		base := 10_000 + 100*rand.IntN(200) // below the ephemeral ports of the system
		if claimed := claim(base, nodes); claimed != nil {
			t.Cleanup(func() { release(claimed) })
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

// claim claims the ports of nodes from a base port on, and returns none if one is taken.
func claim(base, nodes int) (claimed []int) {
	for k := 1; k <= nodes; k++ {
		for p := 1; p <= 3; p++ {
			port := base + 10*k + p
			if freeport.Claim(port) != nil {
				release(claimed)
				return nil
			}
			claimed = append(claimed, port)
		}
	}
	return claimed
}

func release(claimed []int) {
	for _, port := range claimed {
		freeport.Release(port)
	}
}

// process is a quorate process that runs until the test ends it.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout buftest.Buffer
	stderr buftest.Buffer
	ended  chan struct{}
	err    error // of Wait; read it after ended is closed
}

// start runs quorate. prefix is a command that runs it, such as ip netns exec.
func start(t *testing.T, prefix []string, args ...string) *process {
	t.Helper()
	return startProcess(t, append(append(append([]string{}, prefix...), binary), args...))
}

func startProcess(t *testing.T, argv []string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s\n%s\n%s", strings.Join(argv, " "), &p.stdout, tail(p.stderr.String(), 60))
		}
	})
	return p
}

func tail(s string, lines int) string {
	all := strings.Split(s, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// kill ends the process with kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// interrupt sends a signal and returns how long the process took to exit, and its exit code.
func (p *process) interrupt(sig syscall.Signal, within time.Duration) (time.Duration, int) {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("still runs %v after %v", within, sig)
	}
	return time.Since(began), exitCode(p.err)
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// quorate runs a command until it exits.
func quorate(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := cmd.Run()
	if code = exitCode(err); code < 0 {
		t.Fatalf("quorate %v: %v", args, err)
	}
	return out.String(), msg.String(), code
}

// eventually waits until check succeeds. On a shared machine a node may get no processor for
// seconds, which says nothing about the product. eventually therefore waits for at least a minute
// and logs what came late. It enforces within itself only when the tests have the machine to
// themselves: make system.
func eventually(t *testing.T, within time.Duration, what string, check func() error) {
	t.Helper()
	eventuallyEvery(t, 10*time.Millisecond, within, what, check)
}

// eventuallyEvery is eventually with a pause between checks, for a check that is expensive or that
// uses something up.
func eventuallyEvery(t *testing.T, pause, within time.Duration, what string, check func() error) {
	t.Helper()
	began, limit := time.Now(), max(within, leastPatience)
	var last error
	if soak("SOAK_TARGETS", 0) > 0 {
		limit = within
	}
	for ; ; time.Sleep(pause) {
		err := check()
		took := time.Since(began)
		if err == nil {
			if took > within {
				t.Logf("late, after %v instead of %v: %s; at last: %v", took, within, what, last)
			}
			return
		}
		if took > limit {
			t.Fatalf("not after %v; wanted within %v: %s: %v", took, within, what, err)
		}
		last = err
	}
}

const leastPatience = time.Minute

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
