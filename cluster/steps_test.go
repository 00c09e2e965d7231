package cluster

import (
	"testing"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/membership"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// TestNextOfMeta: a new member that is not connected yet keeps the meta group from being as wanted, or nobody
// would look at it again for lookAgain; a member that leaves does not.
func TestNextOfMeta(t *testing.T) {
	stored := func(states ...membership.State) *membership.Table {
		m := &raftlogv1.Membership{Revision: 1}
		for i, s := range states {
			m.Members = append(m.Members, &raftlogv1.StoredMember{Id: string(rune('a' + i)), Peer: "h:1", State: uint32(s)})
		}
		return membership.New(m)
	}
	want := shard.Placement{Voters: []quota.NodeID{"a"}}
	for name, c := range map[string]struct {
		table *membership.Table
		alive []quota.NodeID
		want  string
	}{
		"connected":     {stored(membership.Active, membership.Active), []quota.NodeID{"a", "b"}, "add non-voter b: it is a new member"},
		"not connected": {stored(membership.Active, membership.Active), []quota.NodeID{"a"}, "wait b: a new member, it is not connected yet"},
		"one of two":    {stored(membership.Active, membership.Active, membership.Active), []quota.NodeID{"a", "c"}, "add non-voter c: it is a new member"},
		"leaves":        {stored(membership.Active, membership.Leaving), []quota.NodeID{"a"}, "done: as wanted"},
	} {
		is := shard.Actual{Leader: "a", Voters: []quota.NodeID{"a"}, Ready: map[quota.NodeID]bool{"a": true}, Alive: map[quota.NodeID]bool{}}
		for _, id := range c.alive {
			is.Alive[id] = true
		}
		if got := next(c.table, metaGroup, want, is).String(); got != c.want {
			t.Errorf("%s: %s; want %s", name, got, c.want)
		}
	}
}
