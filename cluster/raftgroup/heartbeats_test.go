package raftgroup

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/quota"
)

// departures returns a batcher that sends nothing and records how many heartbeats left in each
// batch.
func departures() (*heartbeatBatcher, *[]int) {
	var left []int
	return &heartbeatBatcher{batches: map[quota.NodeID]*heartbeatBatch{}, ask: func(_ quota.NodeID, _ peerv1.Lane, frames ...*peerv1.Frame) []transport.Asked {
		left = append(left, len(frames))
		return make([]transport.Asked, len(frames))
	}}, &left
}

func newBeat(b *heartbeatBatcher) *queuedHeartbeat {
	t := newTransport(nil, b, "n0", 1, DefaultTiming())
	t.readIndex = &readIndex{}
	return &queuedHeartbeat{trans: t, frame: &peerv1.Frame{}, sent: make(chan struct{})}
}

func (x *queuedHeartbeat) left() bool {
	synctest.Wait()
	select {
	case <-x.sent:
		return true
	default:
		return false
	}
}

// TestHeartbeatsFallIntoStep simulates the heartbeats of many groups. Their timers fire as raft's
// do: each a tenth to a fifth of the timeout after the last answer.
func TestHeartbeatsFallIntoStep(t *testing.T) {
	const groups, length, trip = 21, 20 * time.Second, time.Millisecond
	every := DefaultTiming().Heartbeat
	synctest.Test(t, func(t *testing.T) {
		b, left := departures()
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		for g := range groups {
			go func() {
				rng := rand.New(rand.NewPCG(1, uint64(g)))
				answered := time.Now()
				for ctx.Err() == nil {
					time.Sleep(every/10 + time.Duration(rng.Int64N(int64(every/10))))
					x := newBeat(b)
					b.add("n1", x, answered.Add(every/5+every/batchSlack))
					<-x.sent
					if gap := time.Since(answered); gap > every/5+every/batchSlack {
						t.Errorf("group %d: a heartbeat %v after the last answer", g, gap)
					}
					time.Sleep(trip)
					answered = time.Now()
				}
			}()
		}
		<-ctx.Done()
		time.Sleep(time.Second)
		b.mu.Lock() // synchronizes with the last flush
		defer b.mu.Unlock()
		beats := 0
		for _, n := range *left {
			beats += n
		}
		if most := int(length / (every / 5)); len(*left) > most || beats < groups*most*9/10 {
			t.Errorf("%d heartbeats left in %d departures; %d would do", beats, len(*left), most)
		}
	})
}

func TestHeartbeatsThatMustGo(t *testing.T) {
	for name, c := range map[string]struct {
		at   time.Duration // when the second must go; the first can wait for a second
		edit func(x *queuedHeartbeat)
		act  func(b *heartbeatBatcher, first *queuedHeartbeat)
		goes bool
	}{
		"nothing to hurry for":       {at: time.Second},
		"overdue":                    {at: -time.Millisecond, goes: true},
		"sooner than the first":      {at: time.Millisecond, act: func(*heartbeatBatcher, *queuedHeartbeat) { time.Sleep(time.Millisecond) }, goes: true},
		"there is a newer entry":     {at: time.Second, edit: func(x *queuedHeartbeat) { x.prev = 4; x.trans.last.Store(5) }, goes: true},
		"there is no newer entry":    {at: time.Second, edit: func(x *queuedHeartbeat) { x.prev = 5; x.trans.last.Store(5) }},
		"an entry comes":             {at: time.Second, act: func(_ *heartbeatBatcher, first *queuedHeartbeat) { first.trans.stored(6) }, goes: true},
		"all are hurried":            {at: time.Second, act: func(b *heartbeatBatcher, _ *queuedHeartbeat) { b.flushAll() }, goes: true},
		"another instance has ended": {at: time.Second, act: func(b *heartbeatBatcher, _ *queuedHeartbeat) { _ = newBeat(b).trans.Close() }, goes: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, left := departures()
				first, second := newBeat(b), newBeat(b)
				first.prev = 5
				first.trans.last.Store(5)
				if c.edit != nil {
					c.edit(second)
				}
				b.add("n1", first, time.Now().Add(time.Second))
				b.add("n1", second, time.Now().Add(c.at))
				if c.act != nil {
					c.act(b, first)
				}
				if a, b := first.left(), second.left(); a != c.goes || b != c.goes {
					t.Errorf("left: %v and %v; want both %v", a, b, c.goes)
				}
				time.Sleep(2 * time.Second)
				b.mu.Lock()
				defer b.mu.Unlock()
				if !first.left() || !second.left() || len(*left) != 1 || (*left)[0] != 2 {
					t.Errorf("departures of %v; want one of both", *left)
				}
				if n := first.trans.commitsWaiting.Load(); n != 0 {
					t.Errorf("%d hold up entries still", n)
				}
			})
		})
	}
}

