package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/quorate/quorate/api/gen/quorate/peer/v1"
	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	quoratev1 "github.com/quorate/quorate/api/gen/quorate/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/cluster/transport"
	"github.com/quorate/quorate/internal/pki"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/internal/snapshotio"
	"github.com/quorate/quorate/shard"
)

// TestNextOfMeta checks that a new member that is not connected yet keeps the meta group from being done:
// otherwise the rebalancer would not check the group again for recheckEvery. A leaving member does not.
func TestNextOfMeta(t *testing.T) {
	table := func(states ...State) *Table {
		m := &raftlogv1.Membership{Revision: 1}
		for i, s := range states {
			m.Members = append(m.Members, &raftlogv1.StoredMember{Id: string(rune('a' + i)), Peer: "h:1", State: uint32(s)})
		}
		return New(m)
	}
	want := shard.Placement{Voters: []quota.NodeID{"a"}}
	for name, c := range map[string]struct {
		table *Table
		alive []quota.NodeID
		want  string
	}{
		"connected":     {table(Active, Active), []quota.NodeID{"a", "b"}, "add non-voter b: new member"},
		"not connected": {table(Active, Active), []quota.NodeID{"a"}, "wait b: new member, not connected yet"},
		"one of two":    {table(Active, Active, Active), []quota.NodeID{"a", "c"}, "add non-voter c: new member"},
		"leaves":        {table(Active, Leaving), []quota.NodeID{"a"}, "done: as wanted"},
	} {
		is := shard.Actual{Leader: "a", Voters: []quota.NodeID{"a"}, Ready: map[quota.NodeID]bool{"a": true}, Alive: map[quota.NodeID]bool{}}
		for _, id := range c.alive {
			is.Alive[id] = true
		}
		if got := next(c.table, raftgroup.MetaGroup, want, is).String(); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}

// TestRaised checks that a release that introduces level 2 raises the cluster to it once every living
// member has it, and not before. Afterwards the handshake refuses an older node that restarts
// (transport.TestLevels), and the meta leader refuses one that joins (TestJoinOfALowerLevel).
func TestRaised(t *testing.T) {
	for name, tt := range map[string]struct {
		levels [3]uint32
		dead   int // the member that is given up; 0 for none
		want   uint32
	}{
		"all have it":             {[3]uint32{2, 2, 2}, 0, 2},
		"one has not":             {[3]uint32{2, 1, 2}, 0, 0},
		"the one without is dead": {[3]uint32{2, 1, 2}, 2, 2},
		"nobody else has":         {[3]uint32{1, 1, 1}, 0, 0},
	} {
		stored := &raftlogv1.Membership{Level: 1, Replicas: 3}
		for i, level := range tt.levels {
			stored.Members = append(stored.Members, &raftlogv1.StoredMember{
				Id: fmt.Sprintf("n%d", i+1), Peer: fmt.Sprintf("h:%d", i+1), State: uint32(Active), Level: level, Dead: tt.dead == i+1,
			})
		}
		table := New(stored)
		if got := raiseLevel(table, 2).GetLevel().GetLevel(); got != tt.want {
			t.Errorf("%s: raised to %d, want %d", name, got, tt.want)
		}
		if c := raiseLevel(table, 2); c != nil {
			next, err := table.Apply(c)
			if err != nil || next.Level() != 2 || raiseLevel(next, 2) != nil {
				t.Errorf("%s: level %d, %v", name, next.Level(), err)
			}
		}
		if raiseLevel(table, 1) != nil {
			t.Errorf("%s: software of level 1 raises it", name)
		}
	}
}

// TestJoinOfALowerLevel checks that a node whose software has a lower level than the cluster cannot join.
func TestJoinOfALowerLevel(t *testing.T) {
	table := New(&raftlogv1.Membership{Level: 2, Replicas: 3})
	_, err := authorizeJoin(table, "", &quoratev1.JoinRequest{Node: "n4", Version: "0.1.0", Level: 1}, time.Now())
	if err == nil || err.Error() != `version "0.1.0" of the new node has feature level 1; the cluster needs 2: use the cluster's version` {
		t.Error(err)
	}
	if _, err := authorizeJoin(table, "", &quoratev1.JoinRequest{Node: "n4", Level: 2}, time.Now()); err == nil || !strings.HasPrefix(err.Error(), "token: ") {
		t.Error(err)
	}
}

// TestLostData checks which nodes are refused, given the identity in the membership and the one
// that the node reports.
func TestLostData(t *testing.T) {
	members := []*raftlogv1.StoredMember{
		{Id: "n1", Peer: "h:1", State: uint32(Active)},
		{Id: "earlier", Peer: "h:2", State: uint32(Active)},
		{Id: "first", Peer: "h:3", State: uint32(Active), FirstIncarnation: 7},
		{Id: "joined", Peer: "h:4", State: uint32(Active), JoinedUnixNanos: 5},
		{Id: "heard", Peer: "h:5", State: uint32(Active), JoinedUnixNanos: 5, FirstIncarnation: 8},
	}
	s := NewService(Config{Self: "n1"}, ViewOf(New(&raftlogv1.Membership{Members: members, Revision: 1}), 1), true, nil)
	for _, tc := range []struct {
		id      quota.NodeID
		first   quota.Incarnation
		refused bool
	}{
		{"earlier", 0, false},
		{"earlier", 9, true}, // its data had no identity
		{"first", 7, false},
		{"first", 9, true},
		{"first", 0, false}, // an earlier version dropped the identity: it has data
		{"joined", 9, false},
		{"heard", 8, false},
		{"heard", 9, true},
		{"nobody", 9, false}, // other checks refuse it
	} {
		if got := s.Lost(tc.id, tc.first); (got != "") != tc.refused || got != "" && !strings.HasPrefix(got, LostData) {
			t.Errorf("%s with %d: %q", tc.id, tc.first, got)
		}
	}
}

// leadingNode is a node on which one node leads all ranges.
type leadingNode struct {
	Node
	leader quota.NodeID
}

func (n *leadingNode) Leader(quota.RangeID) quota.NodeID { return n.leader }

// TestTransferFrom checks that a range is not handed over if another node than the named one leads it, and that an
// unknown node is answered with the members.
func TestTransferFrom(t *testing.T) {
	members := []*raftlogv1.StoredMember{{Id: "n1", Peer: "h:1"}, {Id: "n2", Peer: "h:2"}}
	s := NewService(Config{Self: "n1", Ranges: 2}, ViewOf(New(&raftlogv1.Membership{Members: members, Revision: 1}), 2), true, &leadingNode{leader: "n2"})
	for from, want := range map[string]string{"": "moved 1 []", "n2": "moved 1 []", "n1": "moved 0 [range 1: n2 leads it, not n1]"} {
		out, err := s.transferLeadership(t.Context(), nil, &quoratev1.TransferLeadershipRequest{Ranges: []uint32{1}, From: from, To: "n2"})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("moved %d %v", out.Moved, out.Faults); got != want {
			t.Errorf("from %q: %s; want %s", from, got, want)
		}
	}
	_, err := s.transferLeadership(t.Context(), nil, &quoratev1.TransferLeadershipRequest{From: "n9"})
	if want := `from: unknown node "n9"; known: n1, n2`; err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// clockNode is a node whose wall clock is wrong: the cluster's time is another.
type clockNode struct {
	Node
	table *Table
	ahead time.Duration // of the cluster's time before the wall clock
}

func (n *clockNode) Now() quota.Time { return quota.Time(time.Now().UnixNano()).Add(n.ahead) }

func (n *clockNode) Table() *Table { return n.table }

func (n *clockNode) Commit(_ context.Context, c *raftlogv1.ChangeMembers) (t *Table, err error) {
	if t, err = n.table.Apply(c); err == nil {
		n.table = t
	}
	return t, err
}

// losingNode is a node whose first call of the leader is lost, before or after it was carried out.
type losingNode struct {
	clockNode
	leader    *Service
	dropped   bool   // it was lost before
	slow      bool   // it reaches the leader only with late
	late      func() // carries the slow call out
	meanwhile func() // what others do then
	calls     int
}

func (n *losingNode) Host() *raftgroup.Host { return &raftgroup.Host{} }

func (n *losingNode) MetaLeader() quota.NodeID { return "n2" }

func (n *losingNode) Up(quota.NodeID) bool { return true }

func (n *losingNode) CallSlow(ctx context.Context, _ quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	n.calls++
	if n.calls == 1 && n.slow {
		n.late = func() { _, _ = n.carryOut(context.WithoutCancel(ctx), c) } // nobody awaits its answer
	}
	if n.calls == 1 && (n.dropped || n.slow) {
		return nil, transport.ErrLost
	}
	out, err := n.carryOut(ctx, c)
	if n.calls == 1 {
		n.meanwhile()
		return nil, transport.ErrLost
	}
	return out, err
}

func (n *losingNode) carryOut(ctx context.Context, c *peerv1.Call) (*peerv1.Call, error) {
	q := c.GetCluster()
	req := n.leader.changes[q.Method].request.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(q.Request, req); err != nil {
		return nil, err
	}
	out := &peerv1.CallClusterResult{}
	if res, err := n.leader.carryOutChange(ctx, &caller{by: q.By, seed: pki.Seed(q.Seed), revision: q.Revision}, req); err != nil {
		out = failedChange(err)
	} else {
		out.Response = snapshotio.Encode(res)
	}
	return &peerv1.Call{Body: &peerv1.Call_ClusterResult{ClusterResult: out}}, nil
}

// newLosingNode returns a service whose node is a losingNode, in a cluster of n1, n2 and n3. n2 leads the meta group.
func newLosingNode() (*losingNode, *Service) {
	members := []*raftlogv1.StoredMember{stored("n1"), stored("n2"), stored("n3")}
	n := &losingNode{clockNode: clockNode{table: New(&raftlogv1.Membership{Revision: 1, Level: 1, Replicas: 3, Members: members})}}
	n.leader = NewService(Config{Self: "n2", Ranges: 2}, ViewOf(n.table, 2), true, n)
	return n, NewService(Config{Self: "n1", Ranges: 2}, ViewOf(n.table, 2), true, n)
}

// TestLostChangeUndoesNothing checks that a change of the cluster whose answer was lost does not undo what others have
// changed since, that it is repeated if it was not made, and that it succeeds if it was.
func TestLostChangeUndoesNothing(t *testing.T) {
	change := func(c quoratev1.NodeChange) proto.Message {
		return &quoratev1.ChangeNodeRequest{Node: "n3", Change: c, Force: true}
	}
	drain, activate, leave := change(quoratev1.NodeChange_NODE_CHANGE_DRAIN), change(quoratev1.NodeChange_NODE_CHANGE_ACTIVATE), change(quoratev1.NodeChange_NODE_CHANGE_LEAVE)
	remove, drops := change(quoratev1.NodeChange_NODE_CHANGE_REMOVE), &raftlogv1.ChangeMembers{Change: dropMember("n3").Change}
	gone := func(t *Table) bool { return t.Member("n3") == nil }
	node := func(s State) func(*Table) bool {
		return func(t *Table) bool { return t.Member("n3").State == s }
	}
	tokens := func(n int) func(*Table) bool {
		return func(t *Table) bool { return len(t.Tokens()) == n }
	}
	noOther := &quoratev1.ListJoinTokensRequest{}
	for _, c := range []struct {
		what         string
		first, other proto.Message // of another operator, after the change was carried out
		dropped      bool
		unknown      bool
		want         func(*Table) bool
	}{
		{"drained; another activates it", drain, activate, false, true, node(Active)},
		{"drained; another lets it leave", drain, leave, false, true, node(Leaving)},
		{"drained; another drains it too", drain, drain, false, false, node(Draining)},
		{"drained", drain, noOther, false, false, node(Draining)},
		{"drained, and lost before it", drain, noOther, true, false, node(Draining)},
		{"it leaves; another activates it", leave, activate, false, true, node(Active)},
		{"it leaves, and has left", leave, drops, false, false, gone},
		{"it is removed, and has left", remove, drops, false, false, gone},
		{"drained; another lets it leave, and it has left", drain, drops, false, true, gone},
		{"a token is created; another revokes it", &quoratev1.CreateJoinTokenRequest{}, &quoratev1.RevokeJoinTokenRequest{}, false, true, tokens(0)},
		{"a token is created", &quoratev1.CreateJoinTokenRequest{}, noOther, false, false, tokens(1)},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, s := newLosingNode()
				n.dropped = c.dropped
				n.meanwhile = func() {
					if r, ok := c.other.(*raftlogv1.ChangeMembers); ok { // of the leader itself
						if _, err := n.leader.commitMembers(t.Context(), n.table, r); err != nil {
							t.Error(err)
						}
						return
					}
					if r, ok := c.other.(*quoratev1.RevokeJoinTokenRequest); ok {
						r.Id = n.table.Tokens()[0].Id
					}
					if _, err := n.leader.carryOutChange(t.Context(), &caller{by: "other"}, c.other); err != nil {
						t.Error(err)
					}
				}
				_, err := s.Change(t.Context(), "me", c.first)
				if unknown := (*quota.UnknownOutcomeError)(nil); errors.As(err, &unknown) != c.unknown || err != nil && !c.unknown {
					t.Errorf("%v; want an UnknownOutcomeError: %v", err, c.unknown)
				}
				if !c.want(n.table) {
					t.Errorf("afterwards: %v", n.table.Proto())
				}
			})
		})
	}
}

