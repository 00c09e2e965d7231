package systemtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/testspeed"
)

// seeded is a fault that the tests must find. One file is replaced while go builds: the product holds
// nothing of it.
type seeded struct {
	name     string
	module   string // whose file it is; empty: this one
	file     string
	old, new string // the text that is replaced, which the file has once
	caught   []caught
}

// caught is a test that finds a fault: it must fail, and say what matches.
type caught struct {
	pkg, test string
	says      string // regular expression
	env       []string
	from      int // the first seed; 0 means 1
}

// tries is how many seeds the tests of whole nodes may use up before they find a fault.
const tries = 4

var (
	powerLoss = caught{pkg: "./systemtest", test: "TestPowerLoss", says: `not linearizable|is damaged|is ready|version \d+ of the limits|all accounts can be read|in one reading`, env: []string{"POWER_CUTS=20"}}
	histories = caught{pkg: "./systemtest", test: "TestHistories", says: `not linearizable|in one reading|again: |with other operations|hard limit: `, env: []string{"HISTORIES_SECONDS=30"}}
	// Soft limits are beyond the ceiling in some histories only: not in four of 30 s, and in this of 60 s.
	hardHistory = caught{pkg: "./systemtest", test: "TestHistories", says: `hard limit: `, env: []string{"HISTORIES_SECONDS=60", "HISTORIES_RUNS=1"}, from: 8}
	sharedLog   = caught{pkg: "./cluster/raftgroup/sharedlog", test: ".", says: `_test\.go:\d+: `}
)

const (
	raftModule  = "github.com/hashicorp/raft"
	bboltModule = "go.etcd.io/bbolt"
)

var seededFaults = []seeded{
	{
		name: "the log does not sync its pages before the page that names them", module: bboltModule, file: "tx.go",
		old:    "if !tx.db.NoSync || common.IgnoreNoSync {\n\t\t// gofail: var beforeSyncDataPages struct{}",
		new:    "if false {",
		caught: []caught{powerLoss},
	},
	{
		name: "the log does not sync the page that names a commit", module: bboltModule, file: "tx.go",
		old:    "if !tx.db.NoSync || common.IgnoreNoSync {\n\t\t// gofail: var beforeSyncMetaPage struct{}",
		new:    "if false {",
		caught: []caught{powerLoss},
	},
	{
		name: "names of new files are not synced", file: "internal/syncdir/syncdir.go",
		old: "if runtime.GOOS == \"windows\" {", new: "if runtime.GOOS != \"\" {",
		caught: []caught{powerLoss, {pkg: "./internal/syncdir", test: "TestMkdirAll", says: "synced"}},
	},
	{
		name: "the log answers before it commits", file: "cluster/raftgroup/sharedlog/commit.go",
		old:    "func (l *Log) commit(batch []*write) {\n",
		new:    "func (l *Log) commit(batch []*write) {\n\tfor _, w := range batch {\n\t\tw.done <- nil\n\t\tw.done = make(chan error, 1)\n\t}\n",
		caught: []caught{powerLoss, sharedLog},
	},
	{
		name: "a vote is not written", file: "cluster/raftgroup/sharedlog/group.go",
		old:    "\tw.set(s, value)\n\treturn g.log.submit(w)\n",
		new:    "\tw.set(s, value)\n\tif s != slotDropped && s != slotTerm {\n\t\tg.log.mu.Lock()\n\t\tw.apply()\n\t\tg.log.mu.Unlock()\n\t\treturn nil\n\t}\n\treturn g.log.submit(w)\n",
		caught: []caught{sharedLog},
	},
	{
		name: "a log that is opened again keeps what a failed commit left", file: "cluster/raftgroup/sharedlog/log.go",
		old: "boltcheck.RollBack(l.path, good)", new: "boltcheck.RollBack(l.path, good+1)",
		caught: []caught{sharedLog},
	},
	{
		name: "an entry counts as committed when the leader alone has it", module: raftModule, file: "commitment.go",
		old: "matched[(len(matched)-1)/2]", new: "matched[len(matched)-1]",
		caught: []caught{histories},
	},
	{
		name: "every 20th entry is applied twice", file: "cluster/raftgroup/fsm.go",
		old:    "\tf.index.Store(l.Index)\n\treturn r\n",
		new:    "\tif l.Index%20 == 0 {\n\t\tf.machine.Apply(l.Index, l.Term, l.Data)\n\t}\n\tf.index.Store(l.Index)\n\treturn r\n",
		caught: []caught{histories},
	},
	{
		name: "some request ids are forgotten", file: "internal/account/store.go",
		old: "case !ok || a.expires <= at:", new: "case !ok || a.expires <= at || a.hash[0]%8 == 0:",
		caught: []caught{histories, {pkg: "./internal/account", test: ".", says: `_test\.go:\d+: `}},
	},
	{
		name: "a leader answers readings without asking the others", file: "cluster/raftgroup/readindex.go",
		old:    "func (g *Group) ConfirmLeadership(ctx context.Context) error {\n",
		new:    "func (g *Group) ConfirmLeadership(ctx context.Context) error {\n\tif _, _, serving := g.Leader(); serving {\n\t\treturn nil\n\t}\n",
		caught: []caught{{pkg: "./cluster/raftgroup", test: "TestConfirm", says: `_test\.go:\d+: `}},
	},
	{
		name: "a decision to commit is carried out as an abort, for one transaction in 16", file: "internal/account/tx.go",
		old: "\t\t\tif f.Commit {\n", new: "\t\t\tif f.Commit && f.Tx[0]%16 != 0 {\n",
		caught: []caught{histories},
	},
	{
		name: "a coordinator commits although a range has not prepared", file: "cluster/accounts/tx.go",
		old:    "\tfor i := range parts {\n\t\tif parts[i].err != nil {\n\t\t\treturn account.Outcome{}, false, notDone(parts[i].err)\n\t\t}\n\t}\n",
		new:    "",
		caught: []caught{{pkg: "./cluster/accounts", test: "TestCommitsNothingUnprepared", says: `_test\.go:\d+: `}}, // in histories, its caller's time is over by then
	},
	{
		name: "hard limits are enforced as soft ones", file: "internal/quota/name.go",
		old: "		return Hard, nil\n", new: "		return Soft, nil\n",
		caught: []caught{hardHistory},
	},
}

