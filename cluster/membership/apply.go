package membership

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Apply returns the membership after a change, or an error: ErrStale or an
// *Error. It modifies neither the table nor the change.
func (t *Table) Apply(c *raftlogv1.ChangeMembers) (*Table, error) {
	if c.GetRevision() != t.Revision() {
		return nil, ErrStale
	}
	next := proto.CloneOf(&t.pb)
	if err := t.change(next, c); err != nil {
		return nil, err
	}
	next.Revision++
	return New(next), nil
}

func (t *Table) change(next *raftlogv1.Membership, c *raftlogv1.ChangeMembers) error {
	if c.GetSeed() == nil && !t.Seeded() {
		return refuse(Forbidden, "the cluster has no membership yet")
	}
	switch b := c.GetChange().(type) {
	case *raftlogv1.ChangeMembers_Seed:
		return t.seed(next, b.Seed, c.GetAtUnixNanos())
	case *raftlogv1.ChangeMembers_Add:
		return t.add(next, b.Add, c.GetAtUnixNanos())
	case *raftlogv1.ChangeMembers_Put:
		return put(next, b.Put)
	case *raftlogv1.ChangeMembers_Drop:
		return t.drop(next, b.Drop.GetId(), c.GetAtUnixNanos())
	case *raftlogv1.ChangeMembers_Place:
		return place(next, b.Place.GetPlacements())
	case *raftlogv1.ChangeMembers_Level:
		if b.Level.GetLevel() <= next.Level {
			return refuse(Invalid, "feature level %d: the cluster has %d already", b.Level.GetLevel(), next.Level)
		}
		next.Level = b.Level.GetLevel()
		return nil
	case *raftlogv1.ChangeMembers_Token:
		return addToken(next, b.Token, c.GetAtUnixNanos())
	case *raftlogv1.ChangeMembers_DropToken:
		i, ok := t.findToken(b.DropToken.GetId())
		if !ok {
			return refuse(Missing, "unknown join token %q", b.DropToken.GetId())
		}
		next.Tokens = slices.Delete(next.Tokens, i, i+1)
		return nil
	case *raftlogv1.ChangeMembers_Authority:
		next.Authority = proto.CloneOf(b.Authority)
		return nil
	}
	return refuse(Invalid, "this version does not know the change")
}

func (t *Table) seed(next, seed *raftlogv1.Membership, at int64) error {
	if t.Seeded() {
		return refuse(Exists, "the cluster has a membership already")
	}
	if len(seed.GetMembers()) == 0 || len(seed.GetMembers()) > MaxMembers {
		return refuse(Invalid, "members: %d; must be 1 to %d", len(seed.GetMembers()), MaxMembers)
	}
	proto.Reset(next)
	next.Revision, next.Level, next.Replicas, next.Authority = t.Revision(), seed.Level, seed.Replicas, proto.CloneOf(seed.Authority)
	for _, m := range seed.Members {
		if err := check(m); err != nil {
			return err
		}
		if hasMember(next, m.Id) {
			return refuse(Invalid, "node %q: is a duplicate", m.Id)
		}
		next.Members = append(next.Members, proto.CloneOf(m))
	}
	sortMembers(next)
	if err := place(next, seed.Placements); err != nil {
		return err
	}
	for _, token := range seed.Tokens {
		if err := addToken(next, token, at); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) add(next *raftlogv1.Membership, add *raftlogv1.AddMember, at int64) error {
	m := add.GetMember()
	if err := check(m); err != nil {
		return err
	}
	if have := t.byID[quota.NodeID(m.GetId())]; have != nil {
		if have.JoinID != "" && have.JoinID == string(m.GetJoinId()) {
			return nil // a repetition of the same join
		}
		if have.State == Leaving {
			return refuse(Later, "node %q: a node of this name is leaving the cluster; the name is free when it has left", m.GetId())
		}
		return refuse(Exists, "node %q: a node of that name is a member already; choose another name, or remove that one first", m.GetId())
	}
	for _, o := range next.Members {
		if o.Peer == m.GetPeer() {
			return refuse(Exists, "peer address %s: node %q has it", m.GetPeer(), o.Id)
		}
	}
	if len(next.Members) >= MaxMembers {
		return refuse(Full, "the cluster already has %d members, the maximum", MaxMembers)
	}
	if id := add.GetToken(); id != "" {
		if err := t.useToken(next, id, at); err != nil {
			return err
		}
	} else if err := t.NeedsToken(quota.NodeID(m.GetId())); err != nil {
		return err
	}
	next.Removed = slices.DeleteFunc(next.Removed, func(r *raftlogv1.RemovedMember) bool { return r.Id == m.GetId() })
	next.Members = append(next.Members, proto.CloneOf(m))
	sortMembers(next)
	return nil
}

func (t *Table) useToken(next *raftlogv1.Membership, id string, at int64) error {
	i, ok := t.findToken(id)
	switch {
	case !ok:
		return refuse(Denied, "join token %s: unknown to this cluster: used up, revoked, or of another cluster", id)
	case next.Tokens[i].ExpiresUnixNanos <= at:
		return refuse(Denied, "join token %s: it has expired", id)
	}
	if next.Tokens[i].UsesLeft--; next.Tokens[i].UsesLeft == 0 {
		next.Tokens = slices.Delete(next.Tokens, i, i+1)
	}
	return nil
}

func addToken(next *raftlogv1.Membership, token *raftlogv1.StoredJoinToken, at int64) error {
	// Delete expired tokens to make room; nothing else deletes them.
	next.Tokens = slices.DeleteFunc(next.Tokens, func(o *raftlogv1.StoredJoinToken) bool { return o.ExpiresUnixNanos <= at })
	if err := checkToken(token); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(next.Tokens, func(o *raftlogv1.StoredJoinToken) bool { return o.Id == token.Id }):
		return refuse(Exists, "join token %s: already exists", token.Id)
	case len(next.Tokens) >= MaxTokens:
		return refuse(Full, "the cluster already has %d join tokens, the maximum; revoke some", MaxTokens)
	}
	next.Tokens = append(next.Tokens, proto.CloneOf(token))
	slices.SortFunc(next.Tokens, func(a, b *raftlogv1.StoredJoinToken) int { return strings.Compare(a.Id, b.Id) })
	return nil
}