// TestSlowTryChangesNothingLater checks that the first try of a change, which is still running when its repetition has
// made the change, does not make it again after others have changed it.
func TestSlowTryChangesNothingLater(t *testing.T) {
	change := func(c quoratev1.NodeChange) proto.Message {
		return &quoratev1.ChangeNodeRequest{Node: "n3", Change: c, Force: true}
	}
	drain, activate, leave := change(quoratev1.NodeChange_NODE_CHANGE_DRAIN), change(quoratev1.NodeChange_NODE_CHANGE_ACTIVATE), change(quoratev1.NodeChange_NODE_CHANGE_LEAVE)
	for _, c := range []struct {
		what         string
		first, other proto.Message // of another operator, after the repetition was carried out
	}{
		{"drained", drain, activate},
		{"it leaves", leave, activate},
		{"activated", activate, drain},
		{"a token is created", &quoratev1.CreateJoinTokenRequest{}, &quoratev1.RevokeJoinTokenRequest{}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, s := newLosingNode()
				if c.what == "activated" {
					drained := *n.table.Member("n3")
					drained.State = Draining
					n.table = after(t, n.table, putMember(&drained))
				}
				n.slow = true
				if _, err := s.Change(t.Context(), "me", c.first); err != nil {
					t.Fatal(err)
				}
				if r, ok := c.other.(*quoratev1.RevokeJoinTokenRequest); ok {
					r.Id = n.table.Tokens()[0].Id
				}
				if _, err := n.leader.carryOutChange(t.Context(), &caller{by: "other"}, c.other); err != nil {
					t.Fatal(err)
				}
				before := n.table.Revision()
				n.late()
				if n.table.Revision() != before {
					t.Errorf("the late try makes the membership %v", n.table.Proto())
				}
			})
		})
	}
}

