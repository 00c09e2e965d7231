package clientledger

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorate/quorate/aggregator"
	"github.com/quorate/quorate/internal/quota"
)

// TestFloodOfClientKeys: an owner that opens as many keys as it can, in one process or in several,
// leaves room for the keys of others. Room of closed keys is available again.
func TestFloodOfClientKeys(t *testing.T) {
	const most = 1000
	l := bucketLimit(quota.Hard, 10, 100)
	for what, owners := range map[string][]string{
		"a process of nobody known":     {""},
		"one process of an identity":    {"greedy"},
		"four processes of an identity": {"greedy", "greedy", "greedy", "greedy"},
	} {
		w := newWorld(t, l, 0)
		w.b = New(Config{Self: "n", MaxKeys: most}, w.node)
		seqs := map[quota.NodeID]quota.Seq{}
		answered := func(id quota.NodeID, keys int, final bool) int {
			t.Helper()
			seqs[id]++
			r := quota.Report{From: id, Incarnation: 1, Term: 1, Seq: seqs[id]}
			for i := range keys {
				r.Entries = append(r.Entries, quota.ReportEntry{Key: quota.Key{LimitName: l.LimitName, Key: fmt.Sprint(id, i)}, Epoch: 1, Final: final})
			}
			g, err := w.b.Report(w.now, &r)
			if err != nil {
				t.Fatal(err)
			}
			return len(g.Entries)
		}
		attach := func(id, owner string) {
			if err := w.b.Attach(w.now, quota.NodeID(id), owner, 1, 1); err != nil {
				t.Fatal(err)
			}
		}
		attach("other", "")
		flooded := 0
		for i, owner := range owners {
			id := "greedy/" + strconv.Itoa(i)
			attach(id, owner)
			flooded += answered(quota.NodeID(id), 3*most, false)
		}
		if flooded != most/8*7 {
			t.Errorf("%s: has %d keys; want %d", what, flooded, most/8*7)
		}
		if got := answered("other", 100, false); got != 100 {
			t.Errorf("%s: another process has %d of 100 keys", what, got)
		}
		for i := range owners {
			w.b.Detach(w.now, quota.NodeID("greedy/"+strconv.Itoa(i)), 1, 1)
		}
		w.now = w.now.Add(2 * remember)
		w.b.Sweep(w.now)
		if got := answered("other", 500, false); got != 500 {
			t.Errorf("%s: when it is gone another process has %d of 500 keys", what, got)
		}
	}
}

