package accounts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/account"
	"github.com/quorate/quorate/internal/quota"
)

// world is a node with all ranges, whose logs tests can hold up and break.
type world struct {
	*Service
	replica  *Replica // of range 0
	replicas map[quota.RangeID]*Replica
	turns    map[quota.RangeID]chan struct{}       // one entry at a time, as in a log
	rule     *account.Policy                       // of every policy
	meet     func(quota.RangeID, *account.Command) // called before a command is applied; may wait

	logged func(batch []byte)
	sync   time.Duration // how long an entry takes

	mu      sync.Mutex
	ahead   time.Duration // of its clock
	unsure  bool          // its clock is not confirmed
	hold    chan struct{} // entries wait here while it is set
	fail    func(entry int) (err error, applied bool)
	entries []int // commands per entry
}

func (w *world) Leader(quota.RangeID) quota.NodeID { return "" }
func (w *world) Current(quota.RangeID) bool        { return true }

func (w *world) Holders(quota.RangeID) []quota.NodeID { return []quota.NodeID{"n1"} }

func (w *world) Now() quota.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return quota.Time(time.Now().Add(w.ahead).UnixNano())
}

func (w *world) ClockAgreed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.unsure
}

// setClock steps the clock.
func (w *world) setClock(ahead time.Duration, unsure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead, w.unsure = ahead, unsure
}

func (w *world) Call(context.Context, quota.NodeID, *peerv1.Call) (*peerv1.Call, error) {
	return nil, errors.New("there is no other node")
}

func (w *world) Policies(_ context.Context, refs []account.PolicyRef) ([]*account.Policy, error) {
	out := make([]*account.Policy, len(refs))
	for i := range out {
		out[i] = w.rule
	}
	return out, nil
}

// group is the replica's Raft group. It is a separate type because both it and the node have a
// method Leader.
// method Leader.
type group struct {
	*world
	id quota.RangeID
}

func (g group) ConfirmLeadership(context.Context) error { return nil }

func (g group) Leader() (quota.NodeID, uint64, bool) { return "n1", 1, true }

func (g group) Apply(ctx context.Context, data []byte) (any, error) {
	g.mu.Lock()
	var cmd raftlogv1.RangeCommand
	if err := proto.Unmarshal(data, &cmd); err != nil {
		return nil, err
	}
	batch := cmd.GetAccounts()
	if g.logged != nil {
		g.logged(batch)
	}
	_, commands, _ := account.DecodeBatch(batch)
	n := len(g.entries)
	g.entries = append(g.entries, len(commands))
	hold := g.hold
	g.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, raftgroup.ErrUncertain
		}
	}
	if g.fail != nil {
		if err, applied := g.fail(n); err != nil {
			if applied {
				g.replicas[g.id].Apply(batch)
			}
			return nil, err
		}
	}
	g.turns[g.id] <- struct{}{}
	defer func() { <-g.turns[g.id] }()
	time.Sleep(g.sync) // the time of a disk, virtual where it is not 0
	for i := range commands {
		if g.meet != nil {
			g.meet(g.id, &commands[i])
		}
	}
	return g.replicas[g.id].Apply(batch), nil
}

type node struct{ *world }

func (n node) Group(r quota.RangeID) Group { return group{n.world, r} }

func newWorld(t *testing.T) *world { return newWorldOf(t, 1) }

func newWorldOf(t *testing.T, ranges int) *world {
	t.Helper()
	w := &world{replicas: map[quota.RangeID]*Replica{}, turns: map[quota.RangeID]chan struct{}{}}
	for r := range quota.RangeID(ranges) {
		w.replicas[r], w.turns[r] = NewReplica(), make(chan struct{}, 1)
	}
	w.replica = w.replicas[0]
	w.Service = New(Config{Self: "n1", Ranges: ranges, Replicas: w.replicas, Node: node{w}})
	t.Cleanup(w.Close)
	return w
}

func add(name string) []account.Op {
	return []account.Op{{
		Account: account.ID{App: "a", Realm: "r", Name: name, Resource: "u"}, RelativeTo: account.Zero, Delta: 1, Options: account.IgnorePolicyBounds,
	}}
}

// TestQueueBound fills the queue while the log stands still. Commands beyond the bound are refused
// at once and never applied; the others are applied in a few entries.
func TestQueueBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hold = make(chan struct{})
		results := make(chan error, 2*maxQueue)
		call := func(i int) {
			out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add(fmt.Sprint("x", i)))
			if err == nil && out.Code != account.Done {
				err = fmt.Errorf("%+v", out)
			}
			results <- err
		}
		for i := range maxEntries {
			go call(i)
			synctest.Wait()
		}
		for i := range maxQueue {
			go call(maxEntries + i)
		}
		synctest.Wait()
		if n := w.queues[0].length(); n != maxQueue || len(w.entries) != maxEntries {
			t.Fatalf("%d wait, %d entries are under way", n, len(w.entries))
		}
		var u *UnavailableError
		if _, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("y")); !errors.As(err, &u) || !u.Overloaded || u.Unknown {
			t.Errorf("beyond the bound: %v", err)
		}
		close(w.hold)
		for range maxEntries + maxQueue {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if got, want := len(w.entries), maxEntries+maxQueue/maxBatch; got != want {
			t.Errorf("%d entries %v, want %d", got, w.entries, want)
		}
		if n := w.replica.Stats().Accounts; n != maxEntries+maxQueue {
			t.Errorf("%d accounts, want %d", n, maxEntries+maxQueue)
		}
	})
}

