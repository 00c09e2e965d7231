package sim

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// played creates a run and plays it for d.
func played(s Scenario, d time.Duration) *run {
	r := newRun(s)
	r.start()
	r.until(epoch.Add(d))
	return r
}

// calm is three nodes at three times a limit of 100/s, without faults.
func calm() Scenario {
	return Scenario{
		Seed: 1, Nodes: 3, Duration: 10 * time.Second, Limit: limit(100, 100, quota.Soft), Delay: time.Millisecond,
		Loads: []Load{{Rate: 300}}, Skew: -1, Check: true,
	}
}

// TestNetwork checks the loss, repetition, delay and order of a hundred thousand messages.
func TestNetwork(t *testing.T) {
	for _, tc := range []struct {
		name              string
		change            func(*Scenario)
		arrived           float64 // fraction of the sent messages
		fastest, slowest  time.Duration
		late              float64 // fraction later than Delay + Jitter
		overtaken, within bool
	}{
		{"calm", func(*Scenario) {}, 1, time.Millisecond, time.Millisecond, 0, false, true},
		{"loss", func(s *Scenario) { s.Loss = .05 }, .95, time.Millisecond, time.Millisecond, 0, false, true},
		{"repeat", func(s *Scenario) { s.Repeat = .1 }, 1.1, time.Millisecond, time.Millisecond, 0, false, true},
		{"jitter", func(s *Scenario) { s.Jitter = time.Millisecond }, 1, time.Millisecond, 2 * time.Millisecond, 0, true, true},
		{"reorder", func(s *Scenario) { s.Reorder = .2 }, 1, time.Millisecond, 5 * time.Millisecond, .2, true, true},
	} {
		s := calm()
		s.Loads, s.Nodes = nil, 2
		tc.change(&s)
		r := played(s, 0)
		const sent = 100_000
		var delays []time.Duration
		late, last, overtaken := 0, -1, false
		for i := range sent {
			at := r.now
			r.send(r.nodes[0], r.nodes[1], func() {
				d := r.now.Sub(at)
				delays = append(delays, d)
				if d > s.Delay+s.Jitter {
					late++
				}
				overtaken = overtaken || i < last
				last = max(last, i)
			})
			r.until(r.now.Add(100 * time.Microsecond))
		}
		r.until(r.now.Add(time.Second))
		if got := float64(len(delays)) / sent; math.Abs(got-tc.arrived) > .005 {
			t.Errorf("%s: %.3f of the messages arrived, want %.3f", tc.name, got, tc.arrived)
		}
		if lo, hi := slices.Min(delays), slices.Max(delays); lo < tc.fastest || hi > tc.slowest || hi < tc.slowest-tc.slowest/10 {
			t.Errorf("%s: messages took %v to %v, want %v to %v", tc.name, lo, hi, tc.fastest, tc.slowest)
		}
		if got := float64(late) / sent; math.Abs(got-tc.late) > .01 {
			t.Errorf("%s: %.3f of the messages came late, want %.3f", tc.name, got, tc.late)
		}
		if overtaken != tc.overtaken {
			t.Errorf("%s: overtaken %v, want %v", tc.name, overtaken, tc.overtaken)
		}
	}
}

// TestPartitionStopsMessages checks that no message passes between groups, all pass within a group,
// and about half of those in flight when the partition begins arrive.
func TestPartitionStopsMessages(t *testing.T) {
	s := calm()
	s.Loads, s.Nodes, s.Delay = nil, 3, 10*time.Millisecond
	r := played(s, 0)
	var across, within, back int
	count := func(to *int) func() { return func() { *to++ } }
	for range 1000 {
		r.send(r.nodes[0], r.nodes[1], count(&across))
	}
	r.until(r.now.Add(5 * time.Millisecond))
	r.part([][]int{{1}}, 300*time.Millisecond)
	r.until(r.now.Add(20 * time.Millisecond))
	if across < 400 || across > 600 {
		t.Errorf("%d of 1000 messages arrived that were on their way when the partition began, want about half", across)
	}
	across = 0
	for range 1000 {
		r.send(r.nodes[0], r.nodes[1], count(&across))
		r.send(r.nodes[1], r.nodes[0], count(&across))
		r.send(r.nodes[1], r.nodes[2], count(&within))
	}
	r.until(r.now.Add(time.Second))
	if across != 0 || within != 1000 {
		t.Errorf("%d messages passed between groups and %d within one, want 0 and 1000", across, within)
	}
	r.send(r.nodes[0], r.nodes[1], count(&back))
	r.until(r.now.Add(time.Second))
	if back != 1 {
		t.Error("no message passes after the partition has ended")
	}
}

