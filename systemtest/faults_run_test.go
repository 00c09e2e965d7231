package systemtest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/config"
	"github.com/quorate/quorate/internal/bound"
	"github.com/quorate/quorate/internal/quota"
)

// The rates of the load's limits, and the demand at each node: in all five times the limit.
const (
	faultRate, faultBurst, faultAsked = 60, 60, 100

	faultLimits = `
version: 1
namespaces:
  api:
    limits:
      soft: {rate: 60/s, burst: 60}
      hard: {rate: 60/s, burst: 60, ceiling: hard}
`
)

// longFaults reports whether faults take their full time. make faults sets this; CI has no time for
// it.
func longFaults() bool { return os.Getenv("SOAK_FAULTS") != "" }

// long returns full when faults take their full time, and short otherwise.
func long(full, short time.Duration) time.Duration {
	if longFaults() {
		return full
	}
	return short
}

// loadedCluster is a cluster under both kinds of load, into which the tests inject faults.
type loadedCluster struct {
	t     *testing.T
	net   *fabric
	c     *servers
	keys  []quota.Key // soft, hard: in one range
	asks  *askers
	banks *deposits
	gone  map[int][]outage // during this fault, by node
}

// down records that a node can answer nothing from now on; up records that it is back and has
// answered again.
func (f *loadedCluster) down(k int) {
	f.banks.avoid(k)
	f.gone[k] = append(f.gone[k], outage{time.Now(), time.Now().Add(time.Hour)})
}

func (f *loadedCluster) up(k int) {
	f.banks.use(k)
	f.gone[k][len(f.gone[k])-1].to = time.Now()
}

// newLoadedCluster starts three nodes and the load. It calls before, if set, before the nodes
// start.
func newLoadedCluster(t *testing.T, before func(c *servers)) *loadedCluster {
	t.Helper()
	needBinary(t)
	moreFiles(t, crowdSize())
	f := &loadedCluster{t: t, net: newFabric(t, 3)}
	f.c = f.net.servers(8)
	if before != nil {
		before(f.c)
	}
	f.c.run(faultLimits)
	f.keys = f.c.oneLeader("api/soft", "api/hard")
	f.asks = startAskers(t, f.c.nodes, faultAsked, f.keys)
	f.banks = startDeposits(t, f.c)
	time.Sleep(2 * time.Second) // load before the first fault
	return f
}

// fault is one kind of failure.
type fault struct {
	name, did string
	inject    func()
	hold      time.Duration // between inject and heal
	heal      func()
	silent    []int         // node indexes that can answer nothing meanwhile
	alone     []int         // nodes that decide alone meanwhile and commit nothing
	note      func() string // called at the end: what the fault observed
	sick      []int         // nodes that should not lead meanwhile
	unsteady  bool          // leaderships move meanwhile and are not checked
	calm      bool          // no leader should be lost
	lossy     bool          // messages are lost: no bound is stated for soft limits
	delay     time.Duration

	// Targets; zero selects the default.
	gap, rest, after, settle time.Duration
	memory                   float64 // MiB that a node may keep
}

// figures are the measurements of one fault.
type figures struct {
	gap         time.Duration // longest time without a decision on a node that could answer
	gapNode     string
	unanswered  int
	lastErr     error
	soft, hard  measured
	bound       float64
	boundOf     string
	deposits    int // answered during the fault
	durable     error
	elections   int           // terms that began, over all ranges
	rest, after time.Duration // until the others served everything again; until all nodes did, after healing
	before, end []vitals
	stalled     time.Duration // total time in which this process got no processor
	took        time.Duration
}

// vitals are the resources that a process uses.
type vitals struct{ rss, goroutines float64 }

func (f *loadedCluster) vitals(s *server) vitals {
	return vitals{s.metric(f.t, "process_resident_memory_bytes") / (1 << 20), s.metric(f.t, "go_goroutines")}
}

func (f *loadedCluster) allVitals() (out []vitals) {
	for _, s := range f.c.nodes {
		out = append(out, f.vitals(s))
	}
	return out
}

