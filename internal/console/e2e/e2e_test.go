package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/buftest"
	"github.com/quorate/quorate/internal/testspeed"
)

// need returns the paths of node, npm and chromium; a test without them has shown
// nothing, so where CI=true it fails.
func need(t *testing.T) (node, npm, chromium string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs processes and a browser; left out by -short")
	}
	find := func(names ...string) string {
		for _, n := range names {
			if p, err := exec.LookPath(n); err == nil {
				return p
			}
		}
		reason := "needs " + names[0] + " to look at the console; install it: apt-get install nodejs npm chromium"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
		return ""
	}
	return find("node", "nodejs"), find("npm"), find("chromium", "chromium-browser", "google-chrome")
}

// install puts what package-lock.json names into the cache, once, and returns where.
func install(t *testing.T, npm string) string {
	t.Helper()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(cache, "quorate-console-e2e", hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"package.json", "package-lock.json", "flows.mjs", "owners.mjs", "check.mjs", "crowd.mjs", "pictures.mjs"} {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "installed")); err == nil {
		return dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "installed"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// nodes are quorate processes.
type nodes struct {
	t      *testing.T
	binary string
	env    []string
}

func build(t *testing.T) *nodes {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "quorate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../../../cmd/quorate").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &nodes{t: t, binary: binary, env: os.Environ()}
}

// start runs quorate until the test ends, and waits until it prints a text.
func (n *nodes) start(until string, args ...string) {
	n.t.Helper()
	out := &buftest.Buffer{}
	cmd := exec.Command(n.binary, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, n.env
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		stop := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		stop.Stop()
		if n.t.Failed() {
			n.t.Logf("quorate %s\n%s", strings.Join(args, " "), out)
		}
	})
	for end := time.Now().Add(time.Minute); !strings.Contains(out.String(), until); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("quorate %s does not print %q:\n%s", strings.Join(args, " "), until, out)
		}
	}
}

// run runs a command to its end, until it succeeds.
func (n *nodes) run(args ...string) string {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		cmd := exec.CommandContext(n.t.Context(), n.binary, args...)
		cmd.Env = n.env
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		if err == nil {
			return strings.TrimSpace(out.String())
		}
		if time.Now().After(end) {
			n.t.Fatalf("quorate %s: %v\n%s", strings.Join(args, " "), err, &said)
		}
	}
}

// base returns a base port with room for so many ports behind it.
func base(t *testing.T, ports ...int) int {
	t.Helper()
next:
	for b := 20_000 + os.Getpid()%400*20; b < 32_000; b += 100 {
		for _, p := range ports {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b+p))
			if err != nil {
				continue next
			}
			l.Close()
		}
		return b
	}
	t.Fatal("no free ports")
	return 0
}

// secured starts one node with TLS and authentication, and returns its address and
// tokens of an admin and of somebody who may only look at limits.
func (n *nodes) secured() (url, admin, reader string) {
	n.t.Helper()
	b := base(n.t, 1, 2, 3)
	addr := func(p int) string { return fmt.Sprintf("127.0.0.1:%d", b+p) }
	dir := filepath.Join(n.t.TempDir(), "data")
	n.run("init", "--data", dir, "--http", addr(1), "--grpc", addr(2), "--peer", addr(3), "--ranges", "2", "--replicas", "1")
	n.start("console https://", "serve", "--data", dir)
	n.env = append(n.env, "QUORATE_TLS_DIR="+filepath.Join(dir, "admin"))
	token := func(name string) string { return n.run("tokens", "create", name, "--addr", addr(2)) }
	admin, reader = token("boss"), token("reader")
	n.run("roles", "bind", "token:boss", "admin", "--addr", addr(2))
	n.run("roles", "bind", "token:reader", "limit-reader", "--addr", addr(2))
	return "https://" + addr(1), admin, reader
}

// accounts makes policies and accounts in three realms, so that there is something to see.
func (n *nodes) accounts(base int) {
	n.t.Helper()
	in := func(args ...string) { n.run(append(args, "--base-port", strconv.Itoa(base))...) }
	in("policies", "load", "../../../examples/accounts/policies.yaml", "--app", "shop", "--realm", "project:e2e", "--version", "2026-11")
	in("policies", "load", "../../../examples/accounts/policies.yaml", "--app", "shop", "--realm", "project:checkout-and-payment-services", "--version", "2026-11")
	for i, name := range []string{"pool", "a-name-that-is-longer-than-what-most-people-would-choose-for-one"} {
		in("accounts", "apply", "shop~project:e2e~user:ann~~"+name+"~builds", "--relative-to", "zero", "--delta", strconv.Itoa(i+1), "--option", "ignore_policy_bounds")
	}
	in("accounts", "apply", "shop~project:e2e~user:bob~ci~bob~builds", "--policy", "#2026-11~ci~default~builds", "--delta", "-1")
	in("accounts", "apply", "rdb~project:infra~~~slots~slots", "--relative-to", "zero", "--delta", "7", "--option", "ignore_policy_bounds")
}

// verdict is one check of a script.
type verdict struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Millis int    `json:"ms"`
}

// TestConsole clicks through the console of a cluster of three, and of a node that asks
// who comes.
func TestConsole(t *testing.T) {
	node, npm, chromium := need(t)
	dir := install(t, npm)
	n := build(t)
	b := base(t, 11, 12, 13, 15, 21, 22, 23, 31, 32, 33)
	n.start("Ctrl-C stops", "dev", "--quiet", "--base-port", strconv.Itoa(b))
	n.accounts(b)
	secured, admin, reader := n.secured()
	drive(t, node, dir, "flows.mjs", 20*time.Minute, map[string]any{
		"chromium": chromium, "open": fmt.Sprintf("http://127.0.0.1:%d", b+11), "secured": secured, "admin": admin, "reader": reader, "shots": os.Getenv("CONSOLE_SHOTS"), "full": testspeed.IsFull(),
	})
}

// drive runs a script to its end, with a plan, and makes a test of each of its verdicts.
func drive(t *testing.T, node, dir, script string, most time.Duration, what map[string]any) {
	t.Helper()
	plan, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, script)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(plan) // tokens are not for the command line
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	checks, ended := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var v verdict
		if json.Unmarshal(lines.Bytes(), &v) != nil {
			t.Errorf("%s says %q", script, lines.Text())
			continue
		}
		checks++
		ended = v.Name == "the end"
		t.Run(v.Name, func(t *testing.T) {
			if !v.OK {
				t.Errorf("after %d ms, at %s", v.Millis, v.Detail)
			}
		})
	}
	if err := cmd.Wait(); err != nil || !ended {
		t.Errorf("%s: %v after %d checks\n%s", script, err, checks, &said)
	}
}