// TestPartitionOfTheLeader checks that a cut-off leader serves for the time of an election, that
// the majority then has another leader and the minority none, and that all follow the new one
// afterwards.
func TestPartitionOfTheLeader(t *testing.T) {
	r := played(calm(), time.Second)
	r.fault(&Fault{Kind: Partition, Leader: true})
	r.until(epoch.Add(1400 * time.Millisecond))
	if r.leadershipOf(1) == nil || len(r.terms) != 1 {
		t.Fatal("the leader that was cut off must serve for the time of an election")
	}
	r.until(epoch.Add(2 * time.Second))
	if r.leadershipOf(1) != nil || r.leadershipOf(2) == nil {
		t.Fatalf("after the election: term 1 %v, term 2 %v; want only the second", r.leadershipOf(1), r.leadershipOf(2))
	}
	if a, b, c := leaderOf(r.nodes[0]), leaderOf(r.nodes[1]), leaderOf(r.nodes[2]); a != 1 || b != 2 || c != 2 {
		t.Errorf("terms %d %d %d, want 1 2 2", a, b, c)
	}
	if standing, out := r.newest().ledger.Out(r.newest().node.clock(), r.key("k"), r.nodes[0].id); standing != 0 || out != 0 {
		t.Errorf("the new leader knows %d of %d of a member that it cannot have heard of", standing, out)
	}
	r.heal()
	r.until(r.now.Add(100 * time.Millisecond))
	if got := leaderOf(r.nodes[0]); got != 2 {
		t.Errorf("after the partition the old leader is in term %d, want 2", got)
	}
}

// TestNoMajority checks that nobody leads while no node sees a majority.
func TestNoMajority(t *testing.T) {
	s := calm()
	s.Nodes = 4
	r := played(s, time.Second)
	r.part([][]int{{1, 2}, {3, 4}}, 0)
	r.until(epoch.Add(5 * time.Second))
	if len(r.terms) != 1 || r.leadershipOf(1) != nil {
		t.Fatalf("%d terms, the first serves: %v; want one that is over", len(r.terms), r.leadershipOf(1) != nil)
	}
	r.heal()
	r.until(epoch.Add(6 * time.Second))
	if r.leadershipOf(2) == nil {
		t.Error("nobody leads after the partition")
	}
}

// TestLostAnnouncement checks that a node that misses the announcement of a leader learns of it a
// second later.
func TestLostAnnouncement(t *testing.T) {
	s := calm()
	s.Loss = 1
	r := newRun(s)
	r.start()
	r.until(epoch.Add(500 * time.Millisecond))
	if got := leaderOf(r.nodes[2]); got != 0 {
		t.Fatalf("term %d is known though every message is lost", got)
	}
	r.Loss = 0
	r.until(epoch.Add(1600 * time.Millisecond))
	if got := leaderOf(r.nodes[2]); got != 1 {
		t.Errorf("term %d after the next announcement, want 1", got)
	}
}