// nodes returns all node indexes except but.
func (f *loadedCluster) nodes(but ...int) (out []int) {
	for i := range f.c.nodes {
		if !slices.Contains(but, i) {
			out = append(out, i)
		}
	}
	return out
}

// leader returns the index of the node that leads the keys, and the indexes of the others.
func (f *loadedCluster) leader() (leader int, others []int) {
	leader = slices.Index(f.c.nodes, f.c.leads(f.keys[0]))
	return leader, f.nodes(leader)
}

// run injects a fault as a subtest and checks its figures against the targets.
func (f *loadedCluster) run(make func() fault) {
	f.t.Helper()
	ft := make()
	ok := f.t.Run(strings.ReplaceAll(ft.name, " ", "_"), func(t *testing.T) {
		fig := f.do(t, &ft)
		if ft.note != nil {
			ft.did += "; " + ft.note()
		}
		row := fig.row(f, &ft)
		t.Log(row)
		t.Logf("this process got no processor for %v of %v", fig.stalled.Round(time.Millisecond), fig.took.Round(time.Second))
		writeRow(t, "FAULTS_ROWS", row)
		fig.judge(t, f, &ft)
	})
	if !ok {
		f.t.Logf("%s failed: the next faults may be judged by what it left behind", ft.name)
	}
}

func (f *loadedCluster) do(t *testing.T, ft *fault) *figures {
	t.Helper()
	fig := &figures{}
	for _, s := range f.c.nodes {
		f.c.awaitReady(s, 20*time.Second)
	}
	fig.before = f.allVitals()
	terms := f.terms(t)
	began := time.Now()
	f.asks.forget(began)
	f.banks.forget()
	f.gone = map[int][]outage{}
	time.Sleep(500 * time.Millisecond) // load before the fault

	out := slices.Concat(ft.silent, ft.alone, ft.sick)
	for _, k := range ft.silent {
		f.down(k)
	}
	for _, k := range ft.alone {
		f.banks.avoid(k)
	}
	injected := time.Now()
	ft.inject()
	if len(out) == 0 { // the fault takes its time and disables no node: garbage, connections
		injected = time.Now()
	}
	end := time.Now().Add(ft.hold)
	if live := f.nodes(out...); !ft.unsteady && 2*len(live) > len(f.c.nodes) {
		fig.rest = f.awaitServed(t, injected, live, out, max(ft.hold, ft.want().rest))
	}
	time.Sleep(time.Until(end)) // the rest of the fault's duration

	healed := time.Now()
	ft.heal()
	for k := range f.c.nodes {
		f.banks.use(k)
	}
	fig.after = f.awaitServed(t, healed, f.nodes(), nil, ft.want().after)
	for _, k := range ft.silent {
		f.up(k)
	}
	time.Sleep(500 * time.Millisecond) // load after the fault
	over := time.Now()
	fig.stalled, fig.took = f.asks.stalled(began, over), over.Sub(began)

	for k := range f.c.nodes {
		gap, failed, err := f.asks.silence(k, began, over, f.gone[k])
		if gap > fig.gap {
			fig.gap, fig.gapNode = gap, f.c.nodes[k].id
		}
		if fig.unanswered += failed; err != nil {
			fig.lastErr = fmt.Errorf("%s: %w", f.c.nodes[k].id, err)
		}
	}
	shots := f.asks.all()
	fig.soft, fig.hard = measure(slices.Clone(shots), 0, f.limit(0)), measure(slices.Clone(shots), 1, f.limit(1))
	fig.bound, fig.boundOf = f.softBound(ft, fig, over.Sub(injected))
	fig.elections = f.terms(t) - terms
	fig.deposits, fig.durable = f.banks.answered(), f.banks.verify(f.nodes())
	fig.end = f.settled(ft, fig.before)
	return fig
}

func (f *loadedCluster) limit(i int) *quota.Limit { return faultLimit(f.t, f.keys[i].LimitName) }

