package recorder

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/testspeed"
)

// hoursWorld simulates three nodes, each with a replica of one range, for hours of simulated time. They
// count, upload to the leader, store, and restart from a snapshot, the log and their files.
type hoursWorld struct {
	t      *testing.T
	rng    *rand.Rand
	now    history.Second
	nodes  []*hoursNode
	leader int
	term   quota.Term
	log    []*raftlogv1.HistoryLines
	truth  map[history.Second]history.Counts
}

type hoursNode struct {
	*Recorder
	rep     *Replica
	dir     string
	self    history.Process
	tally   *history.Tally
	state   []byte
	applied int
}

func newHoursWorld(t *testing.T, seed uint64) *hoursWorld {
	w := &hoursWorld{t: t, rng: rand.New(rand.NewPCG(seed, 5)), now: 500_000*3600 + 1000, truth: map[history.Second]history.Counts{}}
	for i := range 3 {
		p := history.Process{Node: quota.NodeID(fmt.Sprint("n", i)), Incarnation: 1}
		n := &hoursNode{dir: t.TempDir(), self: p, tally: history.NewTally(p, w.now, 1, func(quota.LimitName) quota.RangeID { return 0 })}
		n.open(t)
		w.nodes = append(w.nodes, n)
	}
	w.move(0)
	return w
}

// open restarts a node: it loses its memory, except its tally.
func (n *hoursNode) open(t *testing.T) {
	n.rep = NewReplica()
	n.Recorder = &Recorder{
		cfg: Config{Ranges: 1}, node: hoursOnly{n: n}, log: slog.New(slog.DiscardHandler),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "failures"}),
	}
	a, err := archive.Open(n.dir, archive.Config{Minutes: 1e6 * time.Hour, Hours: 1e6 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	n.Files = store{service: n.Recorder, Archive: a, hours: map[hourOf]bool{}, Keys: keyStore{archive: a, hours: map[hourOf]bool{}}}
}

func (n *hoursNode) replica() *Replica { return n.rep }

// hoursOnly is a Node that only has one range.
type hoursOnly struct {
	Node
	n *hoursNode
}

func (o hoursOnly) Replica(quota.RangeID) *Replica { return o.n.rep }

func (w *hoursWorld) move(to int) {
	w.nodes[w.leader].replica().Follow()
	w.leader, w.term = to, w.term+1
	w.nodes[to].replica().Lead(at(w.now), w.term)
}

// second simulates one second.
func (w *hoursWorld) second() {
	alive := make([]history.Process, 0, 3)
	for _, n := range w.nodes {
		alive = append(alive, n.self)
		if w.now/600%5 == 3 || w.rng.IntN(3) > 0 { // in ten minutes of every fifty, nothing is requested
			continue
		}
		admitted := quota.Units(w.rng.IntN(1000)) * quota.Token
		c := history.Counts{Attempted: admitted + quota.Units(w.rng.IntN(100))*quota.Token, Admitted: admitted}
		n.tally.Add(w.now, keysLimit, c)
		sum := w.truth[w.now]
		sum.Add(&c)
		w.truth[w.now] = sum
	}
	w.now++
	r := w.nodes[w.leader].replica()
	for _, n := range w.nodes {
		first, due := n.tally.First(w.now, 0)
		if !due || w.rng.IntN(3) == 0 { // some uploads are lost
			continue
		}
		if next, _, ok := r.Accept(w.now, n.self, first, n.tally.Pending(w.now, 0, maxUploadSlots)); ok {
			n.tally.Acknowledge(0, next)
		}
	}
	lines, slots, term := r.Lines(w.now, alive)
	if lines == nil {
		return
	}
	w.log = append(w.log, lines)
	for _, n := range w.nodes {
		if err := n.replica().Apply(lines); err != nil {
			w.t.Fatal(err)
		}
	}
	r.Written(term, slots, true)
}

// disk restarts a node, takes a snapshot or changes the leader; then all nodes store.
func (w *hoursWorld) disk() {
	i := w.rng.IntN(3)
	n := w.nodes[i]
	switch w.rng.IntN(4) {
	case 0:
		if err := n.Files.close(); err != nil {
			w.t.Fatal(err)
		}
		n.open(w.t)
		if n.state != nil {
			kept, keys, err := Decode(n.state)
			if err != nil {
				w.t.Fatal(err)
			}
			n.replica().Restore(kept, keys)
		}
		for _, lines := range w.log[n.applied:] {
			if err := n.replica().Apply(lines); err != nil {
				w.t.Fatal(err)
			}
		}
		if i == w.leader {
			w.move((i + 1) % 3)
		}
	case 1:
		n.state, n.applied = n.replica().Snapshot(), len(w.log)
	case 2:
		w.move(i)
	}
	for _, n := range w.nodes {
		n.Files.round(w.now)
	}
}

// check compares all points of a step, of every node, with what was counted.
func (w *hoursWorld) check(from, end history.Second, step int) {
	for _, n := range w.nodes {
		points, asOf, err := n.localPoints(0, history.Query{Limit: keysLimit, From: from, End: end, Step: step})
		if err != nil {
			w.t.Fatal(err)
		}
		next := from - from%history.Second(step)
		for i := range points {
			p := &points[i]
			if p.Start != next {
				w.t.Fatalf("%s, step %d: a point of %d follows one that ends at %d", n.self.Node, step, p.Start, next)
			}
			next += history.Second(step)
			var want history.Counts
			peak := quota.Units(0)
			for s := p.Start; s < min(next, asOf); s++ {
				c := w.truth[s]
				want.Add(&c)
				peak = max(peak, c.Attempted)
			}
			whole := p.Start >= from && next <= asOf
			if p.Counts != want || p.Peak != peak || whole && !p.Complete {
				w.t.Fatalf("%s, step %d, %d: %+v; want %+v, peak %d", n.self.Node, step, p.Start, *p, want, peak)
			}
		}
		if next < min(end, asOf) {
			w.t.Fatalf("%s, step %d: points end at %d; wanted until %d", n.self.Node, step, next, min(end, asOf))
		}
	}
}

// TestHistoryHours checks over six hours that the minutes and hours of every node are exactly what was
// counted, from memory and from disk, whichever node leads or restarts.
func TestHistoryHours(t *testing.T) {
	testspeed.Full(t)
	for seed := range uint64(2) {
		w := newHoursWorld(t, seed)
		begin := w.now + 3600 - w.now%3600
		for i := range 6 * 3600 {
			w.second()
			if i%400 == 399 {
				w.disk()
			}
			if i%5000 == 4999 {
				w.check(begin, w.now, 60)
			}
		}
		for range 3 { // late uploads arrive
			for range 60 {
				w.second()
			}
			w.disk()
		}
		w.check(begin, w.now, 60)
		w.check(begin, w.now, 3600)
		for _, n := range w.nodes {
			if stored, err := n.Files.Read(archive.Hours, 0, keysLimit, begin, begin+4*Hour); err != nil || len(stored) != 4 {
				t.Fatalf("%s: %d hours on disk, %v; want 4", n.self.Node, len(stored), err)
			}
		}
	}
}
