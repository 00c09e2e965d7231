package systemtest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHowtos does what these pages of docs/howto say, as it is written, each in a network of its
// own, and holds what is printed to what they say. With -rewrite it writes down what was printed.
func TestHowtos(t *testing.T) {
	needBinary(t)
	if _, err := findNginx(); err != nil {
		missing(t, err.Error())
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		missing(t, "needs redis-cli: install redis-tools")
	}
	for _, name := range []string{"http", "nginx", "envoy", "from-quotaservice", "from-gubernator", "from-envoy-ratelimit", "from-redis"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(name, "envoy") { // its limits are of a minute, in which all has to be
				if past := time.Now().Second(); past > 40 {
					time.Sleep(time.Duration(61-past) * time.Second) // until the next minute begins
				}
			}
			if commands := follow(t, "../docs/howto/"+name+".md"); commands < 6 {
				t.Errorf("%d commands of %s were run; it has more", commands, name)
			}
		})
	}
}

// TestExamplePage does what examples/README.md says, likewise.
func TestExamplePage(t *testing.T) {
	needBinary(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		missing(t, "needs redis-cli: install redis-tools")
	}
	if commands := follow(t, "../examples/README.md"); commands < 12 {
		t.Errorf("%d commands were run; it has more", commands)
	}
}

// follow does what a page says in a directory that has the examples.
func follow(t *testing.T, page string) (commands int) {
	t.Helper()
	examples, err := filepath.Abs("../examples")
	if err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, "/tmp/try")
	sh.run("ln -s " + examples + " examples")
	return sh.page(page)
}
