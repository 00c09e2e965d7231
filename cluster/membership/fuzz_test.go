package membership

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
)

// FuzzApply makes changes from bytes, and applies them one after the other.
// Whatever the changes are, an applied change is one revision; a table that is
// stored and read again is equal; members, placements and tokens are sorted and
// unique, and name only what exists; and no token admits more nodes than it allows.
func FuzzApply(f *testing.F) {
	f.Add([]byte{0, 3, 6, 2, 1, 2, 1, 1, 2, 2, 1, 2, 3, 1, 3, 2, 0})
	f.Add([]byte{0, 7, 4, 1, 6, 1, 2, 1, 5, 1, 3, 1, 3, 2, 8, 1, 9, 1, 7, 3})
	f.Add([]byte{1, 1, 0, 1, 6, 9, 1, 2, 9, 1, 2, 9, 1, 3, 9, 250, 6, 9, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		table, uses := New(nil), map[string]int{}
		in := bytesOf(data)
		for at := int64(0); len(in) > 0; at++ {
			c := in.change(table)
			c.AtUnixNanos = at
			next, err := table.Apply(c)
			if err != nil {
				checkError(t, table, c, err)
				continue
			}
			checkTable(t, table, next)
			count(t, uses, table, next, c)
			table = next
		}
	})
}

// bytesOf holds the bytes from which changes are made.
type bytesOf []byte

func (b *bytesOf) below(n int) int {
	if len(*b) == 0 {
		return 0
	}
	v := int((*b)[0]) % n
	*b = (*b)[1:]
	return v
}

func (b *bytesOf) member() *raftlogv1.StoredMember {
	m := stored(fmt.Sprintf("n%d", b.below(6)))
	switch v := b.below(12); v {
	case 0: // without a join id
	case 1:
		m.Peer = "n1:7413"
	case 2:
		m.State = uint32(b.below(5))
	case 3:
		m.Id = ""
	default:
		m.JoinId = []byte{byte(v % 2)}
	}
	return m
}

func (b *bytesOf) placements() (list []*raftlogv1.StoredPlacement) {
	for range b.below(3) {
		p := &raftlogv1.StoredPlacement{Group: uint32(b.below(4)), Voters: []string{fmt.Sprintf("n%d", b.below(6))}}
		if v := b.below(8); v < 6 {
			p.Removed = []string{fmt.Sprintf("n%d", v)}
		}
		list = append(list, p)
	}
	return list
}

func (b *bytesOf) token() string { return fmt.Sprintf("t%d", b.below(4)) }

// stored returns a token that expires within a few changes, or has no uses.
func (b *bytesOf) stored() *raftlogv1.StoredJoinToken {
	return &raftlogv1.StoredJoinToken{Id: b.token(), Hash: []byte{1}, UsesLeft: uint32(b.below(4)), ExpiresUnixNanos: int64(b.below(40))}
}

func (b *bytesOf) change(t *Table) *raftlogv1.ChangeMembers {
	kinds := []func() *raftlogv1.ChangeMembers{
		func() *raftlogv1.ChangeMembers {
			c := seed()
			for range b.below(5) {
				c.GetSeed().Members = append(c.GetSeed().Members, b.member())
			}
			c.GetSeed().Placements = b.placements()
			for range b.below(3) {
				c.GetSeed().Tokens = append(c.GetSeed().Tokens, b.stored())
			}
			return c
		},
		func() *raftlogv1.ChangeMembers { return add(b.member(), b.token()) },
		func() *raftlogv1.ChangeMembers { return add(b.member(), "") },
		func() *raftlogv1.ChangeMembers { return changed(b.member()) },
		func() *raftlogv1.ChangeMembers { return dropMember(b.member().Id) },
		func() *raftlogv1.ChangeMembers { return placed(b.placements()...) },
		func() *raftlogv1.ChangeMembers { return newToken(b.stored()) },
		func() *raftlogv1.ChangeMembers { return dropToken(b.token()) },
		func() *raftlogv1.ChangeMembers { return raise(uint32(b.below(4))) },
		func() *raftlogv1.ChangeMembers { return authority(b.token()) },
	}
	c := kinds[b.below(len(kinds))]()
	c.Revision = t.Revision()
	if v := b.below(16); v < 2 {
		c.Revision += uint64(2*v - 1) // one behind or one ahead
	}
	return c
}

func checkError(t *testing.T, table *Table, c *raftlogv1.ChangeMembers, err error) {
	t.Helper()
	if stale := c.Revision != table.Revision(); errors.Is(err, ErrStale) != stale {
		t.Fatalf("%v from revision %d: %v", c, table.Revision(), err)
	}
	var refused *Error
	if !errors.Is(err, ErrStale) && (!errors.As(err, &refused) || refused.Text == "") {
		t.Fatalf("%v: %v", c, err)
	}
}

func checkTable(t *testing.T, before, table *Table) {
	t.Helper()
	pb := table.Proto()
	if table.Revision() != before.Revision()+1 || table.Level() < before.Level() || !table.Seeded() {
		t.Fatalf("%v\nbecame\n%v", before.Proto(), pb)
	}
	if again := New(pb); !proto.Equal(again.Proto(), pb) || !slices.Equal(again.IDs(), table.IDs()) {
		t.Fatalf("%v\nread again\n%v", pb, again.Proto())
	}
	if len(table.IDs()) != len(pb.Members) {
		t.Fatalf("%v: %d members", table.IDs(), len(pb.Members))
	}
	checkRising(t, "members", pb.Members, func(m *raftlogv1.StoredMember) string { return m.Id })
	checkRising(t, "tokens", pb.Tokens, func(k *raftlogv1.StoredJoinToken) string { return k.Id })
	checkRising(t, "placements", pb.Placements, func(p *raftlogv1.StoredPlacement) string { return fmt.Sprintf("%03d", p.Group) })
	for _, m := range pb.Members {
		if got := table.Member(DecodeMember(m).ID); got == nil || !proto.Equal(got.Encode(), m) {
			t.Fatalf("member %v is %+v", m, got)
		}
	}
	for _, p := range pb.Placements {
		for _, id := range slices.Concat(p.Voters, p.Removed) {
			if !hasMember(pb, id) {
				t.Fatalf("%v is placed on a stranger, of %v", p, table.IDs())
			}
		}
	}
}

func checkRising[T any](t *testing.T, what string, all []T, key func(T) string) {
	t.Helper()
	for i := 1; i < len(all); i++ {
		if key(all[i-1]) >= key(all[i]) {
			t.Fatalf("%s: %v comes before %v", what, all[i-1], all[i])
		}
	}
}

// count tracks the uses of every token: each node that joins with a token takes one.
func count(t *testing.T, uses map[string]int, before, table *Table, c *raftlogv1.ChangeMembers) {
	t.Helper()
	for _, k := range table.Tokens() {
		if before.Token(k.Id) == nil || c.GetToken().GetId() == k.Id {
			uses[k.Id] = int(k.UsesLeft) // a new token, perhaps with the id of an old one
		}
	}
	if id := c.GetAdd().GetToken(); id != "" && len(table.IDs()) > len(before.IDs()) {
		uses[id]--
	}
	for id, left := range uses {
		k := table.Token(id)
		if left < 0 || k != nil && (int(k.UsesLeft) != left || left == 0) {
			t.Fatalf("token %s has %d uses, of which %d should be left", id, k.GetUsesLeft(), left)
		}
	}
}
