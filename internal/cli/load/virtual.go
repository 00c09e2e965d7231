package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/apiproto"
	"github.com/quorate/quorate/internal/cli/exit"
	"github.com/quorate/quorate/internal/cli/limits"
	"github.com/quorate/quorate/internal/cli/remote"
	"github.com/quorate/quorate/internal/cli/render"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/sim"
)

// virtual holds the options that "quorate replay --virtual" adds to a replay.
type virtual struct {
	on                     bool
	sync, delay, grantWait time.Duration
	seed                   uint64

	played atomic.Int64
}

// Flags of a replay that apply only with --virtual, or only without.
var (
	virtualOnly = []string{"sync", "delay", "grant-wait", "seed"}
	liveOnly    = []string{"speed", "timeout", "key-prefix", "addr", "base-port"}
)

func (v *virtual) addVirtualFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&v.on, "virtual", false, "simulate the cluster, on the log's own clock")
	f.DurationVar(&v.sync, "sync", 100*time.Millisecond, "with --virtual: the sync interval, 1ms to 1m")
	f.DurationVar(&v.delay, "delay", time.Millisecond, "with --virtual: how long a message takes between nodes, 0 to 10s")
	f.DurationVar(&v.grantWait, "grant-wait", cluster.DefaultGrantWait, "with --virtual: how long a check may wait for a grant, 0 to 1s")
	f.Uint64Var(&v.seed, "seed", 1, "with --virtual: seed of all random choices")
}

// onlyWith refuses flags that have no effect here.
func onlyWith(cmd *cobra.Command, when string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return exit.Usagef("--%s: is only for a replay %s; leave it out", name, when)
		}
	}
	return nil
}

// runVirtual plays the log in the simulator, once per limit.
func (r *replayer) runVirtual(cmd *cobra.Command) error {
	if err := r.checkVirtual(cmd); err != nil {
		return err
	}
	limits, err := r.readLimits(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if r.limit == "" {
		r.access.byRoute = map[route]int32{}
	}
	if err := r.read(cmd.Context(), cmd.InOrStdin()); err != nil {
		return err
	}
	rep := newVirtualReport(r)
	messages := cmd.ErrOrStderr()
	stop := render.Every(time.Second, func(at time.Duration) {
		fmt.Fprintf(messages, "%4.0fs  played %d of %d\n", at.Seconds(), r.played.Load(), len(r.access.requests)*len(limits))
	})
	for i := range limits {
		rep.add(r, &limits[i], r.simulate(cmd.Context(), &limits[i]))
	}
	stop()
	if cmd.Context().Err() != nil {
		return errors.New("interrupted; a partial replay has no meaning, so nothing is printed")
	}
	return r.output.Print(cmd, rep, rep.print)
}

func (r *replayer) checkVirtual(cmd *cobra.Command) error {
	if err := onlyWith(cmd, "against a running cluster", liveOnly...); err != nil {
		return err
	}
	switch {
	case r.log == "":
		return exit.Usagef("--log is missing: say which access log to play, such as --log examples/access.log")
	case r.limits == "":
		return exit.Usagef("--limits is missing: say which limit file to try, such as --limits examples/limits.yaml")
	case r.limits == "-" && r.log == "-":
		return exit.Usagef("--log and --limits cannot both be standard input")
	case keyOf[r.key] == nil:
		return exit.Usagef("--key %q: must be one of %s", r.key, strings.Join(keyNames(), ", "))
	case r.Nodes < 1 || r.Nodes > remote.MaxNodes:
		return exit.Usagef("--nodes %d: must be 1 to %d", r.Nodes, remote.MaxNodes)
	case r.sync < time.Millisecond || r.sync > time.Minute:
		return exit.Usagef("--sync %v: must be 1ms to 1m", r.sync)
	case r.delay < 0 || r.delay > 10*time.Second:
		return exit.Usagef("--delay %v: must be 0 to 10s", r.delay)
	}
	if r.grantWait < 0 || r.grantWait > time.Second {
		return exit.Usagef("--grant-wait %v: must be 0 to 1s", r.grantWait)
	}
	_, err := parseSpread("skew", r.skew, r.Nodes)
	return err
}

// readLimits returns the limits to play: the named one, or all limits for HTTP requests.
func (r *replayer) readLimits(stdin io.Reader) ([]quota.Limit, error) {
	data, err := limits.ReadInput(r.limits, stdin, apiproto.MaxLimitsFile)
	if err != nil {
		return nil, err
	}
	all, err := config.ParseLimits(r.limits, data)
	if err != nil {
		return nil, exit.Invalid(err)
	}
	if r.limit == "" {
		return r.matching(all)
	}
	if r.name, err = checkLimitFlag(r.limit); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(l quota.Limit) bool { return l.LimitName == r.name })
	if i < 0 {
		return nil, exit.NotFoundf("limit %v: unknown in %s, which has %d: %s", r.name, r.limits, len(all), namesOf(all))
	}
	return all[i : i+1], playable(&all[i])
}

