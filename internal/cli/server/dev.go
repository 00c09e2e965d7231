package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/examples"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/backoff"
	"github.com/quorate/quorate/internal/cli/build"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/phrase"
	"github.com/quorate/quorate/internal/quota"
)

// devOptions holds the flags of dev.
type devOptions struct {
	data, limits  string
	basePort      int
	nodes, ranges int
	quiet         bool
	verbose       bool
}

// NewDevCommand returns "quorate dev".
func NewDevCommand() *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole cluster in one process, for trials",
		Long: `Run a cluster of real nodes in one process, on loopback: Raft over TCP, logs on
disk (in a temporary directory unless --data says where), leaders spread over
the nodes. While traffic flows, one line a second shows the global rates.
Ctrl-C stops it.

Node k serves HTTP on base port + 10k + 1, gRPC on + 2, and its peers on + 3;
the first node serves the Redis protocol on + 5.`,
		Example: `  quorate dev
  quorate dev --limits examples/limits.yaml --data ./data
  curl -d '{"namespace":"web","limit":"per_client","key":"203.0.113.7"}' localhost:7411/v1/allow`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dev(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.data, "data", "", "keep the data in this `directory`; a restart with it forgets no limit and refills no bucket")
	f.StringVar(&o.limits, "limits", "", "limit `file` for data that has none yet (default: the built-in example)")
	f.IntVar(&o.basePort, "base-port", remote.DefaultBasePort, "base of the port numbers")
	f.IntVar(&o.nodes, "nodes", remote.DefaultNodes, "number of nodes, 1 to 9")
	f.IntVar(&o.ranges, "ranges", 16, "number of key ranges, 1 to 256")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no rates")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the nodes' logs to standard error")
	return cmd
}

// redisPort is the offset of the port for the Redis protocol, among the ten ports of the first
// node.
const redisPort = 5

func (o *devOptions) validate() error {
	switch {
	case o.nodes < 1 || o.nodes > 9:
		return exit.Usagef("--nodes %d: must be 1 to 9", o.nodes)
	case o.ranges < 1 || o.ranges > 256:
		return exit.Usagef("--ranges %d: must be 1 to 256", o.ranges)
	case o.basePort < 1 || o.basePort > 65535-10*o.nodes-redisPort:
		return exit.Usagef("--base-port %d: must be 1 to %d, so that all ports exist", o.basePort, 65535-10*o.nodes-redisPort)
	}
	return nil
}

func dev(ctx context.Context, o devOptions, stdout, stderr io.Writer) (err error) {
	if err := o.validate(); err != nil {
		return err
	}
	limits, source, err := o.loadLimits()
	if err != nil {
		return err
	}
	dir, cleanup, err := o.dir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	log := slog.New(slog.DiscardHandler)
	if o.verbose {
		log = slog.New(slog.NewTextHandler(stderr, nil))
	}
	ins, err := o.start(ctx, dir, len(limits) > 0, log)
	defer func() { err = errors.Join(err, stopAll(ins)) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "quorate %s: starting %d nodes and %d ranges in %s\n", build.Version, o.nodes, o.ranges, dir)
	first, err := o.ready(ctx, ins, source, limits)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if !first {
		source = fmt.Sprintf("%s, which had limits already; %s is not applied", dir, source)
	}
	if err := o.banner(stdout, ins, source); err != nil {
		return err
	}
	return o.watch(ctx, ins, stdout)
}

func (o *devOptions) loadLimits() ([]quota.Limit, string, error) {
	if o.limits == "" {
		limits, err := config.ParseLimits("examples/limits.yaml", examples.Limits)
		return limits, "examples/limits.yaml (built in)", err
	}
	limits, err := config.LoadLimits(o.limits)
	return limits, o.limits, exit.Invalid(err)
}

