package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
)

// replayer is one run of "quorate replay".
type replayer struct {
	remote.Targets
	output                                render.Output
	log, limits, limit, key, skew, prefix string
	speed                                 float64
	timeout                               time.Duration
	top                                   int
	virtual

	name      quota.LimitName
	addrs     []string
	rule      quota.Limit
	access    accessLog
	pool      *pool
	pace      *pacer
	decisions []decision
	allowed   atomic.Int64
	refused   atomic.Int64
	errors    atomic.Int64
}

// NewReplayCommand returns "quorate replay".
func NewReplayCommand() *cobra.Command {
	r := &replayer{}
	cmd := &cobra.Command{
		Use:   "replay --log FILE --limit NAMESPACE/LIMIT",
		Short: "Replay an access log against a cluster, running or simulated",
		Long: `Play an access log in combined format (Apache, nginx) against a running cluster,
and compare its decisions with one ideal central token bucket per key.

Every request of the log is one check of cost 1. It is sent at its time in the
log divided by --speed, whether or not earlier ones have been answered, to the
nodes in turn or, with --skew, by weights. Lines are sorted by time first.
Unreadable lines, and times before 1990 or in the future, are counted and
skipped. The log may be compressed with gzip.

--limits replaces all limits of the cluster before the replay.

The ideal bucket sees the same requests at the same moments (halfway between
sending and answer) and decides independently: over is what the cluster admitted
and the ideal refused, under the reverse, both in tokens and in percent of what
the ideal admitted; net is the difference of the sums. Times are accurate to a
round trip, so two decisions on a key may swap: even a central bucket shows some
over and as much under. keys over and keys under compare the totals of each key,
which avoids that. worst excess is the most that the cluster admitted beyond
burst + rate x time over any stretch of time.

Every run uses its own buckets: keys get a prefix made of the time. Two runs
with the same --key-prefix share buckets, and the second starts with what the
first has left, which the ideal bucket does not know.

With --virtual, no cluster is needed: --nodes simulated nodes, which run the
same code, replay the log on its own clock, days in seconds. That shows what the
limits of a file would have refused, for whom, and when. Without --limit, every
limit of the file that has a match is replayed with the requests that match it,
each limit on its own, as if it were enforced. Logs have whole seconds: the time
within a second is random, from --seed, in the log's order. Where messages take
long (--delay), a hard limit needs a --grant-wait of a few round trips, as on
real nodes.`,
		Example: `  quorate replay --log examples/access.log --limits examples/limits.yaml --limit web/per_client --key ip --speed 20000
  quorate replay --log access.log --limit web/per_client --speed 20000 --skew 90/5/5 -o json
  quorate replay --virtual --log examples/access.log --limits examples/limits.yaml --limit web/per_client
  quorate replay --virtual --log access.log --limits limits.yaml --nodes 10 --top 50 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	r.OwnTimeout = true
	r.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&r.log, "log", "", "access log in combined format, plain or gzip, - for standard input (required)")
	f.StringVar(&r.limits, "limits", "", "limit file to apply first; without it, the cluster's limits as they are")
	f.StringVar(&r.limit, "limit", "", "limit to check, namespace/limit (required without --virtual)")
	f.StringVar(&r.key, "key", "ip", "key of a request: "+strings.Join(keyNames(), ", "))
	f.Float64Var(&r.speed, "speed", 1, "how many times faster than the log")
	f.StringVar(&r.skew, "skew", "even", "weights of the nodes, such as 90/5/5, or even")
	f.StringVar(&r.prefix, "key-prefix", "", "prefix of all keys (default: r and the time in seconds, so that every run has fresh buckets)")
	f.DurationVar(&r.timeout, "timeout", 2*time.Second, "how long to wait for one answer")
	f.IntVar(&r.top, "top", topRefused, "how many of the most refused keys to show")
	r.addVirtualFlags(cmd)
	r.output.AddFlags(cmd, "text", "json")
	return cmd
}

func keyNames() []string { return slices.Sorted(maps.Keys(keyOf)) }

func (r *replayer) run(cmd *cobra.Command) error {
	if r.top < 0 || r.top > maxLogRequests {
		return exit.Usagef("--top %d: must be 0 to %d", r.top, maxLogRequests)
	}
	if r.on {
		return r.runVirtual(cmd)
	}
	if err := onlyWith(cmd, "with --virtual", virtualOnly...); err != nil {
		return err
	}
	ctx, messages := cmd.Context(), cmd.ErrOrStderr()
	spread, err := r.check()
	if err != nil {
		return err
	}
	if err := r.read(ctx, cmd.InOrStdin()); err != nil {
		return err
	}
	if r.limits != "" {
		if r.limits == "-" && r.log == "-" {
			return exit.Usagef("--log and --limits cannot both be standard input")
		}
		res, err := limits.ApplyLimits(ctx, &r.Targets, r.limits, cmd.InOrStdin())
		if err != nil {
			return err
		}
		if err := r.AwaitLimits(ctx, r.addrs, res.Version); err != nil {
			return err
		}
	}
	if err := findLimit(ctx, &r.Targets, r.name, &r.rule); err != nil {
		return err
	}
	warnUnready(ctx, &r.Targets, messages)
	if r.pool, err = newPool(r.Dial, r.addrs, 1, r.timeout); err != nil {
		return err
	}
	defer r.pool.close()
	r.play(ctx, spread, messages)
	rep := r.report()
	err = r.output.Print(cmd, rep, rep.print)
	if err == nil && ctx.Err() != nil {
		err = errors.New("interrupted; the report covers what was sent before")
	}
	if err == nil && rep.Errors > 0 && rep.Errors == rep.Requests {
		err = exit.With(exit.Unreachable, errors.New("no request was answered"))
	}
	return err
}

func (r *replayer) check() (s *spread, err error) {
	if r.log == "" {
		return nil, exit.Usagef("--log is missing: say which access log to play, such as --log examples/access.log")
	}
	if r.name, err = checkLimitFlag(r.limit); err != nil {
		return nil, err
	}
	if keyOf[r.key] == nil {
		return nil, exit.Usagef("--key %q: must be one of %s", r.key, strings.Join(keyNames(), ", "))
	}
	if !(r.speed > 0 && r.speed <= 1e9) {
		return nil, exit.Usagef("--speed %v: must be more than 0, at most 1e9", r.speed)
	}
	if r.timeout <= 0 {
		return nil, exit.Usagef("--timeout %v: must be more than 0", r.timeout)
	}
	if r.prefix == "" {
		r.prefix = runPrefix()
	}
	if r.addrs, err = r.Resolve(); err != nil {
		return nil, err
	}
	return parseSpread("skew", r.skew, len(r.addrs))
}

// runPrefix returns a prefix that makes the keys of this run distinct.
func runPrefix() string { return fmt.Sprintf("r%d-", time.Now().Unix()) }

func checkLimitFlag(s string) (quota.LimitName, error) {
	if s == "" {
		return quota.LimitName{}, exit.Usagef("--limit is missing: say which limit to check, such as --limit web/per_client")
	}
	n, err := quota.ParseLimitName(s)
	if err != nil {
		return n, exit.Usagef("--%w", err)
	}
	return n, nil
}

// read reads the log. Standard input may never end, so read also returns when ctx ends.
func (r *replayer) read(ctx context.Context, stdin io.Reader) error {
	in := stdin
	if r.log != "-" {
		f, err := os.Open(r.log)
		if err != nil {
			return exit.Invalid(err)
		}
		defer f.Close() //nolint:errcheck // read only
		in = f
	}
	done := make(chan error, 1)
	go func() { done <- r.access.read(in, keyOf[r.key], r.prefix) }()
	select {
	case err := <-done:
		if err != nil {
			return exit.Errorf(exit.Usage, "%s: %w", r.log, err)
		}
	case <-ctx.Done():
	}
	if ctx.Err() != nil { // even if reading has ended too
		return errors.New("interrupted while the log was read")
	}
	if len(r.access.requests) == 0 {
		first := ""
		if len(r.access.badShown) > 0 {
			first = "; " + r.access.badShown[0]
		}
		return exit.Errorf(exit.Usage, "%s: has no line in combined format (%d others%s)", r.log, r.access.bad, first)
	}
	return nil
}

// play sends the requests and records the decisions.
func (r *replayer) play(ctx context.Context, s *spread, messages io.Writer) {
	reqs := r.access.requests
	r.decisions = make([]decision, len(reqs))
	r.pace = newPacer()
	nodes := make([]uint8, len(reqs))
	for i := range nodes {
		nodes[i] = uint8(s.next())
	}
	stop := render.Every(time.Second, func(at time.Duration) {
		fmt.Fprintf(messages, "%4.0fs  sent %d of %d  admitted %d  refused %d  errors %d\n",
			at.Seconds(), r.pace.sentSoFar(), len(reqs), r.allowed.Load(), r.refused.Load(), r.errors.Load())
	})
	defer stop()
	at := func(i int) time.Duration {
		return time.Duration(float64(reqs[i].at.Sub(reqs[0].at)) / r.speed)
	}
	r.pace.run(ctx, len(reqs), at, func(i int, _ time.Time) {
		key := reqs[i].key
		req := &quoratev1.AllowRequest{Namespace: r.name.Namespace, Limit: r.name.Limit, Key: r.access.keys[key]}
		var res *quoratev1.AllowResponse
		e, err := r.pool.ask(ctx, int(nodes[i]), func(ctx context.Context, q quoratev1.QuotaServiceClient) (err error) {
			res, err = q.Allow(ctx, req)
			return err
		})
		if err != nil {
			r.errors.Add(1)
			return
		}
		moment := e.asked.Sub(r.pace.start) + e.answered.Sub(e.asked)/2
		r.decisions[i] = decision{key: key, moment: moment, cost: 1, allowed: res.Allowed, why: quota.Why(res.Why), valid: true}
		if res.Allowed {
			r.allowed.Add(1)
		} else {
			r.refused.Add(1)
		}
	})
}