func (r *replayer) matching(all []quota.Limit) ([]quota.Limit, error) {
	some := slices.DeleteFunc(slices.Clone(all), func(l quota.Limit) bool { return l.Match == nil })
	if len(some) == 0 {
		return nil, exit.Usagef("--limit is missing: no limit of %s has a match; name one of its %d: %s", r.limits, len(all), namesOf(all))
	}
	for i := range some {
		if err := playable(&some[i]); err != nil {
			return nil, err
		}
	}
	return some, nil
}

func namesOf(all []quota.Limit) string {
	var names []string
	for _, l := range all[:min(len(all), 10)] {
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}

// playable returns an error if an access log cannot show what the limit would have done.
func playable(l *quota.Limit) error {
	switch {
	case l.Class != quota.Counted:
		return exit.Usagef("limit %v: counts nothing; it would have admitted, or refused, everything", l.LimitName)
	case l.Kind == quota.Concurrency:
		return exit.Usagef("limit %v: is a concurrency limit, and an access log does not say how long requests took", l.LimitName)
	case l.Parent != "":
		return exit.Usagef("limit %v: has the parent %s, and the simulator plays one limit at a time; play a copy of the limit without the parent", l.LimitName, l.Parent)
	}
	return nil
}

// simulate plays a limit and returns the decisions in order. It treats limits in shadow or off as
// enforced, because the question is what they would refuse.
func (r *replayer) simulate(ctx context.Context, l *quota.Limit) (out []decision) {
	enforced := *l
	enforced.Enforcement, enforced.Fraction = quota.Enforce, 0
	keys := make(map[string]int32, len(r.access.keys))
	for i, k := range r.access.keys {
		keys[k] = int32(i)
	}
	first, _ := r.span()
	sim.Run(sim.Scenario{
		Seed: r.seed, Nodes: r.Nodes, Sync: r.sync, Delay: r.delay, Limit: enforced, Hop: r.grantWait,
		Start: quota.Time(first.UnixNano()), Skew: -1, // windows follow the times of the log
		Requests: r.arrivals(ctx, l), Stopped: func() bool { return ctx.Err() != nil },
		Decided: func(at time.Duration, _ int, key string, d quota.Decision, _ bool) {
			out = append(out, decision{key: keys[key], moment: at, cost: 1, allowed: d.Allowed, why: d.Why, tier: int16(d.Tier), valid: true})
		},
	})
	return out
}

// span returns the times of the first and the last request.
func (r *replayer) span() (first, last time.Time) {
	reqs := r.access.requests
	return reqs[0].at, reqs[len(reqs)-1].at
}

// moments returns the time of each request since the start of the first request's second. Within
// the logged second the time is random, since the log is no more precise, but it keeps the log's
// order. At the edges of seconds, windows would end and tokens would refill exactly at the moments
// of requests.
func moments(reqs []request, seed uint64) []time.Duration {
	rng := rand.New(rand.NewPCG(seed, 1))
	at := make([]time.Duration, len(reqs))
	for i := 0; i < len(reqs); {
		from := i
		for ; i < len(reqs) && reqs[i].at.Equal(reqs[from].at); i++ {
			at[i] = reqs[i].at.Sub(reqs[0].at) + time.Duration(rng.Int64N(int64(time.Second)))
		}
		slices.Sort(at[from:i])
	}
	return at
}

// arrivals returns the requests that a limit applies to, spread over the nodes as in a live replay.
// The sequence ends early when ctx ends.
func (r *replayer) arrivals(ctx context.Context, l *quota.Limit) iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		nodes, _ := parseSpread("skew", r.skew, r.Nodes) // already validated
		meant := r.meant(l)
		at := moments(r.access.requests, r.seed)
		for i, q := range r.access.requests {
			node := nodes.next()
			r.played.Add(1)
			if ctx.Err() != nil || meant(q) && !yield(sim.Request{At: at[i], Key: r.access.keys[q.key], Node: node + 1, Cost: 1}) {
				return
			}
		}
	}
}

// meant returns a function that reports whether a limit applies to a request. A limit that the user
// named applies to all.
func (r *replayer) meant(l *quota.Limit) func(request) bool {
	if r.limit != "" {
		return func(request) bool { return true }
	}
	match := make([]bool, len(r.access.routes))
	for i, rt := range r.access.routes {
		match[i] = l.Match.Matches(rt.method, rt.path)
	}
	return func(q request) bool { return match[q.route] }
}