// dir returns the data directory and a function that cleans it up at the end.
func (o *devOptions) dir() (string, func() error, error) {
	if o.data != "" {
		return o.data, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "quorate-dev-")
	if err != nil {
		return "", nil, fmt.Errorf("no directory for data: %w; choose one with --data", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}

func nodeName(k int) quota.NodeID { return quota.NodeID(fmt.Sprintf("n%d", k)) }

func (o *devOptions) addr(k, port int) string {
	return fmt.Sprintf("127.0.0.1:%d", o.basePort+10*k+port)
}

// start first opens all ports, so that a port in use fails before any data is written, and then
// starts the nodes.
func (o *devOptions) start(ctx context.Context, dir string, awaitLimits bool, log *slog.Logger) ([]*instance, error) {
	nodes := map[quota.NodeID]string{}
	ports := make([]listeners, o.nodes)
	for i := range ports {
		k := i + 1
		var err error
		if ports[i], err = listen(ctx, o.addr(k, 1), o.addr(k, 2), o.addr(k, 3)); err != nil {
			for j := range i {
				ports[j].close()
			}
			return nil, fmt.Errorf("%w with --base-port", err)
		}
		nodes[nodeName(k)] = o.addr(k, 3)
	}
	var ins []*instance
	for i := range ports {
		id := nodeName(i + 1)
		who := callers{protocols: devProtocols}
		if i == 0 {
			who.redis = o.addr(1, redisPort)
		}
		in, err := startInstance(cluster.Config{
			Cluster: "dev", Self: id, Nodes: nodes, Dir: filepath.Join(dir, string(id)), Ranges: o.ranges, Replicas: 3,
			Sync: 100 * time.Millisecond, MaxKeys: 1_000_000, Idle: 10 * time.Minute,
			GrantWait: cluster.DefaultGrantWait, Timing: raftgroup.DefaultTiming(),
			GRPC: o.addr(i+1, 2), HTTP: o.addr(i+1, 1), DeadAfter: -1, AwaitLimits: awaitLimits,
		}, who, ports[i], &security{}, log.With("node", id))
		if err != nil {
			for j := i + 1; j < len(ports); j++ {
				ports[j].close()
			}
			return ins, err
		}
		ins = append(ins, in)
	}
	return ins, nil
}

// devProtocols enables all protocols.
var devProtocols = config.Protocols{EnvoyRLS: true, EnvoyRLQS: true, Gubernator: true, ForwardAuth: true}

// ready sets the limits unless the data has some, and waits for all leaders. It reports whether it
// set them.
func (o *devOptions) ready(ctx context.Context, ins []*instance, source string, limits []quota.Limit) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	first, err := firstLimits(ctx, ins[0].node, "quorate dev", source, limits)
	if err != nil {
		return false, err
	}
	for _, in := range ins {
		if err := waitReady(ctx, in.node); err != nil {
			return false, err
		}
	}
	return first || o.data == "", nil // the data is new, so no one else set limits: an answer was lost
}

// readyTime bounds the wait for leaders and limits. Elections take about a second.
const readyTime = time.Minute

// waitReady waits until the node decides by the current limits.
func waitReady(ctx context.Context, n *cluster.Node) error {
	for {
		st := n.Status()
		if st.Ready {
			return nil
		}
		if backoff.Sleep(ctx, 20*time.Millisecond) != nil {
			return fmt.Errorf("node %s: not ready: %s", st.Node, st.Reason)
		}
	}
}

func stopAll(ins []*instance) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var errs []error
	for _, in := range ins {
		errs = append(errs, in.stop(ctx))
	}
	return errors.Join(errs...)
}

func (o *devOptions) banner(w io.Writer, ins []*instance, source string) error {
	st := ins[0].node.Status()
	t := render.NewTable("NODE", "HTTP", "GRPC", "PEERS", "LEADS")
	for i, n := range st.Nodes {
		t.Row(n.Id, o.addr(i+1, 1), o.addr(i+1, 2), o.addr(i+1, 3), rangesLed(st, n.Id))
	}
	if err := t.Write(w); err != nil {
		return err
	}
	all := ins[0].node.Limits().All()
	_, err := fmt.Fprintf(w, `
All %d ranges have leaders. Limits: %d, from %s.
Console: %s
%sTry, in another terminal:
%s  curl localhost:%d/v1/rates
  redis-cli -p %d CL.THROTTLE user:42 15 30 60
Ctrl-C stops the cluster.
`, len(st.Ranges), len(all), source, consoleURL(o.addr(1, 1), false), o.export(), o.tryLimit(all), o.basePort+11, o.basePort+10+redisPort)
	return err
}

