package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/peercall"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/peerproto"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/leader"
	"github.com/quorate/quorate/shard"
)

// occupy has the range's ledger until the test ends or free is called, as Sweep does for a part of
// a second where there are many keys.
func (s *seat) occupy(t testing.TB) (free func()) {
	t.Helper()
	has, end := make(chan struct{}), make(chan struct{})
	over := make(chan bool)
	go func() {
		over <- s.with(func(*leader.Ledger, quota.Time) {
			close(has)
			<-end
		})
	}()
	select {
	case <-has:
	case <-over:
		t.Fatal("the node does not lead the range")
	}
	free = func() {
		select {
		case <-end:
		default:
			close(end)
			<-over
		}
	}
	t.Cleanup(free)
	return free
}

// otherKey returns a key that the same node leads, in another range.
func (c *trio) otherKey(l quota.LimitName, k quota.Key, prefix string) quota.Key {
	for i := range 10_000 {
		other := quota.Key{LimitName: l, Key: fmt.Sprintf("%s%d", prefix, i)}
		if c.leaderOf(other) == c.leaderOf(k) && shard.Of(other, c.ranges) != shard.Of(k, c.ranges) {
			return other
		}
	}
	c.t.Fatalf("%s leads one range", c.leaderOf(k))
	return quota.Key{}
}

// room is what the intake takes of its bounds.
func (in *intake) room() (frames, copied int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.bytes, in.copied
}

// TestBusyRange: a range whose ledger somebody else has holds up nothing but itself: not what else
// comes over the connections on which its reports come, nor reports to other ranges, of other nodes
// and of its own, nor beacons. What was reported meanwhile is booked when it is free.
func TestBusyRange(t *testing.T) {
	c := newTrio(t, 6)
	l := limit("h", 1000, quota.Hard)
	c.apply(l)
	busy := c.keyLedBy(l.LimitName, "n1", "k")
	other := c.otherKey(l.LimitName, busy, "k")
	n1, n2 := c.nodes["n1"], c.nodes["n2"]
	free := n1.seats[shard.Of(busy, c.ranges)].occupy(t)

	var wg sync.WaitGroup
	for _, n := range []*Node{n1, n2} {
		wg.Go(func() {
			if d := n.Check(busy, 1); d.Allowed { // it has reported the key, and waits as long as it may
				t.Errorf("%s admits a key of the range that is busy: %+v", n.cfg.Self, d)
			}
			if d := n.Check(other, 1); !d.Allowed {
				t.Errorf("%s: a key of another range of the same leader is refused: %v", n.cfg.Self, d.Why)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := n2.net.Call(ctx, "n1", peerv1.Lane_LANE_DATA, &peerv1.Frame{Body: &peerv1.Frame_Call{Call: &peerv1.Call{}}})
	if remote := (*transport.RemoteError)(nil); !errors.As(err, &remote) || remote.Text != peercall.ErrUnknown.Error() {
		t.Errorf("a call on the connection of the reports: %v, want an answer", err)
	}
	if b := n1.beacon(); len(b.Leads) < 2 {
		t.Errorf("a beacon says that n1 leads %v", b.Leads)
	}
	free()
	for _, n := range []*Node{n1, n2} {
		use(t, n, busy, 1)
	}
	c.awaitAdmitted(busy, 2)
}

// TestReportsWait: reports that come while the range is busy wait in order, in bounded memory, those
// of other members and ranges in room of their own. None is refused for its number.
func TestReportsWait(t *testing.T) {
	const keys = 4096
	c := newOne(t, 2)
	n := c.running()[0]
	l := limit("s", 1_000_000, quota.Soft)
	c.apply(l)
	var names [2][]quota.Key // by range
	for i := 0; len(names[0]) < keys || len(names[1]) < keys; i++ {
		k := quota.Key{LimitName: l.LimitName, Key: fmt.Sprint("k", i)}
		r := shard.Of(k, 2)
		names[r] = append(names[r], k)
	}
	terms := [2]quota.Term{}
	for r := range terms {
		n.seats[quota.RangeID(r)].with(func(l *leader.Ledger, _ quota.Time) { terms[r] = l.Term() })
	}
	report := func(from quota.NodeID, to quota.RangeID, seq quota.Seq, size int) {
		r := &quota.Report{Range: to, Term: terms[to], Incarnation: 1, Seq: seq}
		for i := range size {
			used := quota.FromTokens(int64(seq))
			r.Entries = append(r.Entries, quota.ReportEntry{Key: names[to][i], Epoch: 1, Overdrawn: used, Unreported: used})
		}
		n.handle(from, &peerv1.Frame{Body: &peerv1.Frame_PackedReports{PackedReports: peerproto.PackReports(nil, []*quota.Report{r})}}, nil)
	}
	booked := func(k quota.Key) (admitted int64) {
		n.seats[shard.Of(k, 2)].with(func(l *leader.Ledger, now quota.Time) {
			if r, ok := l.Key(now, k); ok {
				admitted = r.Admitted
			}
		})
		return admitted
	}
	free := n.seats[0].occupy(t)
	last := quota.Seq(0)
	for testutil.ToFloat64(n.stats.droppedReports) == 0 {
		if last++; last > 100 {
			t.Fatal("100 large reports of one member wait")
		}
		report("a", 0, last, keys)
		c.eventually(patience, "the report waits, or is dropped", func() error {
			if frames, _ := n.intakes.get("a").room(); frames > 0 {
				return errors.New("it is in the intake")
			}
			return nil
		})
		if _, copied := n.intakes.get("a").room(); copied > maxWaiting {
			t.Fatalf("%d bytes of reports wait; at most %d", copied, maxWaiting)
		}
	}
	if last < 10 {
		t.Errorf("of %d reports one was dropped", last)
	}
	report("a", 1, 1, 10)
	report("b", 0, 1, 10)
	c.eventually(patience, "a report to another range is booked", func() error {
		if got := booked(names[1][9]); got != 1 {
			return fmt.Errorf("%d are", got)
		}
		return nil
	})
	free()
	want := int64(last - 1 + 1) // what each has counted; a's last one was dropped
	c.eventually(patience, "what waited is booked", func() error {
		if got := booked(names[0][9]); got != want {
			return fmt.Errorf("%d are, want %d", got, want)
		}
		return nil
	})
	if got := testutil.ToFloat64(n.stats.refusedReports); got != 0 {
		t.Errorf("%v reports were refused", got)
	}
	for _, id := range []quota.NodeID{"a", "b"} {
		c.eventually(patience, "the room is free again", func() error {
			if frames, copied := n.intakes.get(id).room(); frames != 0 || copied != 0 {
				return fmt.Errorf("%s takes %d and %d bytes", id, frames, copied)
			}
			return nil
		})
	}
}

// TestNewestList: of the lists of everything that wait, the newest is booked, and what comes after
// it. Nothing is left out for a list that is not whole, or of another process or range.
func TestNewestList(t *testing.T) {
	type part struct {
		seq   quota.Seq
		parts uint32 // 0: it ends no list
		from  quota.NodeID
		rng   quota.RangeID
		inc   quota.Incarnation
	}
	for name, tc := range map[string]struct {
		reports []part
		want    []int // of reports
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
			for _, r := range newest(in) {
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