// laggingNode is a node whose membership is not the leader's. Others change that before a call of this node arrives.
type laggingNode struct {
	*losingNode
	own    *Table
	others int // changes that others still make
	calls  int
}

func (n *laggingNode) Table() *Table { return n.own }

func (n *laggingNode) CallSlow(ctx context.Context, _ quota.NodeID, c *peerv1.Call) (*peerv1.Call, error) {
	if n.calls++; n.others > 0 {
		n.others--
		if _, err := n.leader.carryOutChange(ctx, &caller{by: "other", seed: pki.NewSeed()}, &quoratev1.CreateJoinTokenRequest{}); err != nil {
			return nil, err
		}
	}
	return n.carryOut(ctx, c)
}

// TestContendedChange checks that a change that others forestall is tried again at once with the leader's revision, and
// with pauses if that is not a newer one.
func TestContendedChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drain := &quoratev1.ChangeNodeRequest{Node: "n3", Change: quoratev1.NodeChange_NODE_CHANGE_DRAIN, Force: true}
		leads, _ := newLosingNode()
		n := &laggingNode{losingNode: leads, own: leads.table, others: 20}
		s := NewService(Config{Self: "n1", Ranges: 2}, ViewOf(n.own, 2), true, n)
		began := time.Now()
		if _, err := s.Change(t.Context(), "me", drain); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 0 || n.calls != 21 || leads.table.Member("n3").State != Draining {
			t.Errorf("%d calls and pauses of %v; want 21 and none", n.calls, took)
		}

		newer := proto.CloneOf(n.own.Proto())
		newer.Revision = 100
		n.own, n.calls = New(newer), 0
		_, err := s.Change(t.Context(), "me", drain)
		if late := (*quota.NoLeaderError)(nil); !errors.As(err, &late) || n.calls > int(changeLimit/retryPause)+1 {
			t.Errorf("of a leader that lags: %v after %d calls", err, n.calls)
		}
	})
}

