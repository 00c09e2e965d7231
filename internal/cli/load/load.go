package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/cluster"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
)

// Bounds on a load.
const (
	maxLoadRate     = 1_000_000
	maxLoadDuration = time.Hour
	maxLoadKeys     = 1_000_000
	maxLoadConns    = 64
	zipfSkew        = 1.1
)

// loader is one run of "quorate load".
type loader struct {
	remote.Targets
	output                    render.Output
	limit, dist, skew, prefix string
	rate                      float64
	duration, timeout         time.Duration
	keys, batch, conns        int
	seed                      uint64
	client                    bool

	name  quota.LimitName
	addrs []string
	rule  quota.Limit
	pool  *pool
	local *inProcess // nil: ask the nodes
	pace  *pacer
	stats *loadStats
}

// NewLoadCommand returns "quorate load".
func NewLoadCommand() *cobra.Command {
	l := &loader{}
	cmd := &cobra.Command{
		Use:   "load --limit NAMESPACE/LIMIT",
		Short: "Drive a cluster at a given rate and measure it",
		Long: `Send checks of cost 1 at a given rate, whether or not earlier ones have been
answered (open loop), and print throughput, latency, and the admitted tokens
compared with the limit. Latency counts from the moment when a check should have
been sent, so that it includes the time by which a slow cluster delays the
sender.

A check for a node that is down goes to the next node that is up and is counted
as rerouted; the failed attempt is counted as an error of that node.

A key may admit burst + rate x (first sending to last answer). "of the limit"
compares with that; "beyond it" is what was admitted on top.

With --client the checks are decided in this process, as in a service that links
the Go client: --conns clients for each node of --spread; the report shows how
they decided. A check then costs no call; one process generates the load, and
nodes receive it in reports.

Every run uses its own buckets: keys get a prefix made of the time. A run with
the --key-prefix of an earlier one may find its buckets used up.`,
		Example: `  quorate load --limit api/per_tenant --rate 5000 --duration 30s
  quorate load --limit api/per_tenant --rate 20000 --batch 100 --keys 10000 --dist zipf --spread 90/5/5 -o json
  quorate load --limit api/per_tenant --rate 50000 --keys 100 --client`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd) },
	}
	l.OwnTimeout = true
	l.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&l.limit, "limit", "", "limit to check, namespace/limit (required)")
	f.Float64Var(&l.rate, "rate", 1000, fmt.Sprintf("checks per second, at most %d", maxLoadRate))
	f.DurationVar(&l.duration, "duration", 10*time.Second, fmt.Sprintf("duration, at most %s", render.Span(maxLoadDuration)))
	f.IntVar(&l.keys, "keys", 1, fmt.Sprintf("number of keys, at most %d", maxLoadKeys))
	f.StringVar(&l.dist, "dist", "uniform", "distribution of the keys: uniform or zipf (s = 1.1)")
	render.CompleteWords(cmd, "dist", "uniform", "zipf")
	f.StringVar(&l.skew, "spread", "even", "weights of the nodes, such as 90/5/5, or even")
	f.IntVar(&l.batch, "batch", 1, fmt.Sprintf("checks per call, 1 to %d; above 1 they go through AllowBatch", apiproto.MaxBatch))
	f.IntVar(&l.conns, "conns", 2, fmt.Sprintf("connections per node, 1 to %d", maxLoadConns))
	f.Uint64Var(&l.seed, "seed", 1, "seed of the choice of keys")
	f.StringVar(&l.prefix, "key-prefix", "", "prefix of all keys (default: r and the time in seconds, so that every run has fresh buckets)")
	f.DurationVar(&l.timeout, "timeout", 2*time.Second, "how long to wait for one answer")
	f.BoolVar(&l.client, "client", false, "decide in this process, with the Go client, instead of a call per check")
	l.output.AddFlags(cmd, "text", "json")
	return cmd
}

func (l *loader) check() (s *spread, err error) {
	if l.name, err = checkLimitFlag(l.limit); err != nil {
		return nil, err
	}
	switch {
	case !(l.rate > 0 && l.rate <= maxLoadRate):
		return nil, exit.Usagef("--rate %v: must be more than 0, at most %d", l.rate, maxLoadRate)
	case l.duration <= 0 || l.duration > maxLoadDuration:
		return nil, exit.Usagef("--duration %v: must be more than 0, at most %s", l.duration, render.Span(maxLoadDuration))
	case l.keys < 1 || l.keys > maxLoadKeys:
		return nil, exit.Usagef("--keys %d: must be 1 to %d", l.keys, maxLoadKeys)
	case l.batch < 1 || l.batch > apiproto.MaxBatch:
		return nil, exit.Usagef("--batch %d: must be 1 to %d", l.batch, apiproto.MaxBatch)
	case l.conns < 1 || l.conns > maxLoadConns:
		return nil, exit.Usagef("--conns %d: must be 1 to %d", l.conns, maxLoadConns)
	case l.dist != "uniform" && l.dist != "zipf":
		return nil, exit.Usagef("--dist %q: must be uniform or zipf", l.dist)
	case l.timeout <= 0:
		return nil, exit.Usagef("--timeout %v: must be more than 0", l.timeout)
	case len(l.prefix) > quota.MaxKeyLen/2:
		return nil, exit.Usagef("--key-prefix: is %d bytes; at most %d", len(l.prefix), quota.MaxKeyLen/2)
	}
	if l.prefix == "" {
		l.prefix = runPrefix()
	}
	if l.addrs, err = l.Resolve(); err != nil {
		return nil, err
	}
	return parseSpread("spread", l.skew, len(l.addrs))
}

