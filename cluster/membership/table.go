package membership

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
	"github.com/quorate/quorate/shard"
)

// Bounds of a membership.
const (
	MaxMembers  = 256
	MaxTokens   = 1000
	MaxRemoved  = 1024 // nodes that were removed, of which that is remembered
	MaxAddress  = 255 + len(":65535")
	MaxJoinID   = 64   // bytes
	MaxTrusts   = 64   // certificates of a trust bundle
	MaxIdentity = 1024 // bytes of who made a join token
)

// Level is the feature level of this software: what it understands. Log entries
// of kinds that a level brings are proposed once every member has it.
const Level = 1

// State is what operators want of a member.
type State uint8

// The states, with the numbers of quorate.v1.NodeState.
const (
	Active   State = 1 // holds replicas and leads
	Draining State = 2 // keeps its replicas and leads nothing
	Leaving  State = 3 // gives its replicas away, and is out then
)

// String returns the word that users see.
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
	Dead             bool      // nothing waits for it; its replicas go to others, if there are any
	Joined           time.Time // zero if it was there from the first
	JoinID           string    // of the join that made it a member
	Trusts           []string  // fingerprints of authorities that it trusts
	SignedBy         string    // fingerprint of the one that signed its certificate
	// First is the first life of a process with its data; 0 for data from before that
	// was said, and for a member that has joined and not been heard of.
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

// Table is a membership. It is never changed; the zero value is the one before
// there was any.
type Table struct {
	pb    raftlogv1.Membership
	byID  map[quota.NodeID]*Member
	order []quota.NodeID
}

// New returns the table of a stored membership, which it takes over.
func New(pb *raftlogv1.Membership) *Table {
	t := &Table{byID: make(map[quota.NodeID]*Member, len(pb.GetMembers()))}
	proto.Merge(&t.pb, pb)
	for _, m := range t.pb.Members {
		t.byID[quota.NodeID(m.Id)] = decodeMember(m)
	}
	t.order = slices.Sorted(maps.Keys(t.byID))
	return t
}

// Proto returns the stored form, which is not to be changed.
func (t *Table) Proto() *raftlogv1.Membership { return &t.pb }

// Revision is how many changes there were.
func (t *Table) Revision() uint64 { return t.pb.Revision }

// Seeded says whether there is a membership.
func (t *Table) Seeded() bool { return len(t.byID) > 0 }

// Level is the cluster's feature level.
func (t *Table) Level() uint32 { return t.pb.Level }

// Replicas is how many are wanted of each range.
func (t *Table) Replicas() int { return int(t.pb.Replicas) }

// IDs returns the names of all members, sorted. It is not to be changed.
func (t *Table) IDs() []quota.NodeID { return t.order }

// Member returns a member, nil if there is none of that name. It is not to be
// changed.
func (t *Table) Member(id quota.NodeID) *Member { return t.byID[id] }

// Nodes returns the members as the planner of placements sees them.
func (t *Table) Nodes() []shard.Node {
	out := make([]shard.Node, 0, len(t.order))
	for _, id := range t.order {
		out = append(out, t.byID[id].Node())
	}
	return out
}

// Placements returns what is wanted of the groups: of the meta group, and of
// each range.
func (t *Table) Placements(ranges int) (meta shard.Placement, each []shard.Placement) {
	each = make([]shard.Placement, ranges)
	for _, p := range t.pb.Placements {
		switch g := int(p.Group); {
		case g == 0:
			meta = DecodePlacement(p)
		case g <= ranges:
			each[g-1] = DecodePlacement(p)
		}
	}
	return meta, each
}

// JoinedBefore returns how many members there are that had joined before a moment.
func (t *Table) JoinedBefore(at time.Time) (count int) {
	for _, m := range t.byID {
		if m.Joined.Before(at) {
			count++
		}
	}
	return count
}

// Holds says whether a member is named by any placement.
func (t *Table) Holds(id quota.NodeID) bool {
	return slices.ContainsFunc(t.pb.Placements, func(p *raftlogv1.StoredPlacement) bool {
		return slices.Contains(p.Voters, string(id)) || slices.Contains(p.Removed, string(id))
	})
}

// NeedsToken returns an error if a node was removed: what it had then, a certificate among it, does
// not let it in again.
func (t *Table) NeedsToken(id quota.NodeID) error {
	for _, r := range t.pb.Removed {
		if r.Id == string(id) {
			return refuse(Denied, "node %q: was removed from the cluster at %s, so its certificate does not let it join; \"quorate join-token create\" makes a token",
				id, time.Unix(0, r.AtUnixNanos).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// Token returns a join token, nil if there is none of that id. It is not to be
// changed.
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

// Tokens returns the join tokens by id. They are not to be changed.
func (t *Table) Tokens() []*raftlogv1.StoredJoinToken { return t.pb.Tokens }

// Authority returns what signs certificates, nil if the cluster has none of its
// own. It is not to be changed.
func (t *Table) Authority() *raftlogv1.StoredAuthority { return t.pb.Authority }

// Public returns the stored form without secrets: for a node's own copy of the
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