// TestPauseQueues checks that nothing happens at a paused node while its clock continues, and that
// afterwards it handles what arrived meanwhile, requests before timers.
func TestPauseQueues(t *testing.T) {
	for seed := range uint64(10) {
		s := calm()
		s.Seed, s.Loads = seed, nil
		r := played(s, time.Second)
		n := r.nodes[2]
		r.fault(&Fault{Kind: Pause, Nodes: []int{3}, For: time.Second})
		var order []class
		note := func(c class) func() { return func() { order = append(order, c) } }
		before := n.clock()
		r.onNode(r.now, n, timer, note(timer))
		r.send(r.nodes[0], n, note(message))
		r.until(r.now.Add(500 * time.Millisecond))
		asked := 0
		r.Decided = func(time.Duration, int, string, quota.Decision, bool) {
			asked++
			order = append(order, request)
		}
		r.request(n, wanted{key: "k", cost: 1})
		if len(order) != 0 || asked != 0 {
			t.Fatalf("seed %d: %v happened at a paused node", seed, order)
		}
		if got := n.clock().Sub(before); got != 500*time.Millisecond {
			t.Errorf("seed %d: its clock went on by %v, want 500ms", seed, got)
		}
		r.until(r.now.Add(600 * time.Millisecond))
		if len(order) != 3 || order[2] != timer {
			t.Errorf("seed %d: %v happened after the pause, want a message and a request, and then the timer", seed, order)
		}
		if term := leaderOf(n); term != 1 || len(r.terms) != 1 {
			t.Errorf("seed %d: term %d of %d after the pause of a follower, want 1 of 1", seed, term, len(r.terms))
		}
	}
}

// TestPauseIsBounded checks that a paused node drops what exceeds its queue.
func TestPauseIsBounded(t *testing.T) {
	r := played(calm(), time.Second)
	n := r.nodes[2]
	n.paused = true
	for range 2 * maxWaiting {
		r.request(n, wanted{key: "k", cost: 1})
	}
	if got := n.waits[request]; got != maxWaiting {
		t.Errorf("%d requests wait at a paused node, want %d", got, maxWaiting)
	}
}

// TestPauseOfTheLeader checks that a paused leader is replaced, and that it steps down when it
// learns of the new leader and not before.
func TestPauseOfTheLeader(t *testing.T) {
	r := played(calm(), time.Second)
	r.fault(&Fault{Kind: Pause, Leader: true, For: 2 * time.Second})
	r.until(epoch.Add(2900 * time.Millisecond))
	if r.leadershipOf(1) == nil || r.leadershipOf(2) == nil {
		t.Fatal("a paused leader cannot give up, and another must be elected")
	}
	r.until(epoch.Add(3100 * time.Millisecond))
	if r.leadershipOf(1) != nil || leaderOf(r.nodes[0]) != 2 {
		t.Errorf("the old leader serves %v in term %d, want false and 2", r.leadershipOf(1) != nil, leaderOf(r.nodes[0]))
	}
}

// TestKillForgets checks that a killed process loses what it held, that its leader learns of the
// death, and that the node's next process starts empty and takes part.
func TestKillForgets(t *testing.T) {
	s := calm()
	s.Loads[0].Rate = 60
	r := played(s, 2*time.Second)
	n, first, k := r.nodes[2], r.nodes[2].agg, r.key("k")
	lead := r.newest()
	if _, out := lead.ledger.Out(lead.node.clock(), k, n.id); out == 0 {
		t.Fatal("the member must hold something before its death")
	}
	attempted := r.res.PerNode[2]
	r.fault(&Fault{Kind: Kill, Nodes: []int{3}, For: 2 * time.Second})
	r.until(epoch.Add(2010 * time.Millisecond))
	if _, out := lead.ledger.Out(lead.node.clock(), k, n.id); out != 0 {
		t.Errorf("the leader keeps %d of a dead member", out)
	}
	r.until(epoch.Add(3900 * time.Millisecond))
	if r.res.PerNode[2] != attempted || n.agg != first {
		t.Error("a dead node decided")
	}
	r.until(epoch.Add(6 * time.Second))
	if n.agg == first || n.inc != 2 || r.res.PerNode[2] == attempted || leaderOf(n) != 1 {
		t.Errorf("after the restart: incarnation %d, %d admitted, term %d; want 2, more than %d, 1", n.inc, r.res.PerNode[2], leaderOf(n), attempted)
	}
	if _, out := lead.ledger.Out(lead.node.clock(), k, n.id); out == 0 {
		t.Error("the leader knows nothing of the new process")
	}
}

