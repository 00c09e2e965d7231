package history

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

var modelSeeds = flag.Int("history-seeds", 15, "seeds of TestModel")

// world simulates processes, two ranges with leaders and replicas, and the network between them. Messages
// are lost, late or repeated. Leaders change. Lines are lost with their leader, or written after all.
// Processes are killed.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    Second
	nodes  []*node
	ranges []*rangeGroup
	truth  map[Slot]map[quota.LimitName]*Vector
	killed map[Process]Slot // the last slot of each killed process
	faults fault            // faults that can happen now
}

// fault is a set of kinds of faults.
type fault uint8

const (
	loss  fault = 1 << iota // messages, answers and lines are lost
	cuts                    // nodes are cut off, for up to 100 s
	kills                   // nodes are killed, and restart at once
	moves                   // leaders move
	stops                   // nodes stop in order, and restart when the logs have all their counts
	all   = loss | cuts | kills | moves | stops
)

func (w *world) is(f fault, oneIn int) bool { return w.faults&f != 0 && w.rng.IntN(oneIn) == 0 }

type node struct {
	self  Process
	tally *Tally
	cut   Second // the node exchanges no message until then
	ends  bool   // the node no longer counts, and stops when the logs have everything
}

type rangeGroup struct {
	replicas  [2]*Recent
	log       []Line
	collector *Collector
}

var modelLimits = []quota.LimitName{{Namespace: "a", Limit: "x"}, {Namespace: "a", Limit: "y"}, {Namespace: "b", Limit: "x"}}

func homeOf(l quota.LimitName) quota.RangeID {
	if l.Namespace == "a" {
		return 0
	}
	return 1
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), now: 1_000_003,
		truth: map[Slot]map[quota.LimitName]*Vector{}, killed: map[Process]Slot{},
	}
	for i := range 3 {
		w.nodes = append(w.nodes, w.start(quota.NodeID(fmt.Sprintf("n%d", i)), 1))
	}
	for _, n := range w.nodes {
		w.seen(n)
	}
	for range 2 {
		g := &rangeGroup{replicas: [2]*Recent{NewRecent(), NewRecent()}}
		g.collector = NewCollector(w.now, g.replicas[0])
		w.ranges = append(w.ranges, g)
	}
	return w
}

func (w *world) start(id quota.NodeID, inc quota.Incarnation) *node {
	p := Process{id, inc}
	return &node{self: p, tally: NewTally(p, w.now, 2, homeOf)}
}

// seen makes all nodes see a process.
func (w *world) seen(p *node) {
	for _, n := range w.nodes {
		n.tally.Saw(w.now, p.self)
	}
}

// second simulates one second.
func (w *world) second() {
	for _, n := range w.nodes {
		w.count(n)
	}
	w.fault()
	w.now++
	for r, g := range w.ranges {
		g.collector.Alive(w.now, w.alive())
		w.upload(quota.RangeID(r), g)
		for _, l := range g.collector.Lines(w.now) {
			lost := w.is(loss, 4)
			if !lost || w.is(loss, 2) {
				g.write(w.t, l)
			}
			g.collector.Written(l.Slot, !lost) // a line reported as lost may have been written
		}
	}
}

func (w *world) alive() []Process {
	var out []Process
	for _, n := range w.nodes {
		out = append(out, n.self)
	}
	return out
}

func (w *world) count(n *node) {
	if n.ends {
		return
	}
	for range w.rng.IntN(3) {
		limit := modelLimits[w.rng.IntN(len(modelLimits))]
		admitted := quota.Units(w.rng.IntN(1000)) * quota.Token / quota.Units(1+w.rng.IntN(3))
		c := Counts{Attempted: admitted + quota.Units(w.rng.IntN(50))*quota.Token, Admitted: admitted, Over: quota.Units(w.rng.IntN(2))}
		n.tally.Add(w.now, limit, c)
		at := w.truth[w.now.Slot()]
		if at == nil {
			at = map[quota.LimitName]*Vector{}
			w.truth[w.now.Slot()] = at
		}
		if at[limit] == nil {
			at[limit] = &Vector{}
		}
		at[limit][w.now.in()].Add(&c)
	}
}

func (w *world) fault() {
	if w.is(cuts, 40) {
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		n.cut = w.now + Second(w.rng.IntN(100))
	}
	if w.is(kills, 60) { // kill -9 and restart
		i := 1 + w.rng.IntN(len(w.nodes)-1) // node 0 survives, and knows which processes lived
		old := w.nodes[i]
		w.killed[old.self] = w.now.Slot()
		w.nodes[i] = w.start(old.self.Node, old.self.Incarnation+1)
		w.seen(w.nodes[i])
	}
	if i := 1 + w.rng.IntN(len(w.nodes)-1); w.is(stops, 50) && !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.ends }) {
		w.nodes[i].tally.End(w.now)
		w.nodes[i].ends = true
	}
	for i, n := range w.nodes {
		if n.ends && len(n.tally.Pending(w.now, 0, 1))+len(n.tally.Pending(w.now, 1, 1)) == 0 {
			w.nodes[i] = w.start(n.self.Node, n.self.Incarnation+1)
			w.seen(w.nodes[i])
		}
	}
	if w.is(moves, 30) { // the other replica, which has applied the log, becomes leader
		g := w.ranges[w.rng.IntN(len(w.ranges))]
		g.replicas[0], g.replicas[1] = g.replicas[1], g.replicas[0]
		g.collector = NewCollector(w.now, g.replicas[0])
	}
}

