package systemtest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestHowtos follows the pages of docs/howto as written, each in a separate network namespace, and
// checks that the commands print what the pages say. With -rewrite it updates the printed text.
func TestHowtos(t *testing.T) {
	needBinary(t)
	if _, err := findNginx(); err != nil {
		missing(t, err.Error())
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		missing(t, "needs redis-cli: install redis-tools")
	}
	for _, name := range []string{"http", "nginx", "envoy", "from-quotaservice", "from-gubernator", "from-envoy-ratelimit", "from-redis", "operating", "planning"} {
		t.Run(name, func(t *testing.T) {
			if name == "operating" || name == "planning" { // about a minute each
				testspeed.Full(t)
			}
			t.Parallel()
			if commands := follow(t, "../docs/howto/"+name+".md"); commands < 6 {
				t.Errorf("%d commands of %s were run; it has more", commands, name)
			}
		})
	}
}

// TestREADME does the same with README.md; the built program stands for go run.
func TestREADME(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	if commands := follow(t, "../README.md", `mkdir bin && printf '#!/bin/sh\nshift 2\nexec quorate "$@"\n' > bin/go && chmod +x bin/go && hash -r`); commands < 3 {
		t.Errorf("%d commands were run; it has more", commands)
	}
}

// TestExamplePage does the same with examples/README.md.
func TestExamplePage(t *testing.T) {
	needBinary(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		missing(t, "needs redis-cli: install redis-tools")
	}
	if commands := follow(t, "../examples/README.md"); commands < 12 {
		t.Errorf("%d commands were run; it has more", commands)
	}
}

// TestDurableQuotasPage does the same with docs/explanation/durable-quotas.md.
func TestDurableQuotasPage(t *testing.T) {
	needBinary(t)
	if commands := follow(t, "../docs/explanation/durable-quotas.md"); commands < 6 {
		t.Errorf("%d commands were run; it has more", commands)
	}
}

// follow follows a page in a directory that contains the examples. The gateway's timeouts are made
// longer: nginx lets a request pass that a busy machine does not answer in 50 ms. The lines run before.
func follow(t *testing.T, page string, lines ...string) (commands int) {
	t.Helper()
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, "/srv/quorate")
	sh.run("cp -r " + examples + " examples && sed -i -E 's/timeout [25]0ms/timeout 30s/' examples/gateway/quorate.conf")
	for _, line := range lines {
		sh.run(line)
	}
	return sh.page(page)
}
