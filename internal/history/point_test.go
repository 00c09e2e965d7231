package history

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/internal/quota"
)

// TestPoint checks that a minute with a burst of one second shows a burst, not just a mean.
func TestPoint(t *testing.T) {
	limit, self := modelLimits[0], Process{"a", 1}
	k := NewRecent()
	m := Minute(30_000_000)
	for b := m.First(); b < (m + 1).First(); b++ {
		l := Line{Slot: b, Expected: []Process{self}, From: []Process{self}, Slices: []Slice{{Limit: limit}}}
		for i := range l.Slices[0].Counts {
			l.Slices[0].Counts[i] = Counts{Attempted: 10 * quota.Token, Admitted: 10 * quota.Token}
		}
		if b == m.First()+2 {
			l.Slices[0].Counts[4] = Counts{Attempted: 610 * quota.Token, Admitted: 100 * quota.Token, Over: 7, Needless: 2, NeedlessAtMost: 5}
		}
		k.Apply(&l)
	}
	p := k.Point(limit, m.First(), (m + 1).First())
	if p.Peak != 610*quota.Token || p.Mean != 20*quota.Token || p.P50 != 10*quota.Token || p.P99 != 610*quota.Token || p.P95 != 10*quota.Token {
		t.Errorf("demand: %+v", p)
	}
	if p.Attempted != 1200*quota.Token || p.Refused() != 510*quota.Token || p.Over != 7 || p.Needless != 2 || p.NeedlessAtMost != 5 {
		t.Errorf("sums: %+v", p.Counts)
	}
	if !p.Complete || p.Start != m.Start() || p.Seconds != 60 {
		t.Errorf("%+v", p)
	}
	if next := k.Point(limit, m.First()+1, (m+1).First()+1); next.Complete {
		t.Error("a slot that was never written makes no complete point")
	}
	other := k.Point(modelLimits[2], m.First(), (m + 1).First())
	if !other.Complete || other.Counts != (Counts{}) {
		t.Errorf("a limit that nobody asked for is known to be so: %+v", other)
	}
}

// TestTallyBounds checks that a tally without a leader drops its oldest slots, and returns the others
// unchanged.
func TestTallyBounds(t *testing.T) {
	b := NewTally(Process{"a", 1}, 0, 2, homeOf)
	for s := range Second((MaxBehind + 5) * SlotSeconds) {
		b.Add(s, modelLimits[0], Counts{Attempted: 1})
		b.Expire(s)
	}
	due := b.Pending((MaxBehind+5)*SlotSeconds, 0, 1000)
	if len(due) != MaxBehind+1 || due[0].Slot != 4 || b.Dropped() != 2*4 {
		t.Fatalf("%d slots from %d on, %d dropped", len(due), due[0].Slot, b.Dropped())
	}
	if sum := due[1].Slices[0].Counts.Sum(); sum.Attempted != SlotSeconds {
		t.Fatalf("%+v", sum)
	}
}

// TestUploadsStay checks that a repeated upload is unchanged, and that late counts go to the first second
// that has not been uploaded.
func TestUploadsStay(t *testing.T) {
	b := NewTally(Process{"a", 1}, 5, 2, homeOf)
	b.Add(5, modelLimits[0], Counts{Attempted: 1})
	first := b.Pending(10, 0, 10)
	b.Add(6, modelLimits[0], Counts{Attempted: 10})
	again, next := b.Pending(10, 0, 10), b.Pending(20, 0, 10)
	if len(first) != 1 || len(again) != 1 || again[0].Slices[0] != first[0].Slices[0] {
		t.Fatalf("%+v, then %+v", first, again)
	}
	if len(next) != 2 || next[1].Slices[0].Counts[0].Attempted != 10 {
		t.Fatalf("%+v", next)
	}
}

// TestFewLimits checks that the least used limits beyond MaxLimits are counted together, without loss.
func TestFewLimits(t *testing.T) {
	b := NewTally(Process{"a", 1}, 0, 1, func(quota.LimitName) quota.RangeID { return 0 })
	total := quota.Units(0)
	for i := range MaxLimits + 100 {
		c := Counts{Attempted: quota.Units(i + 1)}
		total += c.Attempted
		b.Add(3, quota.LimitName{Namespace: "n", Limit: string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))}, c)
	}
	uploaded := b.Pending(10, 0, 1)[0]
	sum, other := Counts{}, Counts{}
	for i := range uploaded.Slices {
		s := uploaded.Slices[i].Counts.Sum()
		sum.Add(&s)
		if uploaded.Slices[i].Limit == Other {
			other = s
		}
	}
	if len(uploaded.Slices) != MaxLimits+1 || sum.Attempted != total || other.Attempted != 100*101/2 {
		t.Fatalf("%d slices, %d of %d, others %d", len(uploaded.Slices), sum.Attempted, total, other.Attempted)
	}
	l := Line{From: []Process{{"a", 1}}, Slices: uploaded.Slices}
	if _, err := DecodeLine(l.Append(nil)); err != nil {
		t.Fatal(err)
	}
}

// TestFewLimitsOfSeveral checks that a line of several uploads that count limits together can be decoded, without loss.
func TestFewLimitsOfSeveral(t *testing.T) {
	total := quota.Units(0)
	c := NewCollector(0, NewRecent())
	for i, p := range []Process{{"a", 1}, {"b", 1}} {
		b := NewTally(p, 0, 1, func(quota.LimitName) quota.RangeID { return 0 })
		for j := range MaxLimits + 100 {
			n := Counts{Attempted: quota.Units(j + 1)}
			total += n.Attempted
			b.Add(3, quota.LimitName{Namespace: "n", Limit: fmt.Sprintf("%d-%d", i, j)}, n)
		}
		c.Add(10, b.Pending(10, 0, 1))
	}
	lines := c.Lines(10 + Patience)
	if len(lines) != 1 {
		t.Fatalf("%d lines", len(lines))
	}
	read, err := DecodeLine(lines[0].Append(nil))
	if err != nil {
		t.Fatalf("no replica can read it: %v", err)
	}
	sum := Counts{}
	for i := range read.Slices {
		s := read.Slices[i].Counts.Sum()
		sum.Add(&s)
	}
	if len(read.Slices) != MaxLimits+1 || sum.Attempted != total {
		t.Fatalf("%d slices, %d of %d", len(read.Slices), sum.Attempted, total)
	}
}