// faultLimit returns one of faultLimits.
func faultLimit(t *testing.T, name quota.LimitName) *quota.Limit {
	t.Helper()
	all, err := config.ParseLimits("faults.yaml", []byte(faultLimits))
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(all, func(l quota.Limit) bool { return l.LimitName == name })
	return &all[k]
}

// terms returns the sum of the terms of all ranges.
func (f *loadedCluster) terms(t *testing.T) (sum int) {
	t.Helper()
	for _, r := range f.c.awaitReady(f.c.nodes[0], 20*time.Second).Ranges {
		sum += r.Term
	}
	return sum
}

// awaitServed returns how long after a moment, less the stalls of this process, all live nodes were
// ready, ranges were led by nodes other than out, checks were answered, and deposits to all ranges
// succeeded through every live node.
func (f *loadedCluster) awaitServed(t *testing.T, since time.Time, live, out []int, within time.Duration) time.Duration {
	t.Helper()
	served := func() error {
		for _, k := range live {
			st, err := f.c.nodes[k].status()
			switch {
			case err != nil:
				return err
			case !st.Ready:
				return errors.New(st.Reason)
			case !f.asks.answeredSince(k, since):
				return fmt.Errorf("no answer of %s", f.c.nodes[k].id)
			}
			for _, o := range out {
				if id := f.c.nodes[o].id; st.leads(id) {
					return fmt.Errorf("%s still leads", id)
				}
			}
		}
		return f.banks.servedSince(since, live)
	}
	for end := since.Add(2*within + 10*time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := served()
		if now := time.Now(); err == nil {
			return now.Sub(since) - f.asks.stalled(since, now)
		}
		if time.Now().After(end) {
			t.Errorf("not all was served again %v after it: %v", time.Since(since).Round(time.Second), err)
			return time.Since(since)
		}
	}
}

// softBound returns the bound for the soft limit's excess: the bound of a failover, with the
// measured time without a leader, plus, for each node that was alone, what a cut-off node may
// admit.
func (f *loadedCluster) softBound(ft *fault, fig *figures, during time.Duration) (float64, string) {
	noLeader := fig.rest
	if ft.unsteady {
		noLeader = during
	}
	lost, minority := len(ft.silent)+len(ft.alone)+len(ft.sick) > 0 || ft.unsteady, fig.rest == 0 && !ft.unsteady
	c := bound.Cluster{Nodes: len(f.c.nodes), Delay: 5*time.Millisecond + ft.delay, Sync: 100 * time.Millisecond, Lease: 3 * time.Second, Election: noLeader, CutOff: during}
	var sum float64
	var of []string
	for _, s := range bound.Of(f.limit(0), c) {
		switch {
		case s.Name == bound.Failover && lost:
			sum, of = sum+s.Worst, append(of, s.Name)
		case s.Name == bound.Surge && !lost:
			sum, of = sum+s.Worst, append(of, s.Name)
		case s.Name == bound.CutOff && minority: // no majority: the remaining nodes are alone
			sum, of = sum+s.Worst*float64(len(f.c.nodes)-len(ft.silent)), append(of, s.Name)
		case s.Name == bound.CutOff && len(ft.alone) > 0:
			sum, of = sum+s.Worst*float64(len(ft.alone)), append(of, s.Name)
		}
	}
	if ft.lossy {
		of = append(of, "which assumes that messages arrive")
	}
	return sum, strings.Join(of, " + ")
}

// settled waits until the processes use about as much as before, and returns what they use then.
func (f *loadedCluster) settled(ft *fault, before []vitals) (now []vitals) {
	for end := time.Now().Add(ft.want().settle); ; time.Sleep(200 * time.Millisecond) {
		now = f.allVitals()
		back := true
		for k := range now {
			back = back && now[k].rss <= before[k].rss+ft.want().memory
		}
		if back && goroutines(now) <= goroutines(before)+moreGoroutines || time.Now().After(end) {
			return now
		}
	}
}

// goroutines sums over all nodes: a node that leads a range has more, and the others fewer in
// return.
func goroutines(of []vitals) (sum float64) {
	for _, v := range of {
		sum += v.goroutines
	}
	return sum
}

