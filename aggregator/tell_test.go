package aggregator

import (
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// tells advances the clock, and returns the full reports of that time, and when they were made.
func (r *rig) tells(d time.Duration) (reports []quota.Report, at []time.Duration) {
	began := r.now
	for ; r.now.Sub(began) <= d; r.now = r.now.Add(10 * time.Millisecond) {
		for _, rep := range r.Collect(r.now) {
			if rep.Full {
				reports, at = append(reports, rep), append(at, r.now.Sub(began))
			} else if len(rep.Entries) > 0 {
				r.t.Errorf("after %v one key is reported by itself: %+v", r.now.Sub(began), rep)
			}
		}
	}
	return reports, at
}

// newTerm returns a rig with an open key and a new leader, which has received nothing.
func newTerm(t *testing.T) *rig {
	r := newRig(t, Config{Sync: 100 * time.Millisecond, Lease: 3 * time.Second})
	r.check(softName, "k", 1)
	r.answer(r.collect(), quota.GrantEntry{Level: 10 * tokens})
	r.SetLeader(0, "b", 2)
	return r
}

// TestTellsBacksOff: a new leader that does not answer gets the full report four times, three intervals apart, and
// then each time after twice as long, up to a lease.
func TestTellsBacksOff(t *testing.T) {
	r := newTerm(t)
	_, at := r.tells(12 * time.Second)
	var waits []time.Duration
	for i := 1; i < len(at); i++ {
		waits = append(waits, at[i]-at[i-1])
	}
	want := []time.Duration{300, 300, 300, 300, 600, 1200, 2400, 3000, 3000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(waits, want) {
		t.Errorf("it waits %v; want %v", waits, want)
	}
}

// TestAnyAnswerEndsTelling: a new leader that answers the first full report, after the third was sent, gets no
// further one.
func TestAnyAnswerEndsTelling(t *testing.T) {
	r := newTerm(t)
	reports, _ := r.tells(800 * time.Millisecond)
	if len(reports) != 3 {
		t.Fatalf("told %d times; want 3", len(reports))
	}
	g := r.grant(reports[0], quota.GrantEntry{Level: 10 * tokens})
	g.From = "b"
	r.Apply(r.now, g)
	for began := r.now; r.now.Sub(began) < 10*time.Second; r.now = r.now.Add(10 * time.Millisecond) {
		for _, rep := range r.Collect(r.now) {
			if rep.Full {
				t.Fatalf("told again %v after the answer", r.now.Sub(began))
			}
		}
	}
}
