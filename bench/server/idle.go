package server

import (
	"context"
	"fmt"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// settle is how long nodes rest before they count as idle: leaders are in their places, and the
// work of starting is done.
const settle = 5 * time.Second

// idle measures three nodes without any calls.
func idle() suite.Group {
	return suite.Group{
		Name: "idle", Title: "Three nodes that nobody asks",
		Note:     "The default of 64 ranges. CPU is of one core, memory what is resident, both for each node.",
		Measures: []suite.Measure{{Name: cpu, Unit: "% of a core"}, {Name: "RSS", Unit: "MB"}},
		Rounds:   3, QuickRounds: 1, Full: 5 * time.Second, Quick: 5 * time.Second,
		Subjects: []suite.Subject{{
			Name: quorate, Ours: true, Start: startIdle,
			Targets: []suite.Target{atMost(cpu, 3, ""), atMost("RSS", 60, "")},
		}},
	}
}

func startIdle(ctx context.Context) (suite.Runner, error) {
	c, err := process.NewCluster(ctx, process.Options{Nodes: 3, Ranges: 64})
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return nil, fmt.Errorf("%w; %w", ctx.Err(), c.Close())
	}
	return idleNodes{c}, nil
}

type idleNodes struct{ *process.Cluster }

// Round implements suite.Runner.
func (n idleNodes) Round(ctx context.Context, d time.Duration) (suite.Sample, error) {
	began := time.Now()
	before, err := process.CPU(n.Processes()...)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after, err := process.CPU(n.Processes()...)
	if err != nil {
		return nil, err
	}
	nodes, resident := float64(len(n.Nodes)), int64(0)
	for _, p := range n.Processes() {
		rss, _, err := process.RSS(p.PID())
		if err != nil {
			return nil, err
		}
		resident += rss
	}
	return suite.Sample{cpu: 100 * (after - before).Seconds() / time.Since(began).Seconds() / nodes, "RSS": float64(resident) / nodes / (1 << 20)}, nil
}