// TestFloodOfBrokenSessions: an owner whose sessions break, as often as it can, leaves room for those of others: the
// tokens of these stay allocated until their last report arrives.
func TestFloodOfBrokenSessions(t *testing.T) {
	const most = 100
	l := bucketLimit(quota.Hard, 10, 100)
	w := newWorld(t, l, 0)
	w.b = New(Config{Self: "n", MaxClients: most}, w.node)
	session := func(id quota.NodeID, owner string, term quota.Term) error {
		t.Helper()
		if err := w.b.Attach(w.now, id, owner, 1, term); err != nil {
			t.Fatal(err)
		}
		w.b.Detach(w.now, id, 1, term)
		return w.b.Final(w.now, &quota.Report{From: id, Incarnation: 1, Term: term, Seq: 1})
	}
	forgotten := 0
	for i := range 3 * most {
		if err := session("greedy/"+quota.NodeID(strconv.Itoa(i%2)), "greedy", quota.Term(i+1)); errors.Is(err, ErrForgotten) {
			forgotten++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if want := 3*most - 88; forgotten != want {
		t.Errorf("%d sessions of the owner are forgotten; want %d", forgotten, want)
	}
	for i := range 10 {
		if err := session(quota.NodeID(strconv.Itoa(i)), "", 1); err != nil {
			t.Errorf("session %d of another: %v", i, err)
		}
	}
	if err := w.b.Final(w.now, &quota.Report{From: "greedy/0", Incarnation: 1, Term: 1, Seq: 2, Full: true}); err != nil {
		t.Errorf("the first session of the owner is not settled: %v", err)
	}
	if n := w.b.brokenPlaces.Held(); n != 88-1+10 {
		t.Errorf("%d places are taken; want 97", n)
	}
	w.now = w.now.Add(2 * remember)
	if w.b.Sweep(w.now); w.b.brokenPlaces.Held() != 0 {
		t.Errorf("%d places are taken in the end", w.b.brokenPlaces.Held())
	}
}

// TestFloodOfEndedSessions: an owner that ends 65,536 sessions makes the node forget those of others that ended earlier. A
// last report that is repeated then books its unreported use once more (of a dead node), or not at all (forgotten here).
func TestFloodOfEndedSessions(t *testing.T) {
	l := bucketLimit(quota.Soft, 1, 100)
	w := newWorld(t, l, 0)
	w.b = New(Config{Self: "n", MaxClients: 8}, w.node)
	last := quota.Report{From: "other", Incarnation: 1, Term: 1, Seq: 1, Full: true, Entries: []quota.ReportEntry{{
		Key: quota.Key{LimitName: l.LimitName, Key: "k"}, Epoch: 1, Used: 20 * quota.Token, Unreported: 5 * quota.Token, Final: true,
	}}}
	inherits := func(what string, want int64) {
		t.Helper()
		w.b.Inherit(w.now, &last)
		w.run(200*time.Millisecond, 10*time.Millisecond)
		if got := w.ledger.Booked(l.LimitName).Tokens(); got != want {
			t.Errorf("%s: %d tokens are booked; want %d", what, got, want)
		}
	}
	inherits("once", 5)
	inherits("repeated", 5)
	for i := range maxSettled {
		w.b.Inherit(w.now, &quota.Report{From: "greedy", Incarnation: 1, Term: quota.Term(i + 1), Seq: 1, Full: true})
	}
	inherits("repeated after a flood", 10)
	inherits("and again", 10)

	forget := func(id quota.NodeID, owner string, term quota.Term) {
		if err := w.b.Attach(w.now, id, owner, 1, term); err != nil {
			t.Fatal(err)
		}
		w.b.Detach(w.now, id, 1, term)
	}
	forget("another", "", 1)
	w.now = w.now.Add(2 * remember)
	w.b.Sweep(w.now)
	last.From = "another"
	if err := w.b.Final(w.now, &last); !errors.Is(err, ErrForgotten) {
		t.Errorf("before a flood: %v; want ErrForgotten", err)
	}
	for i := range maxSettled + 8 {
		forget("greedy", "greedy", quota.Term(i+1<<20))
	}
	if err := w.b.Final(w.now, &last); !errors.Is(err, ErrUnknown) {
		t.Errorf("after a flood: %v; want ErrUnknown", err)
	}
}

// TestKeysBeyondTheTable: for keys without room at their node, processes share one bucket of a soft
// limit, as the node's own callers do.
func TestKeysBeyondTheTable(t *testing.T) {
	const most, seconds, perSecond = 32, 5, 200
	l := bucketLimit(quota.Soft, 10, 20)
	w := newWorld(t, l, 2)
	w.node = aggregator.New(aggregator.Config{Self: "n", Incarnation: 1, Nodes: 2, Ranges: 1, MaxKeys: most}, w.now)
	w.node.SetLimits(w.now, w.limits)
	w.node.SetLeader(0, "l", 1)
	w.b.parent = w.node
	for i := range most {
		w.check(w.node, l.LimitName, "old"+strconv.Itoa(i), 1)
	}
	passed := 0
	for i := range seconds * perSecond {
		w.now = w.now.Add(time.Second / perSecond)
		w.pump()
		if w.ask(w.procs[i%2], l.LimitName, "new"+strconv.Itoa(i), 1) {
			passed++
		}
	}
	// The burst and the rate, and what two processes admit before they know of each other.
	if least := 20 + 10*seconds; passed < least*9/10 || passed > 2*least {
		t.Errorf("%d of %d new keys pass; want about %d", passed, seconds*perSecond, least)
	}
}
