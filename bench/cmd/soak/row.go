package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/process"
	"github.com/quorate/quorate/bench/suite"
)

// row is one window of a soak.
type row struct {
	after, p50, p99       time.Duration
	rate                  float64
	errors                int64
	keys                  int
	rss, heap, goroutines float64 // of all nodes
}

// look adds what the nodes take now.
func (r *row) look(ctx context.Context, c *process.Cluster) error {
	for _, n := range c.Nodes {
		rss, err := process.RSS(n.PID())
		if err != nil {
			return err
		}
		r.rss += float64(rss)
		m, err := metrics(ctx, n.HTTP)
		if err != nil {
			return err
		}
		r.heap += m["go_memstats_heap_inuse_bytes"]
		r.goroutines += m["go_goroutines"]
	}
	return nil
}

// metrics are those of a node that have no labels.
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

func ms(d time.Duration) string { return suite.Number(float64(d.Microseconds()) / 1000) }

func (r *row) print() {
	n := suite.Number
	fmt.Printf("| %v | %s | %s | %s | %d | %s | %s | %s | %s |\n", r.after.Round(time.Second), n(r.rate), ms(r.p50), ms(r.p99), r.errors,
		n(float64(r.keys)), n(r.rss/(1<<20)), n(r.heap/(1<<20)), n(r.goroutines))
}

// What counts as flat: the last third of the windows against the first.
const (
	mostMemory     = 1.2
	mostLatency    = 1.5
	mostGoroutines = 1.1
)

// judge prints a verdict for each and returns whether all are flat.
func judge(rows []row, latency bool) bool {
	third := max(len(rows)/3, 1)
	flat := true
	fmt.Println("\n| | first third | last third | ratio | at most | flat |\n|---|---|---|---|---|---|")
	say := func(what string, most float64, of func(r *row) float64) {
		first, last := least(rows[:third], of), least(rows[len(rows)-third:], of)
		ok := last <= most*first
		flat = flat && ok
		fmt.Printf("| %s | %s | %s | %.2f | %s | %v |\n", what, suite.Number(first), suite.Number(last), last/first, suite.Number(most), ok)
	}
	say("RSS of 3 nodes, MB", mostMemory, func(r *row) float64 { return r.rss / (1 << 20) })
	say("heap, MB", mostMemory, func(r *row) float64 { return r.heap / (1 << 20) })
	say("goroutines", mostGoroutines, func(r *row) float64 { return r.goroutines })
	if latency {
		say("p50, ms", mostLatency, func(r *row) float64 { return r.p50.Seconds() * 1000 })
		say("p99, ms", mostLatency, func(r *row) float64 { return r.p99.Seconds() * 1000 })
	}
	var errors int64
	for i := range rows {
		errors += rows[i].errors
	}
	fmt.Printf("| errors | | %d | | 0 | %v |\n", errors, errors == 0)
	return flat && errors == 0
}

// least is that of the quietest window: what grows, grows there too, and what a
// neighbour of the machine did in a moment is left out.
func least(rows []row, of func(*row) float64) float64 {
	v := of(&rows[0])
	for i := range rows {
		v = min(v, of(&rows[i]))
	}
	return v
}