// TestLostJoinIsAuthorized checks that a join whose answer was lost gets nothing for the id of an old join alone, and that
// the entry without a change has none, whatever a node sends.
func TestLostJoinIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := stored("n3")
		old.JoinId = []byte("id")
		members := []*raftlogv1.StoredMember{stored("n1"), stored("n2"), old}
		n := &losingNode{clockNode: clockNode{table: New(&raftlogv1.Membership{Revision: 1, Level: 1, Replicas: 3, Members: members})}}
		s := NewService(Config{Self: "n1", Ranges: 2}, ViewOf(n.table, 2), true, n)
		n.leader = NewService(Config{Self: "n2", Ranges: 2}, ViewOf(n.table, 2), true, n)
		n.meanwhile = func() {
			if _, err := n.leader.carryOutChange(t.Context(), &caller{by: "other"}, &quoratev1.CreateJoinTokenRequest{}); err != nil {
				t.Error(err)
			}
		}
		res, err := s.Change(t.Context(), "", &quoratev1.JoinRequest{Node: "n3", JoinId: old.JoinId, Level: 1})
		if refusal := (*Error)(nil); !errors.As(err, &refusal) || refusal.Kind != Denied {
			t.Errorf("%v, %v", res, err)
		}
		before := n.table.Revision()
		raises := &raftlogv1.ChangeMembers{Revision: before, Change: &raftlogv1.ChangeMembers_Level{Level: &raftlogv1.RaiseLevel{Level: 2}}}
		if m, err := n.leader.barrier(t.Context(), nil, raises); err != nil || m.GetRevision() != before || n.table.Revision() != before {
			t.Errorf("a barrier changes the membership: %v, %v", m, err)
		}
	})
}

