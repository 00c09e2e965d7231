// Command soak loads three real nodes for a long time at 70 % of their capacity, while keys come
// and go, and judges whether memory, descriptors, goroutines, disk and latency stay flat. With -faults
// it also kills and slows nodes, fills their disks and steps their clocks, and hard limits and
// accounts must stay exact.
//
//	go run ./cmd/soak -faults -out ../docs/performance/soak.md
//	go run ./cmd/soak -duration 30m
//	go run ./cmd/soak -duration 2m
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// windows is the number of parts of a soak. The first ones, the start, are not judged: keys are
// still being opened, and none has been idle for long enough to be dropped.
const (
	windows = 16
	start   = 4
)

const limits = `version: 1
namespaces:
  soak:
    limits:
      l: {rate: 1000/s, burst: 1000}
      hard: {rate: 100/s, burst: 100, ceiling: hard}
` + durableLimits

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	flat, err := run(ctx)
	process.Cleanup()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
	if !flat {
		os.Exit(3)
	}
}

func run(ctx context.Context) (flat bool, err error) {
	duration := flag.Duration("duration", 30*time.Minute, "how long")
	part := flag.Float64("part", 0.7, "part of the maximum, which is measured first")
	fixed := flag.Float64("rate", 0, "checks a second, to compare runs; 0 is the part of the maximum")
	keys := flag.Int("keys", 20_000, "keys in use at a time")
	lives := flag.Duration("life", 0, "how long a key is in use, at least 1s; 0 means a sixteenth of the duration, at most a minute")
	profiles := flag.String("profiles", "", "existing `directory` for heap profiles of the nodes, of the first window that is judged and of the last")
	latency := flag.Bool("latency", true, "judge latency too; on a machine that others use it says nothing")
	faults := flag.Bool("faults", false, "kill a node in each of the 16 windows, and then step the clock of one, fill the disk of one (as root) or slow one; latency is not judged")
	out := flag.String("out", "", "`file` for the report too")
	flag.Parse()
	report, err := openReport(*out)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, report.close(err)) }()
	// A key is in use until another takes its place, and dropped after the same time again. So the
	// nodes are full before the start is over.
	life := max(min(*duration/windows, time.Minute), time.Second)
	if *lives > 0 {
		life = max(*lives, time.Second)
	}
	o := process.Options{Nodes: 3, Limits: limits, More: fmt.Sprintf("idle: %v\n", life), DiskNode: diskNode, Clocks: *faults}
	ownDisk := *faults && os.Geteuid() == 0
	if ownDisk {
		o.Disk = diskSize
	}
	c, err := process.NewCluster(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	l, err := newLoad(c.Addrs(), *keys, life)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	l.failover = *faults
	var e *exact
	if *faults {
		if e, err = startExact(ctx, l); err != nil {
			return false, err
		}
	}
	most, err := l.maximum(ctx, 10*time.Second) // beside the exact part, whose calls take CPU too
	if err != nil {
		return false, err
	}
	rate := *part * most
	if *fixed > 0 {
		rate = *fixed
	}
	report.printf("The nodes answer at most %s checks/s. The load was %s checks/s for %v, on %d keys at a time, each in use for %v.\n\n", suite.Number(most), suite.Number(rate), *duration, *keys, life)
	report.println("| after | checks/s | CPU of 3 nodes, µs per check | p50, ms | p99, ms | errors | keys so far | keys in nodes' tables | keys in leaders' ledgers | resident memory without mapped files, 3 nodes, MiB | mapped files, MiB | live heap, MiB | goroutines | descriptors | disk, MiB | faults |")
	report.println("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|")
	var rows []row
	for w := range windows {
		harm := make(chan error, 1)
		did := ""
		go func() {
			var err error
			if *faults {
				did, err = disturb(ctx, c, w, *duration/windows, ownDisk)
			}
			harm <- err
		}()
		used, err := c.CPU()
		if err != nil {
			return false, err
		}
		r, err := l.window(ctx, rate, *duration/windows)
		if err := errors.Join(err, <-harm); err != nil {
			return false, err
		}
		until, err := c.CPU()
		if err != nil {
			return false, err
		}
		r.cpu = (until - used) / time.Duration(r.asked)
		r.did = did
		if err := r.look(ctx, c); err != nil {
			return false, err
		}
		r.after = time.Duration(w+1) * *duration / windows
		report.println(r.line())
		if *profiles != "" && (w == start || w == windows-1) {
			if err := keepHeaps(ctx, c, *profiles, w); err != nil {
				return false, err
			}
		}
		rows = append(rows, r)
	}
	text, flat := judge(rows[start:], *keys, len(c.Nodes), *latency && !*faults, *faults)
	report.println(text)
	if e != nil {
		text, ok, err := e.verdict(ctx)
		if err != nil {
			return false, err
		}
		report.println(text)
		flat = flat && ok
	}
	return flat, nil
}