// TestSeededFaultsFit checks that every seeded fault still fits the sources, so that make
// seeded-faults tests what it says.
func TestSeededFaultsFit(t *testing.T) {
	for _, s := range seededFaults {
		if _, err := s.flags(t.TempDir()); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// flags writes the changed file and returns the build flags that use it: an overlay, or a changed copy
// of the module for a dependency, because go does not allow overlays in the module cache.
func (s *seeded) flags(dir string) (string, error) {
	args := []string{"list", "-m", "-f", "{{.Dir}}"}
	if s.module != "" {
		args = append(args, s.module)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	root := strings.TrimSpace(string(out))
	path := filepath.Join(root, s.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(src), s.old); n != 1 {
		return "", fmt.Errorf("%s has %d times, not once: %q", path, n, s.old)
	}
	changed := []byte(strings.Replace(string(src), s.old, s.new, 1))
	if s.module != "" {
		return s.replace(dir, root, changed)
	}
	to := filepath.Join(dir, filepath.Base(s.file))
	b, err := json.Marshal(map[string]any{"Replace": map[string]string{path: to}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return "-overlay=" + overlay, errors.Join(os.WriteFile(to, changed, 0o600), os.WriteFile(overlay, b, 0o600))
}

// replace copies a module, changes its file, and writes a go.mod that takes the copy.
func (s *seeded) replace(dir, root string, changed []byte) (string, error) {
	copied := filepath.Join(dir, "module")
	if err := os.CopyFS(copied, os.DirFS(root)); err != nil {
		return "", err
	}
	file := filepath.Join(copied, s.file)
	if err := errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, changed, 0o600)); err != nil {
		return "", err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" {
			b = fmt.Appendf(b, "\nreplace %s => %s\n", s.module, copied)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return "", err
		}
	}
	return "-modfile=" + filepath.Join(dir, "go.mod"), nil
}

// TestSeededFaults puts one fault after the other into the program and runs the tests that must find
// it. make seeded-faults runs it: it builds the program once for each.
func TestSeededFaults(t *testing.T) {
	testspeed.Full(t)
	if os.Getenv("SEEDED_FAULTS") == "" {
		t.Skip("takes half an hour: make seeded-faults")
	}
	for _, s := range seededFaults {
		t.Run(s.name, func(t *testing.T) {
			flags, err := s.flags(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.caught {
				by, said := c.find(t, flags)
				if by == "" {
					t.Errorf("%s in %s did not find it", c.test, c.pkg)
					by, said = "**not found**", ""
				}
				writeRow(t, "SEEDED_ROWS", fmt.Sprintf("| %s | `%s` | %s | %s |", s.name, s.file, by, said))
			}
		})
	}
}

var (
	tempPath  = regexp.MustCompile(`/tmp/\S*/`) // differs from run to run
	failure   = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	errorLine = regexp.MustCompile(`(?m)^\s*\w+_test\.go:\d+: (.*)$`)
)

// find runs a test until it fails, and returns its name and what it said first.
func (c *caught) find(t *testing.T, flags string) (by, said string) {
	t.Helper()
	from := max(c.from, 1)
	for seed := from; seed < from+tries; seed++ {
		cmd := exec.Command("go", "test", "-count=1", "-timeout=10m", "-run", c.test, c.pkg)
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" "+flags, "SEEDED_FAULTS=", fmt.Sprintf("POWER_SEED=%d", seed), fmt.Sprintf("HISTORIES_SEED=%d", seed))
		cmd.Env = append(cmd.Env, c.env...)
		if len(c.env) == 0 {
			cmd.Env = append(cmd.Env, "TEST_SPEED=") // the quick tests find it
		}
		out, err := cmd.CombinedOutput()
		failed := failure.FindStringSubmatch(string(out))
		if err == nil {
			continue
		}
		says := c.message(string(out))
		if failed == nil || says == "" {
			t.Fatalf("%s: %v, and not for the fault:\n%s", c.test, err, tail(string(out), 60))
		}
		by = fmt.Sprintf("`%s` in `%s`", failed[1], c.pkg)
		if len(c.env) > 0 {
			by += fmt.Sprintf(", seed %d", seed)
		}
		return by, says
	}
	return "", ""
}

// message returns the first line of a test that says what the test must say, shortened.
func (c *caught) message(out string) string {
	says := regexp.MustCompile(c.says)
	for _, line := range errorLine.FindAllStringSubmatch(out, -1) {
		if says.MatchString(line[0]) {
			words := []rune(strings.ReplaceAll(tempPath.ReplaceAllString(line[1], ""), "|", "/"))
			if len(words) > 120 {
				words = append(words[:117], []rune("...")...)
			}
			return "`" + strings.ReplaceAll(string(words), "`", "'") + "`"
		}
	}
	return ""
}
