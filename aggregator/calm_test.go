package aggregator

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/quota"
)

// TestCalm: a key of a soft limit with a burst of 6600 on three nodes stays calm with checks of ten tokens or less, one
// in each sync interval of 100 ms. It reports once, finally. Everything else is reported at once.
func TestCalm(t *testing.T) {
	calmName := quota.LimitName{Namespace: "n", Limit: "calm"}
	for _, tc := range []struct {
		name   string
		change func(l *quota.Limit)
		level  int64         // that a leader has reported; 0 means 6600, and -1 that none has
		costs  []int64       // of checks
		pause  time.Duration // between them
		then   func(r *rig)
		calm   bool
	}{
		{name: "one check", costs: []int64{1}, calm: true},
		{name: "an eleventh of its part of the burst", costs: []int64{10}, calm: true},
		{name: "more than an eleventh", costs: []int64{11}},
		{name: "rare checks", costs: []int64{1, 1, 1, 1}, pause: 100 * time.Millisecond, calm: true},
		{name: "frequent checks", costs: []int64{1, 1, 1, 1}, pause: 40 * time.Millisecond},
		{name: "half of the burst is left", level: 3301, costs: []int64{1}, calm: true},
		{name: "less than half is left", level: 3299, costs: []int64{1}},
		{name: "no leader has reported the level", level: -1, costs: []int64{1}},
		{name: "hard", change: func(l *quota.Limit) { l.Ceiling = quota.Hard }, costs: []int64{1}},
		{name: "counts endure", change: func(l *quota.Limit) { l.Durable = true }, costs: []int64{1}},
		{name: "the leader may decide", change: func(l *quota.Limit) { l.MaxDebt = time.Minute }, costs: []int64{1}},
		{name: "a window", change: func(l *quota.Limit) { l.Kind, l.Rate.Tokens = quota.FixedWindow, 6600 }, costs: []int64{1}},
		{name: "a refund", costs: []int64{2}, then: func(r *rig) { r.Refund(r.clock, calmName, "k", 1) }},
		{name: "a new leader", costs: []int64{1}, then: func(r *rig) { r.SetLeader(0, "b", 2) }},
		{name: "the limit becomes hard", costs: []int64{1}, then: func(r *rig) {
			r.limits(quota.Limit{LimitName: calmName, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 6600, Ceiling: quota.Hard})
			if d := r.check(calmName, "k", 1); d.Allowed {
				r.t.Error("a hard limit admits on the estimate")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, Config{Nodes: 3})
			l := quota.Limit{LimitName: calmName, Rate: quota.Rate{Tokens: 1, Per: time.Second}, Burst: 6600}
			if tc.change != nil {
				tc.change(&l)
			}
			r.limits(l)
			r.known()
			for final := tc.level < 0; !final; { // until it has closed
				if r.Len() == 0 {
					r.check(calmName, "k", 1)
				}
				rep := r.collect()
				r.answer(rep, quota.GrantEntry{Level: quota.FromTokens(cmp.Or(tc.level, 6600))})
				final = rep.Entries[0].Final
			}
			var sent []quota.ReportEntry
			collect := func() {
				for _, rep := range r.Collect(r.now) {
					sent = append(sent, rep.Entries...)
				}
			}
			r.now = r.now.Add(spacing)
			opened := r.now
			for i, c := range tc.costs {
				if i > 0 {
					r.now = r.now.Add(tc.pause)
				}
				r.check(calmName, "k", c)
				collect()
			}
			if tc.then != nil {
				tc.then(r)
				collect()
			}
			if calm := len(sent) == 0; calm != tc.calm {
				t.Fatalf("calm: %v, want %v; reported %+v", calm, tc.calm, sent)
			}
			if !tc.calm {
				return
			}
			for r.now = opened; r.now < opened.Add(2*time.Second) && len(sent) == 0; r.now = r.now.Add(5 * time.Millisecond) {
				collect()
			}
			use := quota.Units(0)
			for _, c := range tc.costs {
				use += quota.FromTokens(c)
			}
			took := r.now.Sub(opened)
			if len(sent) != 1 || !sent[0].Final || sent[0].Overdrawn != use || took < time.Second || took > 1200*time.Millisecond {
				t.Errorf("after %v: %+v, want one final report of %d after a second", took, sent, use)
			}
		})
	}
}

// known makes the leader answer the full report that a new leader gets.
func (r *rig) known() {
	for _, rep := range r.Collect(r.now) {
		r.answer(rep, quota.GrantEntry{})
	}
}

// TestCalmWakes: a calm key wakes no goroutine. A second check in the same interval does, also if no turn has found the
// key in the meantime.
func TestCalmWakes(t *testing.T) {
	r := newRig(t, Config{})
	l := limit(softName, 6600, quota.Soft)
	r.limits(l)
	r.known()
	for r.check(softName, "k", 1); !r.Quiet(); {
		r.answer(r.collect(), quota.GrantEntry{Level: 6600 * tokens})
	}
	r.now = r.now.Add(spacing)
	if r.check(softName, "k", 1); r.Urgent() || r.Quiet() {
		t.Error("a first check is urgent, or is never reported")
	}
	if r.check(softName, "k", 1); !r.Urgent() {
		t.Error("a second check at the same time is not urgent")
	}
	if !slices.ContainsFunc(r.Collect(r.now), func(rep quota.Report) bool { return len(rep.Entries) == 1 && rep.Entries[0].Overdrawn == 2*tokens }) {
		t.Error("it is not reported at once")
	}
}
