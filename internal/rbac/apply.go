package rbac

import (
	"fmt"
	"slices"

	raftlogv1 "github.com/quorate/quorate/api/gen/quorate/raftlog/v1"
	"github.com/quorate/quorate/internal/quota"
)

// Result is the outcome of a change.
type Result struct {
	Changed  bool
	Revision uint64 // of the table after the change
	Err      error  // why nothing was changed
}

// Apply returns the table after a change. It is idempotent.
func (t *Table) Apply(c *raftlogv1.ChangeSecurity) (*Table, Result) {
	next, err := t.apply(c)
	if err != nil || next == nil {
		return t, Result{Revision: t.revision, Err: err}
	}
	next.revision = t.revision + 1
	return next, Result{Changed: true, Revision: next.revision}
}

// apply returns nil if nothing changes.
func (t *Table) apply(c *raftlogv1.ChangeSecurity) (*Table, error) {
	switch b := c.GetChange().(type) {
	case *raftlogv1.ChangeSecurity_SetBinding:
		return t.set(decodeBinding(b.SetBinding))
	case *raftlogv1.ChangeSecurity_DeleteBinding:
		return t.unset(decodeBinding(b.DeleteBinding))
	case *raftlogv1.ChangeSecurity_AddToken:
		return t.addToken(b.AddToken, quota.Time(c.GetAtUnixNanos()))
	case *raftlogv1.ChangeSecurity_RevokeToken:
		return t.revoke(b.RevokeToken)
	}
	return nil, nil
}

func (t *Table) set(b Binding) (*Table, error) {
	if err := b.wellFormed(); err != nil {
		return nil, err
	}
	i, there := t.findBinding(&b)
	if there && slices.Equal(t.bindings[i].Permissions, b.Permissions) {
		return nil, nil // By and At stay those of the first change
	}
	if !t.Room(&b) {
		return nil, fmt.Errorf("there are %d bindings; at most %d: give roles to groups, or take some away", len(t.bindings), MaxBindings)
	}
	return t.withBinding(b).indexed(), nil
}

func (t *Table) unset(b Binding) (*Table, error) {
	i, there := t.findBinding(&b)
	if !there {
		return nil, nil
	}
	next := *t
	next.bindings = slices.Delete(slices.Clone(t.bindings), i, i+1)
	return next.indexed(), nil
}

// addToken removes expired tokens if the table is full.
func (t *Table) addToken(s *raftlogv1.StoredBearer, now quota.Time) (*Table, error) {
	tok, err := decodeToken(s)
	if err != nil {
		return nil, err
	}
	next := *t
	next.tokens = slices.Clone(t.tokens)
	if len(next.tokens) >= MaxTokens {
		next.tokens = slices.DeleteFunc(next.tokens, func(t Token) bool { return t.Expired(now) })
	}
	i, there := next.findToken(tok.ID)
	switch {
	case there && next.tokens[i] == tok:
		return nil, nil
	case there:
		return nil, fmt.Errorf("token id %q exists already", tok.ID)
	case len(next.tokens) >= MaxTokens:
		return nil, fmt.Errorf("there are %d tokens; at most %d: revoke some", len(next.tokens), MaxTokens)
	}
	next.tokens = slices.Insert(next.tokens, i, tok)
	return &next, nil
}

func (t *Table) revoke(id string) (*Table, error) {
	i, there := t.findToken(id)
	if !there {
		return nil, nil
	}
	next := *t
	next.tokens = slices.Delete(slices.Clone(t.tokens), i, i+1)
	return &next, nil
}
