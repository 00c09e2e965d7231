package rbac

import (
	"fmt"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// EncodeBinding returns the stored form of a binding.
func EncodeBinding(b *Binding) *raftlogv1.StoredBinding {
	n := b.normal()
	return &raftlogv1.StoredBinding{Identity: n.Identity, Role: n.Role, Permissions: n.Permissions, Scope: string(n.Scope), By: n.By, AtUnixNanos: int64(n.At)}
}

func decodeBinding(s *raftlogv1.StoredBinding) Binding {
	b := Binding{Identity: s.GetIdentity(), Role: s.GetRole(), Permissions: s.GetPermissions(), Scope: Scope(s.GetScope()), By: s.GetBy(), At: quota.Time(s.GetAtUnixNanos())}
	return b.normal()
}

// EncodeToken returns the stored form of a token.
func EncodeToken(t *Token) *raftlogv1.StoredBearer {
	return &raftlogv1.StoredBearer{
		Id: t.ID, Name: t.Name, Hash: t.Hash[:], ExpiresUnixNanos: int64(t.Expires), Comment: t.Comment, By: t.By, AtUnixNanos: int64(t.At),
	}
}

func decodeToken(s *raftlogv1.StoredBearer) (Token, error) {
	t := Token{ID: s.GetId(), Name: s.GetName(), Expires: quota.Time(s.GetExpiresUnixNanos()), Comment: s.GetComment(), By: s.GetBy(), At: quota.Time(s.GetAtUnixNanos())}
	if len(s.GetHash()) != hashSize {
		return t, fmt.Errorf("token: its hash is %d bytes; must be %d", len(s.GetHash()), hashSize)
	}
	copy(t.Hash[:], s.GetHash())
	err := t.Validate()
	return t, err
}

// Encode returns the snapshot form of the table, nil if it was never changed. It is the same on
// every replica.
func (t *Table) Encode() *raftlogv1.Security {
	if t.revision == 0 {
		return nil
	}
	out := &raftlogv1.Security{Revision: t.revision}
	for i := range t.bindings {
		out.Bindings = append(out.Bindings, EncodeBinding(&t.bindings[i]))
	}
	for i := range t.tokens {
		out.Tokens = append(out.Tokens, EncodeToken(&t.tokens[i]))
	}
	return out
}

// Decode returns the table of a snapshot; nil is the empty table.
func Decode(s *raftlogv1.Security) (*Table, error) {
	t := &Table{revision: s.GetRevision()}
	for i, e := range s.GetBindings() {
		b := decodeBinding(e)
		if err := b.wellFormed(); err != nil {
			return nil, fmt.Errorf("binding %d: %w", i, err)
		}
		if i > 0 && compareBindings(&t.bindings[i-1], &b) >= 0 {
			return nil, fmt.Errorf("binding %d of %q comes after %q", i, b.Identity, t.bindings[i-1].Identity)
		}
		t.bindings = append(t.bindings, b)
	}
	for i, e := range s.GetTokens() {
		tok, err := decodeToken(e)
		if err != nil {
			return nil, fmt.Errorf("token %d: %w", i, err)
		}
		if i > 0 && t.tokens[i-1].ID >= tok.ID {
			return nil, fmt.Errorf("token %q comes after %q", tok.ID, t.tokens[i-1].ID)
		}
		t.tokens = append(t.tokens, tok)
	}
	if t.revision == 0 && len(t.bindings)+len(t.tokens) > 0 {
		return nil, fmt.Errorf("%d bindings and %d tokens without a change", len(t.bindings), len(t.tokens))
	}
	return t.indexed(), nil
}