// TestCondemnedHeartbeat checks that an instance that has ended sends nothing, and that its
// waiting heartbeats return.
func TestCondemnedHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, left := departures()
		waits, late := newBeat(b), newBeat(b)
		b.add("n1", waits, time.Now().Add(time.Second))
		_ = waits.trans.Close()
		_ = late.trans.Close()
		b.add("n1", late, time.Now().Add(time.Second))
		if !waits.left() || !late.left() || waits.asked != nil || late.asked != nil {
			t.Error("they wait still, or have left")
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, n := range *left {
			if n > 0 {
				t.Errorf("%d left", n)
			}
		}
	})
}

// reads counts the entries read from a log.
type reads struct {
	raft.LogStore
	n int
}

func (r *reads) GetLog(index uint64, l *raft.Log) error {
	r.n++
	return r.LogStore.GetLog(index, l)
}

// TestRecentEntriesAreKept checks that the last entries are read from memory, within bounds, and
// that none outlives its deletion or replacement.
func TestRecentEntriesAreKept(t *testing.T) {
	store := &reads{LogStore: raft.NewInmemStore()}
	d := &disk{logs: store, trans: newTransport(nil, nil, "n0", 1, DefaultTiming()), latency: &diskLatency{}, fsm: &fsm{}}
	get := func(index uint64, from int) {
		t.Helper()
		var l raft.Log
		before := store.n
		if err := d.GetLog(index, &l); err != nil || l.Index != index || l.Term != index/2 {
			t.Errorf("entry %d: %+v, %v", index, l, err)
		}
		if store.n-before != from {
			t.Errorf("entry %d: read %d times; want %d", index, store.n-before, from)
		}
	}
	put := func(index uint64, bytes int) {
		t.Helper()
		if err := d.StoreLogs([]*raft.Log{{Index: index, Term: index / 2, Data: make([]byte, bytes)}}); err != nil {
			t.Fatal(err)
		}
	}
	put(7, 10)
	put(8, maxRecentBytes-10)
	get(8, 0)
	get(7, 0)
	put(9, 1) // no room for 7
	get(9, 0)
	get(8, 0)
	get(7, 1)
	put(10, maxRecentBytes+1) // no room for itself
	get(10, 1)
	get(9, 1)
	for i := range uint64(maxRecent + 1) {
		put(11+i, 1)
	}
	get(12, 0)
	get(11, 1)
	put(12, 2) // replaces, as a follower of a new leader does
	get(12, 0)
	get(13, 1)
	put(10, 1)
	get(10, 0)
	get(12, 1)
	if err := d.DeleteRange(10, 10); err != nil {
		t.Fatal(err)
	}
	var l raft.Log
	if err := d.GetLog(10, &l); err == nil {
		t.Errorf("an entry that was deleted: %+v", l)
	}
	if last := d.trans.last.Load(); last != 10 {
		t.Errorf("stored last: %d", last)
	}
}

// TestWaitsOnlyForWhoAnswers checks that a message to a follower waits for a fifth of the
// heartbeat timeout after the follower's last answer to this leader, and leaves at once if there
// is no such answer.
func TestWaitsOnlyForWhoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := departures()
		tr := newBeat(b).trans
		tr.readIndex.noteAnswer("n1", 7)
		if wait := time.Until(tr.latest("n1", 7)); wait != 205*time.Millisecond {
			t.Errorf("after an answer: waits %v", wait)
		}
		time.Sleep(206 * time.Millisecond)
		for name, at := range map[string]time.Time{"late": tr.latest("n1", 7), "of another term": tr.latest("n1", 8), "of another node": tr.latest("n2", 7)} {
			if time.Until(at) > 0 {
				t.Errorf("an answer %s: waits %v", name, time.Until(at))
			}
		}
	})
}
