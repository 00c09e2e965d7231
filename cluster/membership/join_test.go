package membership

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// TestTokenUses checks that a token with N uses admits exactly N different nodes, whatever is
// refused or repeated in between.
func TestTokenUses(t *testing.T) {
	for uses := range 5 {
		table := three(t)
		if uses > 0 {
			table = after(t, table, newToken(token("t", uint32(uses))))
		}
		in := 0
		for i := range 10 {
			m := joins(fmt.Sprintf("m%d", i))
			next, err := try(t, table, add(m, "t"), now)
			if err != nil {
				checkRefusal(t, err, Denied, "join token t: unknown to this cluster: used up, revoked, or of another cluster")
				continue
			}
			in++
			again := after(t, next, add(m, "t")) // the answer was lost
			if again.Revision() != next.Revision()+1 || again.Token("t").GetUsesLeft() != next.Token("t").GetUsesLeft() || len(again.IDs()) != len(next.IDs()) {
				t.Errorf("a repeated join: %v, then %v", next.Proto(), again.Proto())
			}
			if _, err := try(t, again, add(joins("n1"), "t"), now); err == nil {
				t.Error("n1 joined twice")
			}
			table = again
		}
		if in != uses || len(table.IDs()) != 3+uses {
			t.Errorf("%d uses let %d in: %v", uses, in, table.IDs())
		}
	}
}

// TestTokenExpiry checks that a token works until its expiry time, and no longer at that time.
func TestTokenExpiry(t *testing.T) {
	for after, want := range map[int64]string{0: "", 99: "", 100: "join token two: it has expired", 1 << 50: "join token two: it has expired"} {
		table, err := try(t, three(t), add(joins("n4"), "two"), now+after)
		if want == "" {
			if err != nil || table.Token("two").GetUsesLeft() != 1 {
				t.Errorf("after %d: %v", after, err)
			}
			continue
		}
		checkRefusal(t, err, Denied, want)
	}
}

// TestTokensFull checks that expired tokens make room, and others do not.
func TestTokensFull(t *testing.T) {
	table := three(t)
	for i := len(table.Tokens()); i < MaxTokens; i++ {
		table = after(t, table, newToken(token(fmt.Sprintf("t%d", i), 1)))
	}
	fresh := token("fresh", 1)
	fresh.ExpiresUnixNanos = now + 500
	_, err := try(t, table, newToken(fresh), now+99)
	checkRefusal(t, err, Full, "the cluster already has 1000 join tokens, the maximum; revoke some")
	if table, err = try(t, table, newToken(fresh), now+100); err != nil || len(table.Tokens()) != 1 || table.Token("fresh") == nil {
		t.Errorf("after all have expired: %v, %v", table.Tokens(), err)
	}
}

func TestMembersFull(t *testing.T) {
	list := make([]*raftlogv1.StoredMember, MaxMembers)
	for i := range list {
		list[i] = stored(fmt.Sprintf("n%d", i))
	}
	table := after(t, New(nil), seed(list...), newToken(token("t", 1)))
	_, err := try(t, table, add(joins("x"), "t"), now)
	checkRefusal(t, err, Full, "the cluster already has 256 members, the maximum")
	table = after(t, table, dropMember("n7"), add(joins("x"), "t"))
	if len(table.IDs()) != MaxMembers || table.Member("n7") != nil || table.Token("t") != nil {
		t.Errorf("%d members, token %v", len(table.IDs()), table.Token("t"))
	}
}

func TestLastMember(t *testing.T) {
	_, err := try(t, after(t, New(nil), seed(stored("n1"))), dropMember("n1"), now)
	checkRefusal(t, err, Forbidden, `node "n1": is the last member`)
}

// TestMember checks that a member is the same after it was stored and read.
func TestMember(t *testing.T) {
	full := &Member{
		ID: "n4", Peer: "a:1", GRPC: "a:2", HTTP: "a:3", Zone: "z", Version: "v1", Level: 7, State: Leaving, Dead: true,
		Joined: time.Unix(5, 6), JoinID: "\x00\xff", Trusts: []string{"x", "y"}, SignedBy: "x",
	}
	for _, m := range []*Member{full, {ID: "n4", Peer: "a:1", State: Active}} {
		table := after(t, three(t), add(m.Encode(), ""))
		if got := table.Member("n4"); !equalMembers(got, m) || !equalMembers(DecodeMember(m.Encode()), m) {
			t.Errorf("got  %+v\nwant %+v", got, m)
		}
	}
}

func equalMembers(a, b *Member) bool {
	return proto.Equal(a.Encode(), b.Encode()) && a.Joined.Equal(b.Joined)
}

// TestNodes checks how the planner sees a member in each state.
func TestNodes(t *testing.T) {
	for _, c := range []struct {
		state State
		dead  bool
		want  shard.NodeState
	}{
		{Active, false, shard.Active},
		{Draining, false, shard.Draining},
		{Leaving, false, shard.Leaving},
		{Active, true, shard.Dead},
		{Draining, true, shard.Dead},
		{Leaving, true, shard.Leaving}, // leaving takes precedence over dead
	} {
		m := Member{State: c.state, Dead: c.dead}
		if got := m.Node().State; got != c.want {
			t.Errorf("%v, dead %v: %v; want %v", c.state, c.dead, got, c.want)
		}
	}
	for s, want := range map[State]string{Active: "active", Draining: "draining", Leaving: "leaving", 0: "unknown", 4: "unknown"} {
		if s.String() != want {
			t.Errorf("state %d is %q; want %q", s, s, want)
		}
	}
	want := []shard.Node{{ID: "n1", State: shard.Active}, {ID: "n2", State: shard.Active}, {ID: "n3", State: shard.Active}}
	for i, n := range three(t).Nodes() {
		if n != want[i] {
			t.Errorf("node %d: %v; want %v", i, n, want[i])
		}
	}
}

// TestPlacement checks that a placement is the same after it was stored and read.
func TestPlacement(t *testing.T) {
	p := shard.Placement{Voters: []quota.NodeID{"n2", "n1"}, Removed: []quota.NodeID{"n3"}}
	table := after(t, three(t), placed(EncodePlacement(2, p)))
	meta, each := table.Placement(raftgroup.MetaGroup), table.Ranges(2)
	if fmt.Sprint(each[1]) != fmt.Sprint(p) || fmt.Sprint(meta.Voters) != "[n1]" {
		t.Errorf("meta %v, ranges %v", meta, each)
	}
	if each = table.Ranges(1); len(each) != 1 { // ignores a range that this cluster does not have
		t.Errorf("ranges %v", each)
	}
}

// TestPublic checks that a node's own copy contains no secret.
func TestPublic(t *testing.T) {
	table := after(t, three(t), authority("c"))
	want := proto.CloneOf(table.Proto())
	want.Tokens, want.Authority = nil, nil
	if got := table.Public(); !proto.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}
