package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// settle is how long nodes rest before they count as idle: leaders are in their places, and the
// work of starting is done.
const settle = 5 * time.Second

// idlePeriod is how often nodes that nobody asks write: a round of them takes as long.
const idlePeriod = time.Minute

// inUse is how often all keys in use are asked for together, per second.
const inUse = 2000

const (
	resident = "RSS"
	written  = "to disk"
	sent     = "sent"
)

// idle measures three nodes without any calls, and with keys that are in use.
func idle() suite.Group {
	return suite.Group{
		Name: "idle", Title: "Three nodes, idle and with 10,000 keys in use",
		Note: "64 ranges, the default. Checks use the keys in turn, 2000 a second in total. All figures are for each node: CPU of one core, resident memory, " +
			"calls of fsync and fdatasync (one transaction of the log is two), bytes to the disk, and bytes written to sockets and files.",
		Measures: []suite.Measure{{Name: cpu, Unit: "% of a core"}, {Name: resident, Unit: "MiB"}, {Name: fsyncs, Unit: "1/s"}, {Name: written, Unit: "kB/s"}, {Name: sent, Unit: "kB/s"}},
		Rounds:   3, QuickRounds: 1, Full: 5 * time.Second, Quick: 5 * time.Second,
		Subjects: []suite.Subject{
			{
				Name: quorate, Ours: true, Start: func(ctx context.Context) (suite.Runner, error) { return startIdle(ctx, "") },
				Targets: []suite.Target{atMost(cpu, 3, ""), atMost(resident, 60, ""), atMost(fsyncs, 0.2, "")},
			},
			{
				Name: "10,000 keys in use, soft", Ours: true, Start: func(ctx context.Context) (suite.Runner, error) { return startIdle(ctx, "soft") },
				Targets: []suite.Target{atMost(fsyncs, 5, "")},
			},
			{
				Name: "10,000 keys in use, hard", Ours: true, Start: func(ctx context.Context) (suite.Runner, error) { return startIdle(ctx, "hard") },
				Targets: []suite.Target{atMost(fsyncs, 5, "")},
			},
		},
	}
}

// startIdle starts nodes. With a ceiling, they are asked for keys of a limit that has it.
func startIdle(ctx context.Context, ceiling string) (suite.Runner, error) {
	o := process.Options{Nodes: 3, Ranges: 64}
	if ceiling != "" {
		o.Limits = fmt.Sprintf("version: 1\nnamespaces:\n  bench:\n    limits:\n      check: {rate: 1000/h, burst: 1000, ceiling: %s}\n", ceiling)
	}
	c, err := process.NewCluster(ctx, o)
	if err != nil {
		return nil, err
	}
	r := &idleNodes{Cluster: c}
	if ceiling != "" {
		d, err := dial(c.Addrs())
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		r.dialled, r.ask = d, d.paced(inUse, singles(), 0)
	}
	if err := r.work(ctx, settle); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

type idleNodes struct {
	*process.Cluster
	dialled *dialled // nil if nobody asks
	ask     load
}

// Close implements suite.Runner.
func (n *idleNodes) Close() error {
	if n.dialled == nil {
		return n.Cluster.Close()
	}
	return errors.Join(n.dialled.close(), n.Cluster.Close())
}

// work asks for keys, or waits.
func (n *idleNodes) work(ctx context.Context, d time.Duration) error {
	if n.ask != nil {
		_, _, err := n.ask(ctx, d)
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Round implements suite.Runner.
func (n *idleNodes) Round(ctx context.Context, d time.Duration) (suite.Sample, error) {
	if n.ask == nil {
		d = max(d, idlePeriod)
	}
	if err := n.work(ctx, time.Second); err != nil { // other subjects have had their turn
		return nil, err
	}
	syncs, countErr := process.CountSyncs(n.Processes()...)
	if countErr != nil && !errors.Is(countErr, process.ErrNotFound) {
		return nil, countErr
	}
	began := time.Now()
	before, err := process.Use(n.Processes()...)
	if err == nil {
		err = n.work(ctx, d)
	}
	after, useErr := process.Use(n.Processes()...)
	each := time.Since(began).Seconds() * float64(len(n.Nodes))
	sample := suite.Sample{}
	if syncs != nil {
		count, endErr := syncs.End()
		err = errors.Join(err, endErr)
		sample[fsyncs] = float64(count) / each
	}
	if err := errors.Join(err, useErr); err != nil {
		return nil, err
	}
	for _, p := range n.Processes() {
		rss, _, err := process.RSS(p.PID())
		if err != nil {
			return nil, err
		}
		sample[resident] += float64(rss) / float64(len(n.Nodes)) / (1 << 20)
	}
	sample[cpu] = 100 * (after.CPU - before.CPU).Seconds() / each
	sample[written] = float64(after.Disk-before.Disk) / each / 1e3
	sample[sent] = float64(after.Written-before.Written) / each / 1e3
	return sample, nil
}
