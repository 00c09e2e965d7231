package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// row is one window of a soak.
type row struct {
	after, p50, p99  time.Duration
	rate             float64
	cpu              time.Duration // of all nodes, of each check
	errors, asked    int64
	keys             int
	own, files       float64 // resident bytes of all nodes: their own, and mapped files
	heap, goroutines float64 // of all nodes; heap is what survives a collection
	held             float64 // keys in the tables of all nodes
	accounts         float64 // keys in their ledgers
	open, disk       float64 // file descriptors, and bytes of the data directories
	did              string  // what was done to nodes
}

// look adds the current resources of the nodes.
func (r *row) look(ctx context.Context, c *process.Cluster) error {
	for _, n := range c.Nodes {
		rss, files, err := process.RSS(n.PID())
		if err != nil {
			return err
		}
		r.own += float64(rss - files)
		r.files += float64(files)
		if err := collect(ctx, n.Debug); err != nil { // otherwise the heap includes garbage
			return err
		}
		m, err := metrics(ctx, n.HTTP)
		if err != nil {
			return err
		}
		r.heap += m["go_memstats_heap_alloc_bytes"]
		r.held += m["quorate_keys"]
		r.accounts += m["quorate_ledger_keys"]
		r.goroutines += m["go_goroutines"]
		open, err := os.ReadDir("/proc/" + strconv.Itoa(n.PID()) + "/fd")
		if err != nil {
			return err
		}
		size, err := sizeOf(n.Data)
		if err != nil {
			return err
		}
		r.open, r.disk = r.open+float64(len(open)), r.disk+size
	}
	return nil
}

// sizeOf returns the bytes of the blocks that a directory takes.
func sizeOf(dir string) (all float64, err error) {
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var info unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &info)
		}
		if errors.Is(err, fs.ErrNotExist) { // removed after the walk saw it
			return nil
		}
		all += 512 * float64(info.Blocks)
		return err
	})
	return all, err
}

// collect makes a node run its garbage collector.
func collect(ctx context.Context, debug string) error { return heapTo(ctx, debug, io.Discard) }

// keepHeaps writes a heap profile of each node.
func keepHeaps(ctx context.Context, c *process.Cluster, dir string, window int) error {
	for _, n := range c.Nodes {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("heap-%s-%02d.pprof", n.ID, window)))
		if err != nil {
			return err
		}
		if err := errors.Join(heapTo(ctx, n.Debug, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// heapTo runs a node's garbage collector and writes its heap profile.
func heapTo(ctx context.Context, debug string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+debug+"/debug/pprof/heap?gc=1", http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, res.Body)
	return errors.Join(err, res.Body.Close())
}

// metrics returns a node's metrics without labels.
func metrics(ctx context.Context, addr string) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	out := map[string]float64{}
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				out[name] = v
			}
		}
	}
	return out, nil
}

func us(d time.Duration) string { return suite.Number(float64(d.Nanoseconds()) / 1000) }

func ms(d time.Duration) string { return suite.Number(float64(d.Microseconds()) / 1000) }

func (r *row) line() string {
	n := suite.Number
	return fmt.Sprintf("| %v | %s | %s | %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |", r.after.Round(time.Second), n(r.rate), us(r.cpu), ms(r.p50), ms(r.p99), r.errors,
		n(float64(r.keys)), n(r.held), n(r.accounts), n(r.own/(1<<20)), n(r.files/(1<<20)), n(r.heap/(1<<20)), n(r.goroutines), n(r.open), n(r.disk/(1<<20)), r.did)
}

// Flat compares the last third of the windows with the first, within these bounds.
const (
	mostUsed       = 1.2
	mostLatency    = 1.5
	mostGoroutines = 1.1
)

// mostHeld bounds the keys in a node's table, as a multiple of the keys in use at a time: a key
// stays for its life, until it has been idle for as long again, and a little longer until the next
// sweep.
const mostHeld = 3

// mostFiles bounds the mapped files of a node, in MiB: its binary, and logs, which grow to 64 MiB of
// entries, half as many behind snapshots, and the unused space of bbolt.
const mostFiles = 200

// mostFailed is the part of the checks that may fail while nodes are killed: callers ask another
// node, but a call to one that dies may have waited for too long already.
const mostFailed = 1e-4

// judge returns the verdicts, and whether all values stayed flat. keys is the number of keys in use
// at a time, at each node.
func judge(rows []row, keys, nodes int, latency, faults bool) (string, bool) {
	var out strings.Builder
	third := max(len(rows)/3, 1)
	flat := true
	fmt.Fprintln(&out, "\n| | first third | last third | ratio | bound | within it |\n|---|---|---|---|---|---|")
	say := func(what string, most float64, of func(r *row) float64) {
		first, last := least(rows[:third], of), least(rows[len(rows)-third:], of)
		ok := last <= most*first
		flat = flat && ok
		fmt.Fprintf(&out, "| %s | %s | %s | %.2f | %s | %v |\n", what, suite.Number(first), suite.Number(last), last/first, suite.Number(most), ok)
	}
	say("CPU, µs per check", mostUsed, func(r *row) float64 { return r.cpu.Seconds() * 1e6 })
	say("resident memory without mapped files, MiB", mostUsed, func(r *row) float64 { return r.own / (1 << 20) })
	say("heap, MiB", mostUsed, func(r *row) float64 { return r.heap / (1 << 20) })
	say("goroutines", mostGoroutines, func(r *row) float64 { return r.goroutines })
	if faults {
		say("descriptors", mostGoroutines, func(r *row) float64 { return r.open })
	}
	if latency {
		say("p50, ms", mostLatency, func(r *row) float64 { return r.p50.Seconds() * 1000 })
		say("p99, ms", mostLatency, func(r *row) float64 { return r.p99.Seconds() * 1000 })
	}
	atMost := func(what string, got, most float64) {
		flat = flat && got <= most
		fmt.Fprintf(&out, "| %s | | %s | | %s | %v |\n", what, suite.Number(got), suite.Number(most), got <= most)
	}
	var failed, asked float64
	for i := range rows {
		failed += float64(rows[i].errors)
		asked += float64(rows[i].asked)
	}
	last := &rows[len(rows)-1]
	mostErrors := 0.0
	if faults {
		mostErrors = mostFailed * asked
	}
	atMost("errors of "+suite.Number(asked)+" checks", failed, mostErrors)
	atMost("mapped files of a node at the end, MiB", last.files/float64(nodes)/(1<<20), mostFiles)
	atMost("data directory of a node at the end, MiB", last.disk/float64(nodes)/(1<<20), mostFiles)
	atMost("keys in a node's table at the end", last.held/float64(nodes), float64(mostHeld*keys))
	// Otherwise the run was too short for keys to be dropped.
	replaced := last.keys >= 2*mostHeld*keys
	fmt.Fprintf(&out, "| keys so far | | %s | | at least %s | %v |\n", suite.Number(float64(last.keys)), suite.Number(float64(2*mostHeld*keys)), replaced)
	return out.String(), flat && replaced
}

// least returns the value of the quietest window: growth shows there too, while disturbances by
// other processes on the machine do not.
func least(rows []row, of func(*row) float64) float64 {
	v := of(&rows[0])
	for i := range rows {
		v = min(v, of(&rows[i]))
	}
	return v
}
