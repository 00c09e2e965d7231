package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// load works for about the given time. It returns the number of operations, and the duration of the
// calls.
type load func(ctx context.Context, d time.Duration) (done int, took []time.Duration, err error)

// runner holds servers under a load.
type runner struct {
	load    load
	servers []*process.Process
	debug   []string // addresses of their profiles
	syncs   bool     // counts fsyncs, where perf is installed
	closers []func() error
}

// Round implements suite.Runner.
func (r *runner) Round(ctx context.Context, d time.Duration) (suite.Sample, error) {
	if r.syncs {
		return r.countedRound(ctx, d)
	}
	before, err := process.CPU(r.servers...)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	done, took, err := r.load(ctx, d)
	lasted := time.Since(start)
	if err != nil {
		return nil, err
	}
	after, err := process.CPU(r.servers...)
	if err != nil {
		return nil, err
	}
	if done == 0 {
		return nil, errors.New("nothing was answered")
	}
	slices.Sort(took)
	return suite.Sample{
		cpu: micros(after-before) / float64(done), rate: float64(done) / lasted.Seconds(),
		p50: micros(took[len(took)/2]), p99: micros(took[len(took)*99/100]),
	}, nil
}

// countedRound is a round that counts fsyncs as well.
func (r *runner) countedRound(ctx context.Context, d time.Duration) (suite.Sample, error) {
	load, done := r.load, 0
	counted := *r
	counted.syncs = false
	counted.load = func(ctx context.Context, d time.Duration) (n int, took []time.Duration, err error) {
		n, took, err = load(ctx, d)
		done = n
		return n, took, err
	}
	count, err := process.CountSyncs(r.servers...)
	if err != nil {
		if errors.Is(err, process.ErrNotFound) {
			return counted.Round(ctx, d)
		}
		return nil, err
	}
	s, err := counted.Round(ctx, d)
	n, countErr := count.End()
	if err := errors.Join(err, countErr); err != nil {
		return nil, err
	}
	s[fsyncs] = float64(n) / float64(done)
	return s, nil
}

func micros(d time.Duration) float64 { return d.Seconds() * 1e6 }

// Close implements suite.Runner. It closes in reverse order of opening.
func (r *runner) Close() error {
	var errs []error
	for _, c := range slices.Backward(r.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// warmUp is how long a load runs before it counts, to open buckets and fill pools.
const warmUp = 500 * time.Millisecond

// begin warms up a runner that build has set up. If build fails, it closes what build opened.
func begin(ctx context.Context, build func(r *runner) error) (suite.Runner, error) {
	r := &runner{}
	err := build(r)
	if err == nil {
		_, err = r.Round(ctx, warmUp)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// limits are never exhausted by these loads.
const limits = `version: 1
namespaces:
  bench:
    limits:
      check: {rate: 1000000/s, burst: 1000000}
`

// ours is a number of Quorate nodes under the load that on makes from them.
func ours(name string, nodes int, on func(r *runner, c *process.Cluster) error, targets ...suite.Target) suite.Subject {
	return suite.Subject{Name: name, Ours: true, Targets: targets, Start: func(ctx context.Context) (suite.Runner, error) {
		return begin(ctx, func(r *runner) error {
			c, err := process.NewCluster(ctx, process.Options{Nodes: nodes, Limits: limits})
			if err != nil {
				return err
			}
			r.servers = c.Processes()
			for _, n := range c.Nodes {
				r.debug = append(r.debug, n.Debug)
			}
			r.closers = append(r.closers, c.Close)
			return on(r, c)
		})
	}}
}

// overGRPC dials all nodes.
func overGRPC(load func(*dialled) load) func(*runner, *process.Cluster) error {
	return func(r *runner, c *process.Cluster) error { return r.dial(c.Addrs(), load) }
}

func (r *runner) dial(addrs []string, load func(*dialled) load) error {
	d, err := dial(addrs)
	if err != nil {
		return err
	}
	r.load = load(d)
	r.closers = append(r.closers, d.close)
	return nil
}
