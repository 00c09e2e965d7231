package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPictures takes the pictures of docs/images. It runs only where CONSOLE_PICTURES says where they
// go, since each run takes other ones.
func TestPictures(t *testing.T) {
	to := os.Getenv("CONSOLE_PICTURES")
	if to == "" {
		t.Skip("takes pictures; CONSOLE_PICTURES says where they go")
	}
	to, err := filepath.Abs(to)
	if err != nil {
		t.Fatal(err)
	}
	node, npm, chromium := need(t)
	dir := install(t, npm)
	n := build(t)
	b := base(t, 11, 12, 13, 15, 21, 22, 23, 31, 32, 33)
	n.start("Ctrl-C stops", "dev", "--quiet", "--base-port", strconv.Itoa(b))
	in := func(args ...string) {
		n.run(append(args, "--base-port", strconv.Itoa(b), "--author", "ann@shop.example")...)
	}
	limits, err := os.ReadFile("../../../examples/limits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	policies, err := os.ReadFile("../../../examples/accounts/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // the audit log names files as they are given
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("limits.yaml", string(limits))
	write("sale.yaml", strings.Replace(string(limits), "rate: 5/m, burst: 5", "rate: 10/m, burst: 5", 1))
	write("policies.yaml", string(policies))
	in("policies", "load", "policies.yaml", "--app", "shop", "--realm", "project:web", "--version", "2026-11")
	in("policies", "load", "policies.yaml", "--app", "shop", "--realm", "project:mail", "--version", "2026-11")
	for i, who := range []string{"ann", "bob", "cy", "dora", "emil"} {
		in("accounts", "apply", "shop~project:web~user:"+who+"~ci~"+who+"~builds", "--policy", "#2026-11~ci~default~builds", "--delta", strconv.Itoa(-i))
	}
	in("accounts", "apply", "shop~project:web~~ci~release~slots", "--policy", "#2026-11~ci~in-flight~slots", "--delta", "-2")
	in("limits", "apply", "sale.yaml", "--comment", "twice as many logins for the sale")
	in("limits", "apply", "limits.yaml", "--comment", "back to normal after the sale")
	with := strconv.Itoa(b)
	n.run("tokens", "create", "ci", "--ttl", "720h", "--base-port", with)
	n.run("roles", "bind", "token:ci", "checker", "--base-port", with)
	n.run("roles", "bind", "group:on-call", "operator", "--base-port", with)
	secured, _, _ := n.secured()
	drive(t, node, dir, "pictures.mjs", 9*time.Minute, map[string]any{
		"chromium": chromium, "open": fmt.Sprintf("http://127.0.0.1:%d", b+11), "secured": secured, "pictures": to, "warm": 150_000,
	})
}
