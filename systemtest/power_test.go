package systemtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/testspeed"
)

// TestPowerLoss runs three nodes on disks that forget what was not synced, and cuts the power of one
// node, of two or of all, between any two changes and syncs of their disks: while they start for the
// first time, while they start again, and while callers work. What was acknowledged must be there:
// the history of the accounts is linearizable, and the limits have the version that was applied last.
// CI cuts a few times; make power-loss 200 times, in ten clusters.
func TestPowerLoss(t *testing.T) {
	testspeed.Full(t)
	needBinary(t)
	clusters, cuts := 1, 6
	if all := soak("POWER_CUTS", 0); all > 0 {
		clusters = max(1, all/20)
		cuts = all / clusters
	} else {
		t.Parallel() // mostly waits
	}
	seed := uint64(soak("POWER_SEED", 1))
	for i := range uint64(clusters) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) { losePower(t, seed+i, cuts) })
	}
}

func losePower(t *testing.T, seed uint64, cuts int) {
	c := newServers(t, 8)
	rng := rand.New(rand.NewPCG(seed, 11))
	g := newGrid(t, c)
	kinds := map[string]int{}

	// The first cut is at the first start, where there is nothing to lose: a node must start all
	// the same.
	g.arm(rng.IntN(150), 0, 1, 2)
	for _, s := range c.nodes {
		c.start(s)
	}
	g.fail(rng.Uint32(), 3*time.Second)
	kinds["at the first start"]++
	c.run(faultLimits)
	version := 1

	b := openBank(t, c, seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.open(ctx)
	for n := 1; n < cuts; n++ {
		victims, kind := [][]int{{0, 1, 2}, {0, 1, 2}, {n % 3}, {n % 3, (n + 1) % 3}}[rng.IntN(4)], "at work"
		steps := rng.IntN(400)
		if rng.IntN(4) == 0 { // cut again while the victims of a first cut start
			g.arm(steps, victims...)
			g.fail(rng.Uint32(), 2*time.Second)
			kind, steps = "at a start", rng.IntN(30)
			kinds["at work"]++
			n++
			g.arm(steps, victims...)
			g.start()
		} else {
			g.arm(steps, victims...)
		}
		kinds[kind]++
		g.fail(rng.Uint32(), 2*time.Second)
		g.start()
		for _, s := range c.nodes {
			if st := c.awaitReady(s, 30*time.Second); st.Version < version {
				t.Errorf("cut %d: %s has version %d of the limits; %d was acknowledged", n, s.id, st.Version, version)
			}
		}
		before := b.answers()
		eventually(t, 20*time.Second, "callers get answers", func() error {
			if got := b.answers() - before; got < 30 {
				return fmt.Errorf("%d answers", got)
			}
			return nil
		})
		limits := strings.ReplaceAll(faultLimits, "rate: 60/s", fmt.Sprintf("rate: %d/s", 100+n))
		eventuallyEvery(t, time.Second, 20*time.Second, "limits are applied", func() error { return c.tryApply(c.addrs(), limits) })
		version++
		if t.Failed() {
			break
		}
	}
	cancel()
	b.wg.Wait()
	eventually(t, 30*time.Second, "all accounts can be read", b.last)
	verdict := b.judge()
	row := fmt.Sprintf("| %d | %d: %d, %d, %d | %d, %d, %d; %d | %d | %d | %d, %d | %d | %s | %d of %d |",
		seed, kinds["at the first start"]+kinds["at work"]+kinds["at a start"], kinds["at the first start"], kinds["at work"], kinds["at a start"],
		g.lost[0], g.lost[1], g.lost[2], g.lost[3], len(b.history), b.moved(), b.resent.Load(), b.repeated.Load(), b.unknown(), verdict, version, version)
	t.Log(row)
	writeRow(t, "POWER_ROWS", row)
}

// grid is the power of the nodes, whose data are on disks of forgetfs.
type grid struct {
	t     *testing.T
	c     *servers
	in    io.Writer
	lines chan string
	armed []int
	lost  [4]int // sectors, sizes and names that were lost, and what was not synced and is there
}

var forgetfs = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "forgetfs")
	build := exec.Command("go", "build", "-o", path, "./cmd/forgetfs")
	build.Dir = "../bench"
	build.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false") // those of TestSeededFaults are about the product
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build forgetfs: %w: %s", err, out)
	}
	return path, nil
})

