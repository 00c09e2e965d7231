package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/process"
)

// Faults of a window, as parts of its length. They are over long before it ends, so that what it
// measures then is of whole nodes.
const (
	killAt  = 0.05
	harmAt  = 0.3
	harmEnd = 0.6
)

// away is how long a killed node is away.
const away = 3 * time.Second

// diskSize is the size of the file system of the node whose disk fills up, and fullDisk what it may
// have free then: a node stops leading below 32 MiB.
const (
	diskNode = 1 // its index
	diskSize = "1g"
	fullDisk = 1 << 20
)

// step is how far a wall clock is stepped.
const step = 2 * time.Second

// disturb does the faults of a window: one node after the other is killed with SIGKILL and started
// again; later in the window the wall clock of another is stepped ahead and back, or back and ahead, or the
// disk of a node fills up, or one is slowed. It returns what it did.
func disturb(ctx context.Context, c *process.Cluster, window int, length time.Duration, ownDisk bool) (did string, err error) {
	began := time.Now()
	at := func(part float64) error {
		select {
		case <-time.After(time.Duration(part*float64(length)) - time.Since(began)):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	victim := c.Nodes[window%len(c.Nodes)]
	if err := at(killAt); err != nil {
		return "", err
	}
	victim.Kill()
	time.Sleep(away)
	if err := victim.Start(); err != nil {
		return "", err
	}
	if err := victim.Ready(ctx); err != nil {
		return "", err
	}
	did = fmt.Sprintf("%s killed, ready after %v", victim.ID, time.Since(began.Add(time.Duration(killAt*float64(length)))).Round(100*time.Millisecond))
	if err := at(harmAt); err != nil {
		return "", err
	}
	end := began.Add(time.Duration(harmEnd * float64(length)))
	switch {
	case window%4 == 1 && ownDisk:
		n := c.Nodes[diskNode]
		file := filepath.Join(n.Data, "fill")
		filled := time.Now()
		if err := fill(n.Data, file); err != nil {
			return "", err
		}
		time.Sleep(time.Until(end))
		if err := os.Remove(file); err != nil {
			return "", err
		}
		did += fmt.Sprintf("; disk of %s full for %v", n.ID, time.Since(filled).Round(time.Second))
	case window%2 == 0:
		n, by := c.Nodes[(window+1)%len(c.Nodes)], step
		if window%4 == 2 {
			by = -step
		}
		if err := n.StepClock(by); err != nil {
			return "", err
		}
		time.Sleep(time.Until(end))
		if err := n.StepClock(0); err != nil {
			return "", err
		}
		did += fmt.Sprintf("; clock of %s stepped by %v and back", n.ID, by)
	case window%4 == 3:
		n := c.Nodes[(window+1)%len(c.Nodes)]
		for time.Now().Before(end) {
			if err := errors.Join(syscall.Kill(n.PID(), syscall.SIGSTOP), pause(), syscall.Kill(n.PID(), syscall.SIGCONT), pause()); err != nil {
				return "", err
			}
		}
		did += "; " + n.ID + " stopped for half of the time, 50 ms each"
	}
	return did, nil
}

func pause() error { time.Sleep(50 * time.Millisecond); return nil }

// fill takes all but fullDisk bytes of a file system.
func fill(dir, file string) error {
	var free unix.Statfs_t
	if err := unix.Statfs(dir, &free); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, int64(free.Bavail)*free.Bsize-fullDisk), f.Close())
}