func (w *world) upload(r quota.RangeID, g *rangeGroup) {
	for _, n := range w.nodes {
		if n.cut > w.now {
			continue
		}
		due := n.tally.Pending(w.now, r, 5)
		if len(due) == 0 || w.is(loss, 3) {
			continue
		}
		done := g.collector.Add(w.now, due)
		if done > 0 && !w.is(loss, 3) {
			n.tally.Acknowledge(r, due[done-1].Slot+1)
		}
		n.tally.Expire(w.now)
	}
}

func (g *rangeGroup) write(t *testing.T, l Line) {
	b := l.Append(nil)
	for _, k := range g.replicas {
		read, err := DecodeLine(b)
		if err != nil {
			t.Fatalf("a line that a leader made: %v", err)
		}
		k.Apply(&read)
	}
	again, err := DecodeRecent(g.replicas[1].Append(nil)) // a replica that starts from a snapshot
	if err != nil || !bytes.Equal(again.Append(nil), g.replicas[0].Append(nil)) {
		t.Fatalf("a state that is read again is another: %v", err)
	}
	g.replicas[1] = again
	g.log = append(g.log, l)
}

// check compares every complete slot with the truth.
func (w *world) check(from, end Slot) (complete, incomplete int) {
	for b := from; b < end; b++ {
		for _, limit := range modelLimits {
			got := w.ranges[homeOf(limit)].replicas[0].Point(limit, b, b+1)
			want := Counts{}
			if v := w.truth[b][limit]; v != nil {
				want = v.Sum()
			}
			if other := w.ranges[homeOf(limit)].replicas[1].Point(limit, b, b+1); !slices.Equal(got.Missing, other.Missing) || got.Counts != other.Counts {
				w.t.Fatalf("slot %d of %v: replicas differ: %+v, %+v", b, limit, got, other)
			}
			switch {
			case got.Complete && got.Counts != want:
				w.t.Fatalf("slot %d of %v is complete: %+v, want %+v", b, limit, got.Counts, want)
			case got.Attempted > want.Attempted || got.Admitted > want.Admitted:
				w.t.Fatalf("slot %d of %v: %+v, more than happened: %+v", b, limit, got.Counts, want)
			case got.Complete:
				complete++
			default:
				incomplete++
				w.excused(b, got.Missing)
			}
		}
	}
	return complete, incomplete
}

// excused fails unless a slot is incomplete because of killed processes: killed in the slot, or before they
// could upload it, or before a new leader that assumed them to be alive.
func (w *world) excused(b Slot, missing []Process) {
	if len(missing) == 0 {
		w.t.Fatalf("slot %d was not written, and nobody is missing", b)
	}
	for _, p := range missing {
		if _, killed := w.killed[p]; !killed {
			w.t.Fatalf("slot %d misses %v, which was never killed", b, p)
		}
	}
}

// play runs 600 s with faults and 200 s without, and counts the complete and incomplete slots of the first
// 600 s.
func play(t *testing.T, seed uint64, faults fault) (complete, incomplete, killed int) {
	w := newWorld(t, seed)
	begin := w.now.Slot()
	w.faults = faults
	for range 600 {
		w.second()
	}
	end := w.now.Slot()
	w.faults = 0
	for range 200 {
		w.second()
	}
	complete, incomplete = w.check(begin, end)
	return complete, incomplete, len(w.killed)
}

// TestModel checks that complete slots are exact, that nothing is counted twice, that replicas are equal,
// and that slots are incomplete only because of killed processes.
func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	complete := 0
	for seed := range uint64(*modelSeeds) {
		c, _, _ := play(t, seed, all)
		complete += c
	}
	if complete < *modelSeeds*20 {
		t.Fatalf("%d complete slots in %d runs: too few to say anything", complete, *modelSeeds)
	}
}

// TestNothingMissing checks that everything becomes complete as long as no process is killed, whatever is
// lost and whichever node leads.
func TestNothingMissing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	for seed := range uint64(*modelSeeds) {
		if complete, incomplete, _ := play(t, seed, loss|cuts|moves|stops); incomplete > 0 {
			t.Fatalf("seed %d: %d of %d slots are incomplete", seed, incomplete, complete+incomplete)
		}
	}
}

// TestKilled checks that a killed process leaves at most two slots incomplete: the current one, and the one
// before it, which it would have uploaded in the next second.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("runs for seconds in one goroutine; left out by -short")
	}
	for seed := range uint64(*modelSeeds) {
		if _, incomplete, killed := play(t, seed, kills); incomplete > 2*killed*len(modelLimits) {
			t.Fatalf("seed %d: %d slots are incomplete by %d killed processes", seed, incomplete, killed)
		}
	}
}

// TestOneLineEach checks that without faults every slot takes one line.
func TestOneLineEach(t *testing.T) {
	w := newWorld(t, 1)
	begin := w.now.Slot()
	for range 300 {
		w.second()
	}
	if complete, incomplete := w.check(begin, w.now.Slot()-1); incomplete > 0 {
		t.Fatalf("%d complete, %d not", complete, incomplete)
	}
	if lines, slots := len(w.ranges[0].log), int(w.now.Slot()-begin); lines > slots {
		t.Fatalf("%d lines of %d slots", lines, slots)
	}
}