func put(next *raftlogv1.Membership, m *raftlogv1.StoredMember) error {
	if err := check(m); err != nil {
		return err
	}
	for i, have := range next.Members {
		if have.Id == m.GetId() {
			next.Members[i] = proto.CloneOf(m)
			return nil
		}
	}
	return missing(m.GetId())
}

func missing(id string) error {
	return refuse(Missing, "unknown node %q", id)
}

func (t *Table) drop(next *raftlogv1.Membership, id string, at int64) error {
	switch {
	case t.byID[quota.NodeID(id)] == nil:
		return missing(id)
	case t.Holds(quota.NodeID(id)):
		return refuse(Forbidden, "node %q: still holds replicas", id)
	case len(next.Members) == 1:
		return refuse(Forbidden, "node %q: is the last member", id)
	}
	next.Members = slices.DeleteFunc(next.Members, func(m *raftlogv1.StoredMember) bool { return m.Id == id })
	for len(next.Removed) >= MaxRemoved { // forget the oldest removal
		oldest := slices.MinFunc(next.Removed, func(a, b *raftlogv1.RemovedMember) int { return cmp.Compare(a.AtUnixNanos, b.AtUnixNanos) })
		next.Removed = slices.DeleteFunc(next.Removed, func(r *raftlogv1.RemovedMember) bool { return r == oldest })
	}
	next.Removed = append(next.Removed, &raftlogv1.RemovedMember{Id: id, AtUnixNanos: at})
	slices.SortFunc(next.Removed, func(a, b *raftlogv1.RemovedMember) int { return strings.Compare(a.Id, b.Id) })
	return nil
}

func place(next *raftlogv1.Membership, list []*raftlogv1.StoredPlacement) error {
	for _, p := range list {
		if err := checkPlacement(next, p); err != nil {
			return err
		}
		i := slices.IndexFunc(next.Placements, func(o *raftlogv1.StoredPlacement) bool { return o.Group == p.Group })
		if i < 0 {
			next.Placements = append(next.Placements, proto.CloneOf(p))
			continue
		}
		next.Placements[i] = proto.CloneOf(p)
	}
	slices.SortFunc(next.Placements, func(a, b *raftlogv1.StoredPlacement) int { return int(a.Group) - int(b.Group) })
	return nil
}

func hasMember(pb *raftlogv1.Membership, id string) bool {
	return slices.ContainsFunc(pb.Members, func(m *raftlogv1.StoredMember) bool { return m.Id == id })
}

func sortMembers(pb *raftlogv1.Membership) {
	slices.SortFunc(pb.Members, func(a, b *raftlogv1.StoredMember) int { return strings.Compare(a.Id, b.Id) })
}
