package membership

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/cluster/raftgroup"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Bounds of a membership.
const (
	MaxMembers  = 256
	MaxTokens   = 1000
	MaxRemoved  = 1024 // removed nodes to remember
	MaxAddress  = 255 + len(":65535")
	MaxJoinID   = 64   // bytes
	MaxTrusts   = 64   // certificates of a trust bundle
	MaxIdentity = 1024 // bytes of the identity that created a join token
)

// Level is the feature level of this software. Nodes propose the log entries that a level
// introduces once every member has that level.
const Level = 1

// State is the state of a member that operators ask for.
type State uint8

// The states, with the numbers of quorate.v1.NodeState.
const (
	Active   State = 1 // holds replicas and leads
	Draining State = 2 // keeps its replicas and leads nothing
	Leaving  State = 3 // gives its replicas away, then leaves the cluster
)

// String returns the word that users see for the state.
func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Draining:
		return "draining"
	case Leaving:
		return "leaving"
	}
	return "unknown"
}

// Member is one node of the cluster.
type Member struct {
	ID               quota.NodeID
	Peer, GRPC, HTTP string // addresses
	Zone             string
	Version          string // of its software
	Level            uint32
	State            State
	Dead             bool      // nothing waits for it; its replicas move to other nodes, if there are any
	Joined           time.Time // zero for a member of the first membership
	JoinID           string    // of the join that made it a member
	Trusts           []string  // fingerprints of authorities that it trusts
	SignedBy         string    // fingerprint of the authority that signed its certificate
	// First identifies the member's data by the incarnation of the first process that used them. It
	// is 0 for data older than this field, and for a joined member that has not announced itself.
	First quota.Incarnation
}

// Node returns the member as the planner of placements sees it.
func (m *Member) Node() shard.Node {
	n := shard.Node{ID: m.ID, Zone: m.Zone, State: shard.Active}
	switch {
	case m.State == Leaving:
		n.State = shard.Leaving
	case m.Dead:
		n.State = shard.Dead
	case m.State == Draining:
		n.State = shard.Draining
	}
	return n
}

// Table is an immutable membership. The zero value is the state before the cluster has
// a membership.
type Table struct {
	pb         raftlogv1.Membership
	byID       map[quota.NodeID]*Member
	order      []quota.NodeID
	placements map[uint32]shard.Placement // by group
}

// New returns the table of a stored membership. It takes ownership of pb.
func New(pb *raftlogv1.Membership) *Table {
	t := &Table{byID: make(map[quota.NodeID]*Member, len(pb.GetMembers())), placements: make(map[uint32]shard.Placement, len(pb.GetPlacements()))}
	proto.Merge(&t.pb, pb)
	for _, m := range t.pb.Members {
		t.byID[quota.NodeID(m.Id)] = DecodeMember(m)
	}
	t.order = slices.Sorted(maps.Keys(t.byID))
	for _, p := range t.pb.Placements {
		t.placements[p.Group] = DecodePlacement(p)
	}
	return t
}

// Proto returns the stored form. The caller must not modify it.
func (t *Table) Proto() *raftlogv1.Membership { return &t.pb }

// Revision returns the number of changes so far.
func (t *Table) Revision() uint64 { return t.pb.Revision }

// Seeded reports whether there is a membership.
func (t *Table) Seeded() bool { return len(t.byID) > 0 }

// Level returns the cluster's feature level.
func (t *Table) Level() uint32 { return t.pb.Level }

// Replicas returns the desired number of replicas of each range.
func (t *Table) Replicas() int { return int(t.pb.Replicas) }

// IDs returns the names of all members, sorted. The caller must not modify the slice.
func (t *Table) IDs() []quota.NodeID { return t.order }

// Member returns the member of a name, or nil. The caller must not modify it.
func (t *Table) Member(id quota.NodeID) *Member { return t.byID[id] }

// Nodes returns the members as the planner of placements sees them.
func (t *Table) Nodes() []shard.Node {
	out := make([]shard.Node, 0, len(t.order))
	for _, id := range t.order {
		out = append(out, t.byID[id].Node())
	}
	return out
}

// Placement returns the desired placement of a group; empty if it has none. The caller must not modify it.
func (t *Table) Placement(group uint32) shard.Placement { return t.placements[group] }

// Ranges returns the desired placement of each range.
func (t *Table) Ranges(ranges int) []shard.Placement {
	out := make([]shard.Placement, ranges)
	for r := range out {
		out[r] = t.Placement(raftgroup.OfRange(quota.RangeID(r)))
	}
	return out
}

// JoinedBefore returns the number of members that joined before at.
func (t *Table) JoinedBefore(at time.Time) (count int) {
	for _, m := range t.byID {
		if m.Joined.Before(at) {
			count++
		}
	}
	return count
}

// Holds reports whether any placement names a member.
func (t *Table) Holds(id quota.NodeID) bool {
	return slices.ContainsFunc(t.pb.Placements, func(p *raftlogv1.StoredPlacement) bool {
		return slices.Contains(p.Voters, string(id)) || slices.Contains(p.Removed, string(id))
	})
}

// NeedsToken returns an error if a node of that name was removed: its old credentials, such as a
// certificate, no longer admit it.
func (t *Table) NeedsToken(id quota.NodeID) error {
	if r := t.removal(id); r != nil {
		return refuse(Denied, "node %q: was removed from the cluster at %s, so its certificate does not let it join; \"quorate join-token create\" makes a token",
			id, time.Unix(0, r.AtUnixNanos).UTC().Format(time.RFC3339))
	}
	return nil
}

// removal returns the record of a node that has left or was removed and has not joined again, or nil.
func (t *Table) removal(id quota.NodeID) *raftlogv1.RemovedMember {
	for _, r := range t.pb.Removed {
		if r.Id == string(id) {
			return r
		}
	}
	return nil
}

// Token returns the join token of an id, or nil. The caller must not modify it.
func (t *Table) Token(id string) *raftlogv1.StoredJoinToken {
	i, ok := t.findToken(id)
	if !ok {
		return nil
	}
	return t.pb.Tokens[i]
}

func (t *Table) findToken(id string) (int, bool) {
	return slices.BinarySearchFunc(t.pb.Tokens, id, func(e *raftlogv1.StoredJoinToken, id string) int {
		switch {
		case e.Id < id:
			return -1
		case e.Id > id:
			return 1
		}
		return 0
	})
}

// Tokens returns the join tokens, sorted by id. The caller must not modify them.
func (t *Table) Tokens() []*raftlogv1.StoredJoinToken { return t.pb.Tokens }

// Authority returns the authority that signs certificates, or nil if the cluster has none of its
// own. The caller must not modify it.
func (t *Table) Authority() *raftlogv1.StoredAuthority { return t.pb.Authority }

// Public returns the stored form without secrets, for a node's own copy of the
// address book and the placements.
func (t *Table) Public() *raftlogv1.Membership {
	list := make([]*raftlogv1.StoredMember, len(t.pb.Members))
	for i, m := range t.pb.Members {
		list[i] = proto.CloneOf(m)
		list[i].JoinId = nil
	}
	return &raftlogv1.Membership{
		Revision: t.pb.Revision, Members: list, Placements: t.pb.Placements, Level: t.pb.Level, Replicas: t.pb.Replicas,
	}
}
