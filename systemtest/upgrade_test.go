package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

const (
	upgradeBurst  = 200
	upgradeLimits = `
version: 1
namespaces:
  api:
    limits:
      hard: {rate: 1/d, burst: 200, ceiling: hard}
`
)

// nextVersion builds the program as of the next feature level, which only the build has.
func nextVersion(t *testing.T) string {
	t.Helper()
	raised := seeded{file: "cluster/membership/table.go", old: "\nconst Level = 1\n", new: "\nconst Level = 2\n"}
	dir := t.TempDir()
	flags, err := raised.flags(dir)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "quorate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", flags, "-o", program, "../cmd/quorate").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// level returns the cluster's feature level in the node's copy of the membership.
func (s *server) level() (int, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "members.json"))
	if err != nil {
		return 0, err
	}
	var m struct{ Level int }
	err = json.Unmarshal(text, &m)
	return m.Level, err
}

// TestUpgrade upgrades a cluster to a feature level that does not exist yet, node by node and under
// load: two of three nodes, back again, and then all. The level rises with the last node, and from
// then on the old version is refused. All account operations are linearizable throughout, none is
// charged twice, and a hard limit is not exceeded.
func TestUpgrade(t *testing.T) {
	testspeed.Full(t)
	t.Parallel() // mostly waits
	c := newServers(t, 8)
	c.quick = true
	next := nextVersion(t)
	c.run(upgradeLimits)
	b := openBank(t, c, 7)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.open(ctx)
	admitted, asked := 0, c.nodes
	ask := func(times int) (refused int) {
		for i := range times {
			d, err := tryAllow(asked[i%len(asked)].httpAddr, key("api", "hard", "k"))
			if err != nil {
				continue // the node is being restarted, or a leader elected
			}
			if d.Allowed {
				admitted++
			} else {
				refused++
			}
		}
		return refused
	}
	restart := func(s *server, program string) {
		t.Helper()
		began := time.Now()
		stopped, code := s.interrupt(syscall.SIGTERM, time.Minute)
		if code != 0 {
			t.Errorf("%s: exit code %d", s.id, code)
		}
		ask(15)
		s.program = program
		c.start(s)
		c.awaitReady(s, 20*time.Second)
		t.Logf("%s: stopped in %v, ready after %v", s.id, stopped.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
		ask(15)
	}
	stays := func() {
		t.Helper()
		for _, s := range c.nodes {
			if l, err := s.level(); err != nil || l != 1 {
				t.Errorf("%s has level %d, %v; want 1 while a node can do no more", s.id, l, err)
			}
		}
	}
	restart(c.nodes[0], next)
	restart(c.nodes[1], next)
	stays()
	restart(c.nodes[1], "")
	restart(c.nodes[0], "")
	stays()
	for _, s := range c.nodes {
		stays()
		restart(s, next)
	}
	for _, s := range c.nodes {
		eventually(t, 20*time.Second, s.id+" is at level 2", func() error {
			if l, err := s.level(); err != nil || l != 2 {
				return fmt.Errorf("level %d, %w", l, err)
			}
			return nil
		})
	}
	// The old version is refused, says why, and the others go on.
	old := c.nodes[2]
	old.interrupt(syscall.SIGTERM, time.Minute)
	old.program = ""
	c.start(old)
	eventually(t, 20*time.Second, "the old version is refused", func() error {
		const want = `level: the cluster is at feature level 2, node \"n3\" supports 1: upgrade that node`
		if !strings.Contains(old.stderr.String(), want) {
			return fmt.Errorf("it says: %s", old.stderr.String())
		}
		return nil
	})
	cancel()
	b.judge()
	asked = c.others(old)
	eventually(t, 30*time.Second, "the hard limit is used up", func() error {
		if refused := ask(30); refused < 30 {
			return fmt.Errorf("%d of 30 refused", refused)
		}
		return nil
	})
	t.Logf("%d admitted of %d", admitted, upgradeBurst)
	if admitted > upgradeBurst+1 || admitted < upgradeBurst/2 {
		t.Errorf("hard: %d admitted of %d", admitted, upgradeBurst)
	}
}