// TestQueueBytes puts long commands into several entries.
func TestQueueBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hold = make(chan struct{})
		var ops []account.Op
		for i := range account.MaxOps {
			ops = append(ops, add(fmt.Sprintf("%0200d", i))...)
		}
		const calls = 20
		done := make(chan error, calls)
		for range calls {
			go func() {
				_, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, ops)
				done <- err
			}()
		}
		synctest.Wait()
		close(w.hold)
		for range calls {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for _, n := range w.entries {
			if size := n * sizeOf(&account.Command{Apply: &account.Request{Ops: ops}}); n > 1 && size > maxBatchBytes {
				t.Errorf("an entry of %d commands has %d bytes", n, size)
			}
		}
		if len(w.entries) < 5 {
			t.Errorf("%d entries: %v", len(w.entries), w.entries)
		}
	})
}

// TestOutcomeNotKnown loses the leadership while an entry is in flight.
func TestOutcomeNotKnown(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for _, id := range []string{"", "r1"} {
			t.Run(fmt.Sprintf("applied %v, id %q", applied, id), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.fail = func(entry int) (error, bool) {
						if entry == 0 {
							return raftgroup.ErrUncertain, applied
						}
						return nil, false
					}
					out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, id, 0, add("x"))
					var u *UnavailableError
					switch {
					case id == "" && (!errors.As(err, &u) || !u.Unknown || !u.NoLeader()):
						t.Errorf("%+v, %v", out, err)
					case id != "" && (err != nil || out.Results[0].New != 1 || (out.Code == account.Repeated) != applied):
						t.Errorf("%+v, %v", out, err)
					}
				})
			})
		}
	}
}

// TestNothingDoneIsRepeated has the log refuse entries for a while.
func TestNothingDoneIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.fail = func(int) (error, bool) {
			if time.Since(start) < 2*time.Second {
				return raftgroup.ErrNotLeader, false
			}
			return nil, false
		}
		if out, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("x")); err != nil || out.Code != account.Done {
			t.Errorf("%+v, %v", out, err)
		}
		start = start.Add(time.Hour) // never succeeds again
		called := time.Now()
		_, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("x"))
		var u *UnavailableError
		if !errors.As(err, &u) || u.Unknown || time.Since(called) != callLimit {
			t.Errorf("after %v: %v", time.Since(called), err)
		}
		if len(w.entries) > 200 {
			t.Errorf("%d tries", len(w.entries))
		}
	})
}

// TestLeaving removes the command of a caller that stops waiting from the queue.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.hold = make(chan struct{})
		for range maxEntries {
			go func() { _, _ = w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("x")) }()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.ApplyOps(ctx, account.Caller{By: "me"}, "", 0, add("y"))
		var u *UnavailableError
		if !errors.As(err, &u) || u.Unknown {
			t.Errorf("it was in no entry: %v", err)
		}
		close(w.hold)
		synctest.Wait()
		if n := w.replica.Stats().Accounts; n != 1 {
			t.Errorf("%d accounts: who left was carried out", n)
		}
	})
}

func TestClosedService(t *testing.T) {
	w := newWorld(t)
	w.Close()
	if _, err := w.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("x")); err == nil {
		t.Error("it was applied")
	}
}

// TestManyForgets queues more Forgets at once than an entry takes. All are written, without another
// command to wake the queue.
func TestManyForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		q := &w.queues[0]
		for range maxBatch + 1 {
			if err := q.push(newPending(account.Command{Forget: &account.TxID{}}, "", false)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute) // virtual
		if n := q.length(); n > 0 {
			t.Errorf("%d Forgets still wait", n)
		}
	})
}

// successor is a node that begins to lead its range: until then, it forwards to a leader that does not answer any more.
type successor struct {
	node
	leads atomic.Bool
}

func (s *successor) Leader(quota.RangeID) quota.NodeID { return "n2" }

func (s *successor) Group(r quota.RangeID) Group {
	if !s.leads.Load() {
		return nil
	}
	return s.node.Group(r)
}

func (s *successor) Call(ctx context.Context, _ quota.NodeID, _ *peerv1.Call) (*peerv1.Call, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSuccessor has a node become the leader while its messages to the last one wait for their answers: its entries do
// not wait for them.
func TestSuccessor(t *testing.T) {
	for messages := range maxMessages + 1 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			n := &successor{node: node{w}}
			s := New(Config{Self: "n1", Ranges: 1, Node: n, Replicas: w.replicas})
			t.Cleanup(s.Close)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range messages {
				go func() { _, _ = s.ApplyOps(ctx, account.Caller{By: "me"}, "", 0, add("x")) }()
				synctest.Wait()
			}
			n.leads.Store(true)
			began := time.Now()
			out, err := s.ApplyOps(t.Context(), account.Caller{By: "me"}, "", 0, add("y"))
			if waited := time.Since(began); err != nil || out.Code != account.Done || waited > 0 {
				t.Errorf("%d messages: %+v, %v after %v", messages, out, err, waited)
			}
		})
	}
}
