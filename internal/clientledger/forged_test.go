package clientledger

import (
	"errors"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// forger sends false reports in its own session.
type forger struct {
	*world
	limit quota.Limit
	seq   quota.Seq
}

func newForger(t *testing.T, c quota.Ceiling) *forger {
	l := bucketLimit(c, 10, 100)
	return &forger{world: newWorld(t, l, 1), limit: l}
}

func (f *forger) says(e quota.ReportEntry) quota.Report {
	f.seq++
	e.Key, e.Epoch = quota.Key{LimitName: f.limit.LimitName, Key: "k"}, 1
	return quota.Report{From: "c0", Incarnation: 1, Term: 1, Seq: f.seq, Full: true, Entries: []quota.ReportEntry{e}}
}

// left is the level at the leader.
func (f *forger) left() int64 {
	f.pump()
	return (f.limit.BurstUnits() - f.ledger.Booked(f.limit.LimitName)).Tokens()
}

// TestForgedReports: a process with permission to check that reports more use than it was
// allocated, or a larger overdraft than possible, takes a bucket from others for seconds and not
// for years.
func TestForgedReports(t *testing.T) {
	const (
		much  = 1_000_000_000 * quota.Token
		times = 2*(1+1) + 4 // for two nodes, a client at each, and four more
		alone = 3 * 10      // the refill of a lease
	)
	for what, c := range map[string]struct {
		ceiling quota.Ceiling
		entry   quota.ReportEntry
		least   int64
	}{
		"hard, used":      {quota.Hard, quota.ReportEntry{Used: much}, 100},
		"soft, used":      {quota.Soft, quota.ReportEntry{Used: much}, 100},
		"hard, overdrawn": {quota.Hard, quota.ReportEntry{Overdrawn: much, Alone: much}, -times * (100 + alone)},
		"soft, overdrawn": {quota.Soft, quota.ReportEntry{Overdrawn: much}, -times * 100},
		"soft, alone":     {quota.Soft, quota.ReportEntry{Overdrawn: much, Alone: much}, -times * (100 + alone)},
	} {
		f := newForger(t, c.ceiling)
		for i := range 10 {
			r := f.says(c.entry)
			r.Entries[0].Used += quota.Units(i) * much
			r.Entries[0].Overdrawn += quota.Units(i) * r.Entries[0].Overdrawn
			if _, err := f.b.Report(f.now, &r); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.left(); got < c.least {
			t.Errorf("%s: %d tokens are left; want %d or more", what, got, c.least)
		}
	}
}

// TestForgedSettlements: the settlement of a session that never existed is not booked, and that of
// a session to a dead node only up to what may be owed.
func TestForgedSettlements(t *testing.T) {
	const much = 1_000_000_000 * quota.Token
	f := newForger(t, quota.Soft)
	r := f.says(quota.ReportEntry{Used: much, Unreported: much, Final: true})
	r.Term = 77
	if err := f.b.Final(f.now, &r); !errors.Is(err, ErrUnknown) || f.left() != 100 {
		t.Errorf("of an attachment to this node that never was: %v, %d tokens are left; want ErrUnknown, and 100", err, f.left())
	}
	for term := range quota.Term(10) {
		r.Term = 100 + term
		f.b.Inherit(f.now, &r)
	}
	if got := f.left(); got < -1000 {
		t.Errorf("of attachments to dead nodes: %d tokens are left; want -1000 or more", got)
	}
}

// TestForgottenAttachment: a session that was forgotten before its last report arrived is booked as
// that of a dead node.
func TestForgottenAttachment(t *testing.T) {
	f := newForger(t, quota.Soft)
	f.b.Detach(f.now, "c0", 1, 1)
	f.now = f.now.Add(2 * remember)
	f.b.Sweep(f.now)
	r := f.says(quota.ReportEntry{Overdrawn: 3 * quota.Token, Unreported: 3 * quota.Token, Final: true})
	if err := f.b.Final(f.now, &r); !errors.Is(err, ErrForgotten) {
		t.Errorf("got %v; want ErrForgotten", err)
	}
}

// TestForgottenAfterFirstPart: the first part of a last report is booked. The second arrives after
// the session has been forgotten, with the first one again, which is not booked twice.
func TestForgottenAfterFirstPart(t *testing.T) {
	f := newForger(t, quota.Soft)
	parts := make([]quota.Report, 2)
	for i := range parts {
		parts[i] = f.says(quota.ReportEntry{Overdrawn: 3 * quota.Token, Unreported: 3 * quota.Token, Final: true})
		parts[i].Entries[0].Key.Key, parts[i].Full = string(rune('k'+i)), i == 1
	}
	f.b.Detach(f.now, "c0", 1, 1)
	if err := f.b.Final(f.now, &parts[0]); err != nil {
		t.Fatal(err)
	}
	f.pump()
	f.now = f.now.Add(2 * remember)
	f.b.Sweep(f.now)
	for i := range parts {
		if err := f.b.Final(f.now, &parts[i]); !errors.Is(err, ErrForgotten) {
			t.Fatalf("part %d: %v; want ErrForgotten", i+1, err)
		}
		f.b.Inherit(f.now, &parts[i])
	}
	f.pump()
	if got := f.ledger.Booked(f.limit.LimitName).Tokens(); got != 6 {
		t.Errorf("%d tokens are booked of 6", got)
	}
}

// TestForgedWants: clients that want absurd amounts, or count absurd refusals within a millisecond, overflow no sum of a
// node, even while it is cut off and admits everything.
func TestForgedWants(t *testing.T) {
	l := bucketLimit(quota.Soft, 10, 100)
	l.CutOff.Policy = quota.CutOffOpen
	k := quota.Key{LimitName: l.LimitName, Key: "k"}
	for _, refused := range []quota.Units{0, quota.Most / 200} {
		w := newWorld(t, l, 40)
		seq := quota.Seq(0)
		report := func(p *proc, e quota.ReportEntry) {
			seq++
			e.Key, e.Epoch, e.Applied = k, 1, seq
			if _, err := w.b.Report(w.now, &quota.Report{From: p.id, Incarnation: 1, Term: 1, Seq: seq, Entries: []quota.ReportEntry{e}}); err != nil {
				t.Fatal(err)
			}
			w.prove()
		}
		report(w.procs[0], quota.ReportEntry{Want: quota.Token})
		w.now = w.now.Add(4 * time.Second) // no leader answers
		for range 2 {                      // all that is left is allocated, so that nothing is promised
			report(w.procs[0], quota.ReportEntry{Want: quota.Most})
		}
		for _, p := range w.procs[1:] {
			report(p, quota.ReportEntry{})
		}
		w.now = w.now.Add(time.Millisecond)
		for i, p := range w.procs[1:] {
			report(p, quota.ReportEntry{Want: quota.Most, Refused: refused})
			b := w.b.keys[k]
			if b.wait < 0 || b.spoken < 0 || b.allocated < l.BurstUnits() || b.allocated > quota.Most {
				t.Fatalf("%d refused, %d clients: %d allocated, %d waited for, %d about to be overdrawn", refused, i+1, b.allocated, b.wait, b.spoken)
			}
		}
	}
}