// TestKillOfTheLeader checks that a new leader continues from the log, and that the killed node
// follows it after its return.
func TestKillOfTheLeader(t *testing.T) {
	s := calm()
	s.Limit = limit(1, 1000, quota.Soft)
	s.Faults = []Fault{{At: 3 * time.Second, Kind: Kill, Leader: true, For: time.Second}}
	r := played(s, 8*time.Second)
	if r.leadershipOf(1) != nil || r.leadershipOf(2) == nil || r.terms[1].node == r.nodes[0] {
		t.Fatal("another must lead after the leader's death")
	}
	if r.nodes[0].inc != 2 || leaderOf(r.nodes[0]) != 2 {
		t.Errorf("incarnation %d in term %d, want 2 in 2", r.nodes[0].inc, leaderOf(r.nodes[0]))
	}
	r.end()
	if r.res.Learned < 500*time.Millisecond || r.res.Learned > time.Second {
		t.Errorf("learned %v after the death, want a little more than the election's 500ms", r.res.Learned)
	}
	if r.res.Excess > 100 {
		t.Errorf("%.0f tokens beyond the envelope: the new leader began with a fresh burst", r.res.Excess)
	}
}

// TestSlow checks that messages to and from slow nodes take longer, for the stated time only.
func TestSlow(t *testing.T) {
	s := calm()
	s.Loads = nil
	r := played(s, 0)
	measure := func(a, b int) (d time.Duration) {
		at := r.now
		r.send(r.nodes[a], r.nodes[b], func() { d = r.now.Sub(at) })
		r.until(r.now.Add(100 * time.Millisecond))
		return d
	}
	r.fault(&Fault{Kind: Slow, Nodes: []int{2}, Delay: 20 * time.Millisecond, For: time.Second})
	if in, out, other := measure(0, 1), measure(1, 0), measure(0, 2); in != 21*time.Millisecond || out != in || other != time.Millisecond {
		t.Errorf("to a slow node %v, from it %v, between others %v; want 21ms, 21ms, 1ms", in, out, other)
	}
	r.until(r.now.Add(time.Second))
	if got := measure(0, 1); got != time.Millisecond {
		t.Errorf("%v after it has ended, want 1ms", got)
	}
}

// TestSlowEnds checks that each slow link ends at its own time, independently of a partition, and
// that Heal ends all faults.
func TestSlowEnds(t *testing.T) {
	s := calm()
	const ms, second = time.Millisecond, time.Second
	s.Faults = []Fault{
		{At: 1 * second, Kind: Slow, Nodes: []int{1}, Delay: 10 * ms, For: 2 * second},
		{At: 2 * second, Kind: Slow, Nodes: []int{2}, Delay: 20 * ms, For: 5 * second},
		{At: 4 * second, Kind: Partition, Groups: [][]int{{3}, {1, 2}}, For: second},
		{At: 6 * second, Kind: Slow, Nodes: []int{2}, Delay: 30 * ms, For: 5 * second},
		{At: 8 * second, Kind: Heal},
		{At: 9 * second, Kind: Slow, Nodes: []int{2}, Delay: 40 * ms},
	}
	want := [][]time.Duration{{}, {10 * ms}, {10 * ms, 20 * ms}, {0, 20 * ms}, {0, 20 * ms}, {0, 20 * ms}, {0, 30 * ms}, {0, 30 * ms}, {}, {0, 40 * ms}}
	for at := range want {
		r := played(s, time.Duration(at)*second+500*ms)
		for i, n := range r.nodes {
			if w := append(want[at], 0, 0, 0)[i]; n.slow != w {
				t.Errorf("after %d s and a half: node %d is slower by %v, want %v", at, i+1, n.slow, w)
			}
		}
	}
}