// export returns a shell command that points the other commands at the nodes, if these are not at
// the default addresses.
func (o *devOptions) export() string {
	if o.basePort == remote.DefaultBasePort && o.nodes == remote.DefaultNodes {
		return ""
	}
	addrs := make([]string, o.nodes)
	for i := range addrs {
		addrs[i] = o.addr(i+1, 2)
	}
	return fmt.Sprintf("For the other commands:\n  export %s=%s\n", remote.AddrVariable, strings.Join(addrs, ","))
}

// tryLimit returns a command line that asks about a current limit, preferably web/per_client.
func (o *devOptions) tryLimit(limits []quota.Limit) string {
	const ask = "  curl -d '{\"namespace\":\"%s\",\"limit\":\"%s\",\"key\":\"%s\"}' localhost:%d/v1/%s\n"
	var found *quota.Limit
	for i := range limits {
		l := &limits[i]
		if l.LimitName.Limit == quota.Default || l.LimitName.Limit == quota.Template || l.LimitName == quota.Global {
			continue // it stands for limits with other names
		}
		if l.LimitName == (quota.LimitName{Namespace: "web", Limit: "per_client"}) {
			return fmt.Sprintf(ask, "web", "per_client", "203.0.113.7", o.basePort+11, "allow")
		}
		if found == nil || found.Kind == quota.Concurrency {
			found = l
		}
	}
	switch {
	case found == nil:
		return "  quorate limits get\n"
	case found.Kind == quota.Concurrency:
		return fmt.Sprintf(ask, found.Namespace, found.LimitName.Limit, "ann", o.basePort+11, "acquire")
	}
	return fmt.Sprintf(ask, found.Namespace, found.LimitName.Limit, "ann", o.basePort+11, "allow")
}

// rangesLed lists the ranges that a node leads, such as "0-2 5 9".
func rangesLed(st *quoratev1.GetStatusResponse, id string) string {
	out, start := "", -1
	for i := range len(st.Ranges) + 1 {
		led := i < len(st.Ranges) && st.Ranges[i].Leader == id
		switch {
		case led && start < 0:
			start = i
		case !led && start >= 0:
			if out != "" {
				out += " "
			}
			out += strconv.Itoa(start)
			if i-1 > start {
				out += fmt.Sprintf("-%d", i-1)
			}
			start = -1
		}
	}
	return out
}

// watch prints the global rates once a second while there is traffic.
func (o *devOptions) watch(ctx context.Context, ins []*instance, w io.Writer) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(w, "stopping")
			return nil
		case err := <-ins[0].fault:
			return err
		case <-tick.C:
		}
		if o.quiet {
			continue
		}
		rates, err := ins[0].node.TopRates(ctx, &quoratev1.TopRatesRequest{Top: apiproto.MaxTop})
		if err == nil {
			printFlow(w, time.Now(), rates)
		}
	}
}

// printFlow writes one line, or nothing if there is no traffic.
func printFlow(w io.Writer, now time.Time, r *quoratev1.TopRatesResponse) {
	var demand, rate float64
	active := 0
	for _, k := range r.Keys {
		demand, rate = demand+k.Demand, rate+k.Rate
		if k.Demand >= 0.05 {
			active++
		}
	}
	if active == 0 {
		return
	}
	top := r.Keys[0]
	line := fmt.Sprintf("%s  demand %.1f/s  admitted %.1f/s  keys %d  top %s/%s/%s %.1f/s of %s (left %d)",
		now.Format("15:04:05"), demand, rate, active, phrase.Show(top.Namespace), phrase.Show(top.Limit), phrase.Show(top.Key), top.Demand, top.Rule.GetRate(), top.Remaining)
	if r.RangesCovered < r.RangesTotal {
		line += fmt.Sprintf("  incomplete: %d of %d ranges", r.RangesCovered, r.RangesTotal)
	}
	fmt.Fprintln(w, line)
}
