package recorder

import (
	"path/filepath"
	"testing"

	"github.com/quorate/quorate/internal/boltcheck"
	"github.com/quorate/quorate/internal/history"
	"github.com/quorate/quorate/internal/history/archive"
	"github.com/quorate/quorate/internal/quota"
)

// TestIdle checks what ranges write that nobody uses: one entry each a minute, all in the same second,
// and one transaction of the disk for the keys of all ranges.
func TestIdle(t *testing.T) {
	const ranges = 64
	self := history.Process{Node: "n", Incarnation: 1}
	now := history.Second(500_000*3600 + 11)
	var all [ranges]*Replica
	for r := range all {
		all[r] = NewReplica()
		all[r].Lead(at(now), 1)
	}
	dir := t.TempDir()
	a, err := archive.Open(dir, archive.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	files := keyStore{archive: a, hours: map[hourOf]bool{}}
	transactions := func() uint64 {
		paths, err := filepath.Glob(filepath.Join(dir, "*.db"))
		if err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for _, path := range paths {
			n, err := boltcheck.Transaction(path)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}

	first, before := now.Slot(), uint64(0)
	for minute := range 10 {
		entries, seconds := 0, 0
		for range 60 {
			now++
			wrote := 0
			for id, r := range all {
				if m, due := r.wantsList(now, quota.RangeID(id)); due {
					r.setList(at(now), 1, m, nil, false)
				}
				if now%history.SlotSeconds == 0 { // what ended a second ago
					r.Accept(now, self, first, []history.Upload{{From: self, Slot: now.Slot() - 1}})
				}
				lines, slots, term := r.Lines(now, []history.Process{self})
				if lines == nil {
					continue
				}
				wrote++
				if err := r.Apply(lines); err != nil {
					t.Fatal(err)
				}
				r.Written(term, slots, true)
			}
			if entries += wrote; wrote > 0 {
				seconds++
			}
		}
		if minute > 0 && (entries != ranges || seconds != 1) {
			t.Errorf("minute %d: %d entries in %d seconds; want %d in one", minute, entries, seconds, ranges)
		}
		if err := files.store(ranges, func(id quota.RangeID) *Replica { return all[id] }); err != nil {
			t.Fatal(err)
		}
		switch n := transactions(); {
		case minute < 2: // the first creates the file
			before = n
		case n != before+1:
			t.Errorf("minute %d: %d transactions; want 1", minute, n-before)
		default:
			before = n
		}
	}
}

// TestFirstAndLastListHurry checks that the first list of a range and the last list of a leader do not wait for those
// of other ranges, and that the others go with counts.
func TestFirstAndLastListHurry(t *testing.T) {
	now := history.Second(500_000*3600 + 60)
	lists := func(r *Replica) int {
		lines, slots, term := r.Lines(now, nil)
		if lines == nil {
			return 0
		}
		r.Written(term, slots, true)
		return len(lines.Keys)
	}
	r := NewReplica()
	r.Lead(at(now-60), 1)
	if n := lists(r); n != 1 {
		t.Fatalf("%d lists written at the start of a range; want 1", n)
	}
	r.setList(at(now), 1, now.Slot().Minute()-1, nil, false)
	if n := lists(r); n != 0 {
		t.Fatalf("%d lists written before the others are made", n)
	}
	r.setList(at(now), 1, now.Slot().Minute(), nil, true)
	if n := lists(r); n != 2 {
		t.Fatalf("%d lists written at the end of a leader; want both", n)
	}

	self := history.Process{Node: "n", Incarnation: 1}
	r = NewReplica()
	r.Lead(at(now-60), 1)
	if n := lists(r); n != 1 {
		t.Fatalf("%d lists written at the start of a range; want 1", n)
	}
	r.setList(at(now), 1, now.Slot().Minute()-1, nil, false)
	counts := history.Vector{}
	counts[0].Attempted = 1
	r.Accept(now, self, now.Slot()-1, []history.Upload{{From: self, Slot: now.Slot() - 1, Slices: []history.Slice{{Limit: keysLimit, Counts: counts}}}})
	if n := lists(r); n != 1 {
		t.Fatalf("%d lists written with counts; want 1", n)
	}
}

// TestIdleSecondsAreKnown checks that the leader of a range that nobody uses any more answers for the seconds
// whose lines still wait, as far as every process has reported them.
func TestIdleSecondsAreKnown(t *testing.T) {
	self, other := history.Process{Node: "a", Incarnation: 1}, history.Process{Node: "b", Incarnation: 1}
	start := history.Second(500_000 * 3600)
	r := NewReplica()
	r.Lead(at(start), 1)
	used := history.Vector{}
	used[3].Attempted = 1_000_000
	upload := func(b history.Slot, p history.Process, slices ...history.Slice) {
		r.Accept(b.End()+1, p, start.Slot(), []history.Upload{{From: p, Slot: b, Slices: slices}})
	}
	write := func(now history.Second, alive ...history.Process) (wrote bool) {
		lines, slots, term := r.Lines(now, alive)
		if lines == nil {
			return false
		}
		if err := r.Apply(lines); err != nil {
			t.Fatal(err)
		}
		r.Written(term, slots, true)
		return true
	}
	known := func() history.Second {
		points, asOf := r.seconds(keysLimit, start, start+1000)
		for i, p := range points {
			if p.Start != start+history.Second(i) || !p.Complete || (p.Attempted > 0) != (i == 3) {
				t.Fatalf("second %d is %+v", i, p)
			}
		}
		if int(asOf-start) != len(points) {
			t.Fatalf("%d points; want all to %d", len(points), asOf-start)
		}
		return asOf
	}

	first := start.Slot()
	r.Collector.Alive(start, []history.Process{self, other})
	upload(first, self, history.Slice{Limit: keysLimit, Counts: used})
	upload(first, other)
	if !write(first.End()+1, self, other) || known() != first.End() {
		t.Fatalf("the slot with counts was not written: known to %d", known()-start)
	}
	upload(first+1, self)
	if write((first+1).End()+1, self, other) || known() != first.End() {
		t.Errorf("known to %d before all have reported", known()-start)
	}
	upload(first+1, other)
	if write((first+1).End()+2, self, other) || known() != (first+1).End() {
		t.Errorf("known to %d; want the seconds whose line waits", known()-start)
	}
	r.Follow()
	if known() != first.End() {
		t.Errorf("a follower knows %d", known()-start)
	}
}

// TestIdleCatchesUp checks that a range that nobody uses, and whose leaders changed before they wrote, writes all that
// waits, and then counts without delay.
func TestIdleCatchesUp(t *testing.T) {
	self := history.Process{Node: "n", Incarnation: 1}
	start := history.Second(500_000 * 3600)
	now := start + 300 // five minutes have not been written
	r := NewReplica()
	r.Lead(at(now), 9)
	next, first := start.Slot(), now.Slot()
	for ; now < start+330; now++ {
		var pending []history.Upload
		for b := next; b < min(next+maxUploadSlots, now.Slot()); b++ {
			up := history.Upload{From: self, Slot: b}
			if b == first {
				counts := history.Vector{}
				counts[0].Attempted = 1
				up.Slices = []history.Slice{{Limit: keysLimit, Counts: counts}}
			}
			pending = append(pending, up)
		}
		next, _, _ = r.Accept(now, self, next, pending)
		lines, slots, term := r.Lines(now, []history.Process{self})
		if lines == nil {
			continue
		}
		if err := r.Apply(lines); err != nil {
			t.Fatal(err)
		}
		r.Written(term, slots, true)
	}
	if got := r.asOf(); got < first.End() {
		t.Errorf("half a minute later the log reaches %d of %d seconds", got-start, first.End()-start)
	}
}