// moreGoroutines is how many more goroutines than before all nodes together may have: for
// connections that the test keeps open, and for calls in flight.
const moreGoroutines = 30

// want returns the fault with the default for every target that it leaves open.
func (ft *fault) want() fault {
	w := *ft
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	or(&w.gap, 250*time.Millisecond)
	or(&w.rest, 5*time.Second)
	or(&w.after, 15*time.Second)
	or(&w.settle, long(3*time.Minute, 5*time.Second))
	if w.memory == 0 {
		w.memory = 24
	}
	return w
}

// patience returns the factor by which things may take longer than the targets in CI. There, other
// jobs share the machine, and a pause of a second says nothing about the product. make faults and
// make system hold the targets themselves.
func patience() time.Duration {
	if longFaults() || soak("SOAK_TARGETS", 0) > 0 {
		return 1
	}
	return 6
}

// judge checks the figures against the targets.
func (fig *figures) judge(t *testing.T, f *loadedCluster, ft *fault) {
	t.Helper()
	w := ft.want()
	check := func(ok bool, format string, args ...any) {
		t.Helper()
		if !ok {
			t.Errorf(format, args...)
		}
	}
	check(fig.gap <= patience()*w.gap, "%s decided nothing for %v; want at most %v", fig.gapNode, fig.gap, w.gap)
	check(fig.unanswered == 0, "%d checks got no answer, the last: %v", fig.unanswered, fig.lastErr)
	check(fig.hard.proven <= 0, "hard: %.2f tokens beyond the limit, proven", fig.hard.proven)
	check(fig.soft.excess <= fig.bound, "soft: %.1f tokens beyond the limit; the bound (%s) is %.0f", fig.soft.excess, fig.boundOf, fig.bound)
	check(fig.hard.admitted > 0 && fig.soft.admitted > 0, "nothing was admitted")
	check(fig.durable == nil && fig.deposits > 0, "durable operations: %v", fig.durable)
	check(!ft.calm || fig.elections == 0 || !longFaults(), "%d terms began; no leader should have been lost", fig.elections)
	check(fig.rest <= patience()*w.rest, "the others served all again after %v; want %v", fig.rest, w.rest)
	check(fig.after <= patience()*w.after, "all served again %v after healing; want %v", fig.after, w.after)
	for k := range fig.end {
		b, e := fig.before[k], fig.end[k]
		check(e.rss <= b.rss+w.memory*float64(patience()), "%s has %.0f MiB, before it had %.0f", f.c.nodes[k].id, e.rss, b.rss)
	}
	check(goroutines(fig.end) <= goroutines(fig.before)+moreGoroutines, "all nodes have %.0f goroutines, before they had %.0f", goroutines(fig.end), goroutines(fig.before))
}

// row formats a line of docs/development/faults.md.
func (fig *figures) row(f *loadedCluster, ft *fault) string {
	rest := "-"
	if fig.rest > 0 {
		rest = seconds(fig.rest)
	}
	durable := "exact"
	if fig.durable != nil {
		durable = "**" + fig.durable.Error() + "**"
	}
	worst := 0
	for k := range fig.end {
		if fig.end[k].rss-fig.before[k].rss > fig.end[worst].rss-fig.before[worst].rss {
			worst = k
		}
	}
	return fmt.Sprintf("| %s | %s | %d ms | %.1f of %.0f | %.2f of 0 | %d, %s | %d | %s | %s | %.0f -> %.0f | %.0f -> %.0f |",
		ft.name, ft.did, fig.gap.Milliseconds(), fig.soft.excess, fig.bound, fig.hard.proven, fig.deposits, durable, fig.elections, rest, seconds(fig.after),
		fig.before[worst].rss, fig.end[worst].rss, goroutines(fig.before), goroutines(fig.end))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// writeRow appends a line to the file that an environment variable names, if it is set. Make builds
// tables of it.
func writeRow(t *testing.T, variable, row string) {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		return
	}
	out, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fmt.Fprintln(out, row)
}