// TestDrift checks that clocks drift apart by at most the scenario's bound, and that a node wakes
// by its own clock.
func TestDrift(t *testing.T) {
	s := calm()
	s.Nodes, s.Drift, s.Loads = 20, 1e-3, nil
	r := played(s, 10*time.Second)
	var most time.Duration
	for _, n := range r.nodes {
		off := time.Duration(n.clock() - r.now)
		most = max(most, off, -off)
		for _, at := range []quota.Time{epoch, epoch + 1, epoch.Add(time.Second), epoch.Add(1e6*time.Second + 7)} {
			if got := n.local(n.trueTime(at)); got < at || got > at+1000 {
				t.Errorf("drift %d: woken at %d ns after what its clock should show", n.drift, got-at)
			}
		}
	}
	if most < 5*time.Millisecond || most > 10*time.Millisecond {
		t.Errorf("clocks are off by %v at most after 10s, want nearly 10ms", most)
	}
}

// TestLog checks that the log takes entries of the newest term only, keeps the last entry of a key,
// and eventually drops keys that are full again.
func TestLog(t *testing.T) {
	l := newRangeLog()
	line := func(key string, level quota.Units, at, full quota.Time) []quota.KeyLevel {
		return []quota.KeyLevel{{Key: quota.Key{Key: key}, Level: level, At: at, FullAt: full}}
	}
	one := l.elect()
	if !l.commit(0, one, line("a", 1, 1, 10)) || !l.commit(0, one, line("a", 2, 2, 10)) {
		t.Fatal("an entry of the newest term was not taken")
	}
	two := l.elect()
	if l.commit(0, one, line("a", 3, 3, 10)) {
		t.Error("an entry of an old term was taken")
	}
	if got := l.all(); two != 2 || len(got) != 1 || got[0].Level != 2 {
		t.Errorf("term %d, log %+v; want 2, and the last line of the first term", two, got)
	}
	for i := range 10 * minPrune {
		at := quota.Time(100 + i)
		l.commit(0, two, line(time.Duration(i).String(), 1, at, at+10))
	}
	if got := len(l.all()); got > 2*minPrune {
		t.Errorf("%d lines are kept of %d keys that are full again", got, 10*minPrune)
	}
}

// TestProposals checks that a leader proposes its levels while it sees a majority, retries a failed
// proposal, and proposes nothing in an old term.
func TestProposals(t *testing.T) {
	s := calm()
	s.Limit = limit(1, 1_500, quota.Soft) // each second moves the level by more than matters
	r := played(s, 2*time.Second)
	level := func() quota.Units {
		for _, kl := range r.log.all() {
			return kl.Level
		}
		return -1
	}
	if got := level(); got < 0 || got > 1_500*quota.Token {
		t.Fatalf("level %d in the log after two checkpoints, want less than the burst", got)
	}
	r.nodes[1].paused, r.nodes[2].paused = true, true // without an election
	was := level()
	r.until(r.now.Add(time.Second))
	if got := level(); got != was {
		t.Errorf("the log took %d without a majority; it was %d", got, was)
	}
	if r.newest().unsaved == nil {
		t.Error("what the log did not take must be proposed again")
	}
	r.resume(r.nodes[1])
	r.until(r.now.Add(time.Second))
	if got := level(); got >= was {
		t.Errorf("level %d in the log with a majority, want less than %d", got, was)
	}
}

// TestStepsOfALeaderAreProved checks that Check detects books that do not add up.
func TestStepsOfALeaderAreProved(t *testing.T) {
	r := played(calm(), time.Second)
	if len(r.res.Violations) != 0 {
		t.Fatalf("violations of a calm run: %q", r.res.Violations)
	}
	r.res.Admitted -= 1000 // as if the books had counted that much twice
	r.until(epoch.Add(20 * time.Second))
	if n := len(r.res.Violations); n == 0 || n > maxViolations {
		t.Errorf("%d violations noted, want 1 to %d", n, maxViolations)
	}
}