func (l *loader) run(cmd *cobra.Command) error {
	ctx, messages := cmd.Context(), cmd.ErrOrStderr()
	spread, err := l.check()
	if err != nil {
		return err
	}
	if err := findLimit(ctx, &l.Targets, l.name, &l.rule); err != nil {
		return err
	}
	warnUnready(ctx, &l.Targets, messages)
	if err := l.connect(ctx); err != nil {
		return err
	}
	defer l.pool.close()
	l.drive(ctx, spread, messages)
	if l.local != nil {
		if err := l.local.close(); err != nil {
			fmt.Fprintf(messages, "the last counts of the clients were not reported: %v\n", err)
		}
	}
	rep := l.report()
	err = l.output.Print(cmd, rep, rep.print)
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = errors.New("interrupted; the report covers what was sent before")
	case rep.Answered == 0:
		err = exit.With(exit.Unreachable, errors.New("no check was answered"))
	}
	return err
}

// connect prepares to ask nodes, or to decide in this process.
func (l *loader) connect(ctx context.Context) (err error) {
	conns := l.conns
	if l.client {
		conns = 0
	}
	if l.pool, err = newPool(l.Dial, l.addrs, conns, l.timeout); err != nil || !l.client {
		return err
	}
	if l.local, err = newInProcess(ctx, l); err != nil {
		_ = l.local.close() // nothing has been counted
	}
	return err
}

// drive runs the load.
func (l *loader) drive(ctx context.Context, s *spread, messages io.Writer) {
	l.stats, l.pace = newLoadStats(l.keys), newPacer()
	calls := max(int(l.rate*l.duration.Seconds()/float64(l.batch)), 1)
	period := float64(l.batch) / l.rate * float64(time.Second)
	pick := l.picker()
	stop := render.Every(time.Second, func(at time.Duration) { l.stats.progress(messages, at, len(l.pace.slots)*l.batch) })
	defer stop()
	at := func(i int) time.Duration {
		d := draw{node: s.next(), keys: make([]int32, l.batch)} // the pacer calls at once per call, in order
		for k := range d.keys {
			d.keys[k] = pick()
		}
		l.stats.drawn <- d
		return time.Duration(float64(i) * period)
	}
	l.pace.run(ctx, calls, at, func(_ int, scheduled time.Time) { l.send(ctx, scheduled) })
}

// picker returns the sequence of keys.
func (l *loader) picker() func() int32 {
	rng := rand.New(rand.NewPCG(l.seed, l.seed))
	if l.dist == "zipf" && l.keys > 1 {
		z := rand.NewZipf(rng, zipfSkew, 1, uint64(l.keys-1))
		return func() int32 { return int32(z.Uint64()) }
	}
	return func() int32 { return int32(rng.IntN(l.keys)) }
}

func (l *loader) keyName(k int32) string { return l.prefix + strconv.Itoa(int(k)) }

// send makes one call for the oldest unsent draw.
func (l *loader) send(ctx context.Context, scheduled time.Time) {
	d := <-l.stats.drawn
	req := &quoratev1.AllowBatchRequest{}
	for _, k := range d.keys {
		req.Checks = append(req.Checks, &quoratev1.AllowRequest{Namespace: l.name.Namespace, Limit: l.name.Limit, Key: l.keyName(k)})
	}
	l.stats.sending(d, time.Now())
	if l.local != nil {
		l.decide(ctx, d, req.Checks, scheduled)
		return
	}
	var results []*quoratev1.AllowResult
	e, err := l.pool.ask(ctx, d.node, func(ctx context.Context, q quoratev1.QuotaServiceClient) error {
		if l.batch == 1 {
			res, err := q.Allow(ctx, req.Checks[0])
			results = []*quoratev1.AllowResult{{Response: res}}
			return err
		}
		res, err := q.AllowBatch(ctx, req)
		results = res.GetResults()
		return err
	})
	if err == nil && len(results) != len(d.keys) {
		err = fmt.Errorf("%d checks got %d results", len(d.keys), len(results))
	}
	if err != nil {
		l.stats.failed(len(d.keys), err)
		return
	}
	l.stats.answered(d, results, scheduled, e.answered)
}

// findLimit fetches the limit from the cluster.
func findLimit(ctx context.Context, t *remote.Targets, name quota.LimitName, to *quota.Limit) error {
	res, err := limits.GetLimits(ctx, t, nil)
	if err != nil {
		return err
	}
	list, err := limits.ParseAnswer(res)
	if err != nil {
		return err
	}
	var names []string
	for _, l := range list {
		if l.LimitName == name {
			*to = l
			return measurable(&l)
		}
		if len(names) < 10 {
			names = append(names, l.String())
		}
	}
	if len(list) == 0 {
		return exit.NotFoundf("limit %v: the cluster has no limits; apply a file with \"quorate limits apply FILE\"", name)
	}
	return exit.NotFoundf("limit %v: unknown in the cluster, which has %d: %s", name, len(list), strings.Join(names, ", "))
}

// measurable returns an error unless the ideal limiter supports the limit.
func measurable(l *quota.Limit) error {
	if l.Class != quota.Counted || l.Kind != quota.TokenBucket || len(l.More) > 0 {
		return exit.Usagef("limit %v: must be a token bucket with a single tier, so that it can be compared with the ideal", l.LimitName)
	}
	return nil
}

// warnUnready warns if the cluster is not ready, since that affects the measurements.
func warnUnready(ctx context.Context, t *remote.Targets, messages io.Writer) {
	if st, err := cluster.GetStatus(ctx, t); err == nil && (!st.Ready || st.Leaderless != "") {
		fmt.Fprintf(messages, "quorate: the cluster is not ready: %s\n", cmp.Or(st.Reason, st.Leaderless))
	}
}