// newGrid mounts a disk for each node.
func newGrid(t *testing.T, c *servers) *grid {
	t.Helper()
	if reason := cannotMount(); reason != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	program, err := forgetfs()
	if err != nil {
		t.Fatal(err)
	}
	g := &grid{t: t, c: c, lines: make(chan string, 8)}
	var dirs []string
	for k := range c.nodes {
		dirs = append(dirs, c.dataDir(k))
		if err := os.MkdirAll(dirs[k], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, dirs...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g.in = in
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(g.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			g.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { // after the nodes have ended, whose cleanups were registered later
		_ = in.Close()
		for range g.lines {
		}
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("forgetfs: %v", err)
		}
	})
	g.await("ready")
	return g
}

// cannotMount returns why FUSE is impossible here, and what helps.
func cannotMount() string {
	if os.Geteuid() != 0 {
		return "needs root, to mount a FUSE file system; run it with sudo"
	}
	if _, err := os.Stat("/dev/fuse"); err == nil {
		return ""
	}
	const fuseDevice = 10<<8 | 229
	if err := syscall.Mknod("/dev/fuse", syscall.S_IFCHR|0o600, fuseDevice); err != nil {
		return fmt.Sprintf("needs /dev/fuse: %v", err)
	}
	return ""
}

func (g *grid) say(format string, args ...any) {
	g.t.Helper()
	if _, err := fmt.Fprintf(g.in, format+"\n", args...); err != nil {
		g.t.Fatalf("forgetfs: %v", err)
	}
}

// await waits for a line that begins with a word, and returns it.
func (g *grid) await(word string) string {
	g.t.Helper()
	select {
	case line, ok := <-g.lines:
		if !ok || !strings.HasPrefix(line, word) {
			g.t.Fatalf("forgetfs: %q; want %q", line, word)
		}
		return line
	case <-time.After(time.Minute):
		g.t.Fatalf("forgetfs: no %q within a minute", word)
	}
	return ""
}

// arm cuts the power of some nodes after so many changes and syncs of their disks.
func (g *grid) arm(steps int, nodes ...int) {
	g.t.Helper()
	g.armed = nodes
	g.say("arm %d %s", steps, strings.Trim(fmt.Sprint(nodes), "[]"))
	g.await("armed")
}

// fail waits until the power of the armed nodes is cut, at most for a time, and ends their
// processes. Their disks are then as a power failure may leave them.
func (g *grid) fail(seed uint32, patience time.Duration) {
	g.t.Helper()
	select {
	case line := <-g.lines:
		if line != "cut" {
			g.t.Fatalf("forgetfs: %q", line)
		}
	case <-time.After(patience):
		g.say("cut")
		g.await("cut")
	}
	for _, k := range g.armed {
		if err := g.c.nodes[k].cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			g.t.Fatal(err)
		}
	}
	g.say("release") // a process cannot end while it waits for its disk
	g.await("released")
	for _, k := range g.armed {
		g.c.nodes[k].kill()
	}
	g.say("lose %d", seed)
	var lost [4]int
	if _, err := fmt.Sscanf(g.await("lost"), "lost %d %d %d %d", &lost[0], &lost[1], &lost[2], &lost[3]); err != nil {
		g.t.Fatal(err)
	}
	for i, n := range lost {
		g.lost[i] += n
	}
}

// start starts the nodes whose power failed.
func (g *grid) start() {
	for _, k := range g.armed {
		g.c.start(g.c.nodes[k])
	}
}