// TestTokensByTheClustersTime checks that join tokens live as long as asked by the cluster's time, however
// wrong the wall clock of the meta group's leader is: the log and the next leader go by that time.
func TestTokensByTheClustersTime(t *testing.T) {
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour, 0} {
		n := &clockNode{table: New(&raftlogv1.Membership{Revision: 1, Level: 1, Members: []*raftlogv1.StoredMember{stored("n1")}}), ahead: ahead}
		s := NewService(Config{Self: "n1"}, ViewOf(n.table, 1), true, n)
		made, err := s.createToken(t.Context(), &caller{seed: pki.NewSeed()}, &quoratev1.CreateJoinTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for age, admits := range map[time.Duration]bool{0: true, 59 * time.Minute: true, 61 * time.Minute: false} {
			later := *n
			later.ahead += age
			s := NewService(Config{Self: "n1"}, ViewOf(n.table, 1), true, &later)
			list, err := s.listTokens(t.Context(), nil, nil)
			if err != nil || (len(list.GetTokens()) == 1) != admits {
				t.Errorf("%v ahead, after %v the tokens are %v, %v", ahead, age, list.GetTokens(), err)
			}
			at := time.Unix(0, int64(later.Now()))
			id, err := authorizeJoin(n.table, "", &quoratev1.JoinRequest{Node: "n4", Level: 1, Token: made.GetToken()}, at)
			if (err == nil) != admits {
				t.Errorf("%v ahead, after %v the leader says %v", ahead, age, err)
			}
			if _, err = try(t, n.table, add(joins("n4"), cmp.Or(id, made.GetInfo().GetId())), at.UnixNano()); (err == nil) != admits {
				t.Errorf("%v ahead, after %v the log says %v", ahead, age, err)
			}
		}
	}
}

// TestLongNodeIDs checks that a node does not become a member if calls with its certificate would be refused, and does not
// use its token up.
func TestLongNodeIDs(t *testing.T) {
	for length, want := range map[int]string{
		123: "peer_address", // refused later
		124: "node: is 124 bytes; at most 123, so that node:NAME has at most 128",
	} {
		n := &clockNode{table: New(&raftlogv1.Membership{Revision: 1, Level: 1, Members: []*raftlogv1.StoredMember{stored("n1")}})}
		s := NewService(Config{Self: "n1"}, ViewOf(n.table, 1), true, n)
		made, err := s.createToken(t.Context(), &caller{seed: pki.NewSeed()}, &quoratev1.CreateJoinTokenRequest{})
		if err != nil {
			t.Fatal(err)
		}
		before := n.table.Revision()
		_, err = s.join(t.Context(), &caller{}, &quoratev1.JoinRequest{Node: strings.Repeat("x", length), Level: 1, Token: made.GetToken(), Csr: []byte{1}})
		if err == nil || !strings.HasPrefix(err.Error(), want) || n.table.Revision() != before {
			t.Errorf("%d bytes: %v, and %d changes", length, err, n.table.Revision()-before)
		}
	}
}
