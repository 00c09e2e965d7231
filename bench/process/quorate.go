package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/faulttest"
	"github.com/quorate/quorate/internal/freeport"
)

// built builds the program of this checkout once and returns its path.
var built = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("QUORATE"); given != "" {
		return given, nil
	}
	dir, err := os.MkdirTemp("", "quorate-bench-")
	if err != nil {
		return "", err
	}
	out := filepath.Join(dir, "quorate")
	// Build it with its own go.mod, so that it is the program that users get.
	root, err := checkout()
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(context.Background(), "go", "build", "-o", out, "./cmd/quorate")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return out, nil
})

// Quorate returns the path of the program, built from this checkout unless the environment names
// one.
func Quorate() (string, error) { return built() }

// stepped builds the program once with a clock that [Node.StepClock] steps, beside the other.
var stepped = sync.OnceValues(func() (string, error) {
	root, err := checkout()
	if err != nil {
		return "", err
	}
	if steppedDir, err = os.MkdirTemp("", "quorate-bench-"); err != nil {
		return "", err
	}
	return faulttest.Build(root, "./cmd/quorate", steppedDir)
})

var steppedDir string

// checkout returns the directory of the module that the program is in.
func checkout() (string, error) {
	root, err := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/quorate/quorate").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m, which must run in the module bench: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// Cleanup removes the built programs.
func Cleanup() {
	if steppedDir != "" {
		_ = os.RemoveAll(steppedDir)
	}
	if out, err := built(); err == nil && os.Getenv("QUORATE") == "" {
		_ = os.RemoveAll(filepath.Dir(out))
	}
}

// Node is one "quorate serve" process.
type Node struct {
	*Process
	ID               string
	HTTP, GRPC, Peer string // addresses, host:port
	Redis            string // address of the Redis protocol
	Debug            string // address of profiles
	Data             string // its data directory
	config           string
	clock            string        // file for StepClock; "" means no file
	earlier          time.Duration // processor time of its killed processes
}

// Cluster is a cluster of Quorate nodes on loopback, without TLS.
type Cluster struct {
	Nodes   []*Node
	dir     string
	mounted string
}

// Options configures a cluster.
type Options struct {
	Nodes  int
	Ranges int    // 0 means 16
	Limits string // text of a limit file
	More   string // further lines of each node's settings
	// Disk is the size of a file system in memory for the data of one node, such as 1g; "" means no such
	// file system. It needs root.
	Disk     string
	DiskNode int // the index of that node
	// Clocks are wall clocks that StepClock steps. The program is built for them.
	Clocks bool
}

// NewCluster starts nodes and waits until all are ready and have the limits.
func NewCluster(ctx context.Context, o Options) (c *Cluster, err error) {
	dir, err := os.MkdirTemp("", "quorate-nodes-")
	if err != nil {
		return nil, err
	}
	c = &Cluster{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	for k := range o.Nodes {
		n := &Node{ID: fmt.Sprintf("n%d", k+1), config: filepath.Join(dir, fmt.Sprintf("n%d.yaml", k+1))}
		for _, at := range []*string{&n.HTTP, &n.GRPC, &n.Peer, &n.Redis, &n.Debug} {
			if *at, err = freeport.Addr(); err != nil {
				return c, err
			}
		}
		n.Data = filepath.Join(dir, n.ID)
		if o.Clocks {
			n.clock = filepath.Join(dir, n.ID+".clock")
			if err := n.StepClock(0); err != nil {
				return c, err
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	if o.Disk != "" {
		if err := c.mount(ctx, c.Nodes[o.DiskNode].Data, o.Disk); err != nil {
			return c, err
		}
	}
	for _, n := range c.Nodes {
		if err := os.WriteFile(n.config, []byte(c.settings(n, o)), 0o600); err != nil {
			return c, err
		}
		if err := n.Start(); err != nil {
			return c, err
		}
	}
	for _, n := range c.Nodes {
		if err := n.Ready(ctx); err != nil {
			return c, err
		}
	}
	err = c.Apply(ctx, o.Limits)
	return c, err
}

func (c *Cluster) settings(n *Node, o Options) string {
	var b strings.Builder
	ranges := o.Ranges
	if ranges == 0 {
		ranges = 16
	}
	fmt.Fprintf(&b, "cluster: bench\nnode: %s\ndata: %s\nranges: %d\nnodes:\n", n.ID, n.Data, ranges)
	for _, m := range c.Nodes {
		fmt.Fprintf(&b, "  - {id: %s, peer: %q}\n", m.ID, m.Peer)
	}
	fmt.Fprintf(&b, "listen: {http: %q, grpc: %q, redis: %q, debug: %q}\nlog: {level: warn}\ntls: {mode: off}\n%s", n.HTTP, n.GRPC, n.Redis, n.Debug, o.More)
	return b.String()
}

// Start starts the node, which must not be running.
func (n *Node) Start() error {
	command := []string{"serve", "--config", n.config}
	build := Quorate
	if n.clock != "" {
		build = stepped
	}
	program, err := build()
	if err != nil {
		return err
	}
	if n.clock != "" { // env becomes the program: its process is the node's
		command = append([]string{faulttest.ClockEnv + "=" + n.clock, program}, command...)
		program = "env"
	}
	if n.Process != nil {
		used := n.cmd.ProcessState
		n.earlier += used.UserTime() + used.SystemTime()
	}
	n.Process, err = Start(program, command...)
	return err
}

// StepClock sets the node's wall clock ahead of the true time by whole seconds, from one moment to the
// next; 0 corrects it. The cluster must have been made with Options.Clocks.
func (n *Node) StepClock(ahead time.Duration) error { return faulttest.SetClock(n.clock, ahead) }

// Ready waits until the node sees a leader for every range.
func (n *Node) Ready(ctx context.Context) error {
	return n.Await(ctx, n.ID, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.HTTP+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
}

// Apply applies a limit file to the cluster.
func (c *Cluster) Apply(ctx context.Context, limits string) error {
	if limits == "" {
		return nil
	}
	file := filepath.Join(c.dir, "limits.yaml")
	if err := os.WriteFile(file, []byte(limits), 0o600); err != nil {
		return err
	}
	_, err := c.Command(ctx, "limits", "apply", file, "--yes", "--addr", strings.Join(c.Addrs(), ","))
	return err
}

// Command runs the program to its end and returns its output.
func (c *Cluster) Command(ctx context.Context, args ...string) (string, error) {
	program, err := Quorate()
	if err != nil {
		return "", err
	}
	text, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("quorate %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return string(text), err
}

// Addrs returns the gRPC addresses of all nodes.
func (c *Cluster) Addrs() []string {
	out := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		out[i] = n.GRPC
	}
	return out
}

// Processes returns the processes of the cluster, for [CPU].
func (c *Cluster) Processes() []*Process {
	out := make([]*Process, len(c.Nodes))
	for i, n := range c.Nodes {
		out[i] = n.Process
	}
	return out
}

// mount gives a directory a file system of its own.
func (c *Cluster) mount(ctx context.Context, dir, size string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if text, err := exec.CommandContext(ctx, "mount", "-t", "tmpfs", "-o", "mode=0700,size="+size, "quorate", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w\n%s", err, text)
	}
	c.mounted = dir
	return nil
}

// CPU returns the processor time that the nodes have used so far, with that of killed processes.
func (c *Cluster) CPU() (time.Duration, error) {
	all, err := CPU(c.Processes()...)
	for _, n := range c.Nodes {
		all += n.earlier
	}
	return all, err
}

// Close stops the nodes and removes their data.
func (c *Cluster) Close() error {
	var errs []error
	for _, n := range c.Nodes {
		if n.Process != nil {
			errs = append(errs, n.Process.Close())
		}
	}
	if c.mounted != "" {
		errs = append(errs, exec.CommandContext(context.Background(), "umount", c.mounted).Run())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
