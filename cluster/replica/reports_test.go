package replica

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/quorate/quorate/cluster/replica/replicatest"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// room returns what the intake uses of its bounds.
func (in *intake) room() (frames, copied int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.bytes, in.copied
}

// TestReportsWait checks that reports to a busy range wait in order and in bounded memory, separately from
// those of other members and ranges, and that none is rejected for its sequence number.
func TestReportsWait(t *testing.T) {
	const keys = 4096
	s, n := newSet(t, 2, func(cfg *Config) { cfg.MaxKeys = 10_000 })
	l := limit("s", 1_000_000, quota.Soft)
	n.setLimits(t, l)
	s.Of(0).Lead(1)
	s.Of(1).Lead(1)
	var names [2][]quota.Key // by range
	for i := 0; len(names[0]) < keys || len(names[1]) < keys; i++ {
		k := quota.Key{LimitName: l.LimitName, Key: fmt.Sprint("k", i)}
		r := shard.Of(k, 2)
		names[r] = append(names[r], k)
	}
	report := func(from quota.NodeID, to quota.RangeID, seq quota.Seq, size int) {
		r := &quota.Report{Range: to, Term: 1, Incarnation: 1, Seq: seq}
		for i := range size {
			used := quota.FromTokens(int64(seq))
			r.Entries = append(r.Entries, quota.ReportEntry{Key: names[to][i], Epoch: 1, Overdrawn: used, Unreported: used})
		}
		s.OnReports(from, peerproto.PackReports(nil, []*quota.Report{r}))
	}
	booked := func(k quota.Key) (admitted int64) {
		s.Of(shard.Of(k, 2)).With(func(l *leader.Ledger, now quota.Time) {
			if r, ok := l.Key(now, k); ok {
				admitted = r.Admitted
			}
		})
		return admitted
	}
	free := replicatest.Occupy(t, s.Of(0))
	last := quota.Seq(0)
	for testutil.ToFloat64(s.stats.droppedReports) == 0 {
		if last++; last > 100 {
			t.Fatal("100 large reports of one member wait")
		}
		report("a", 0, last, keys)
		eventually(t, "the report waits, or is dropped", func() error {
			if frames, _ := s.intakes.get("a").room(); frames > 0 {
				return errors.New("it is in the intake")
			}
			return nil
		})
		if _, copied := s.intakes.get("a").room(); copied > maxWaiting {
			t.Fatalf("%d bytes of reports wait; at most %d", copied, maxWaiting)
		}
	}
	if last < 10 {
		t.Errorf("of %d reports one was dropped", last)
	}
	report("a", 1, 1, 10)
	report("b", 0, 1, 10)
	eventually(t, "a report to another range is booked", func() error {
		if got := booked(names[1][9]); got != 1 {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
	free()
	want := int64(last - 1 + 1) // the count of each key; the last report of a was dropped
	eventually(t, "what waited is booked", func() error {
		if got := booked(names[0][9]); got != want {
			return fmt.Errorf("%d are, want %d", got, want)
		}
		return nil
	})
	if got := testutil.ToFloat64(s.cfg.Refused); got != 0 {
		t.Errorf("%v reports were refused", got)
	}
	for _, id := range []quota.NodeID{"a", "b"} {
		eventually(t, "the room is free again", func() error {
			if frames, copied := s.intakes.get(id).room(); frames != 0 || copied != 0 {
				return fmt.Errorf("%s takes %d and %d bytes", id, frames, copied)
			}
			return nil
		})
	}
	s.SetNodes([]quota.NodeID{"n1", "b"})
	if s.intakes.of["a"] != nil || s.intakes.of["b"] == nil {
		t.Errorf("after a has left there are %v", s.intakes.of)
	}
}

// TestDropSuperseded checks that of several waiting complete lists, only the newest and what follows it is
// booked, and that an incomplete list, or one of another process or range, drops nothing.
func TestDropSuperseded(t *testing.T) {
	type part struct {
		seq   quota.Seq
		parts uint32 // 0: does not end a list
		from  quota.NodeID
		rng   quota.RangeID
		inc   quota.Incarnation
	}
	for name, tc := range map[string]struct {
		reports []part
		want    []int // indexes of reports
	}{
		"no list":                     {[]part{{seq: 1}, {seq: 2}}, []int{0, 1}},
		"one list":                    {[]part{{seq: 1}, {seq: 2}, {seq: 3, parts: 2}, {seq: 4}}, []int{1, 2, 3}},
		"three lists":                 {[]part{{seq: 1, parts: 1}, {seq: 2}, {seq: 3, parts: 2}, {seq: 4}, {seq: 5, parts: 2}}, []int{3, 4}},
		"the newest lacks a part":     {[]part{{seq: 1}, {seq: 2, parts: 1}, {seq: 4, parts: 2}}, []int{1, 2}},
		"all lack a part":             {[]part{{seq: 2, parts: 2}, {seq: 4, parts: 2}}, []int{0, 1}},
		"the beginning came before":   {[]part{{seq: 7}, {seq: 8, parts: 3}}, []int{0, 1}},
		"others are not meant":        {[]part{{seq: 1, from: "b"}, {seq: 1, rng: 1}, {seq: 1}, {seq: 2, parts: 1}}, []int{0, 1, 3}},
		"an earlier process":          {[]part{{seq: 1, inc: 0}, {seq: 1, inc: 1, parts: 1}}, []int{0, 1}},
		"others' are in between":      {[]part{{seq: 1}, {seq: 2}, {seq: 1, from: "b"}, {seq: 3, parts: 2}}, []int{1, 2, 3}},
		"a list of another's, intact": {[]part{{seq: 1, from: "b"}, {seq: 1}, {seq: 2, from: "b", parts: 2}, {seq: 2, parts: 1}}, []int{0, 2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			var in []*quota.Report
			for _, p := range tc.reports {
				in = append(in, &quota.Report{Range: p.rng, Term: 1, From: p.from, Incarnation: p.inc, Seq: p.seq, Full: p.parts > 0, Parts: p.parts})
			}
			all := append([]*quota.Report(nil), in...)
			var got []int
			for _, r := range dropSuperseded(in) {
				for i := range all {
					if all[i] == r {
						got = append(got, i)
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("booked are %v, want %v", got, tc.want)
			}
		})
	}
}
