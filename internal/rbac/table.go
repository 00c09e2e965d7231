package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table is the set of all bindings and tokens. It is immutable. The zero value is empty and grants
// nothing.
type Table struct {
	bindings []Binding // sorted, unique
	tokens   []Token   // sorted by ID, unique
	revision uint64    // number of changes that led to the table

	index map[string]*given // of bindings, by identity
}

// given holds the permissions of one identity.
type given struct {
	everywhere Set
	in         map[Scope]Set
	somewhere  Set // everywhere or in some scope
}

// NewTable returns a table with bindings only, such as those of settings. It returns an error if
// one of them is invalid.
func NewTable(bindings []Binding) (*Table, error) {
	t := &Table{}
	for i, b := range bindings {
		b = b.normal()
		if err := b.Validate(); err != nil {
			return nil, fmt.Errorf("[%d].%w", i, err)
		}
		t = t.withBinding(b)
	}
	return t.indexed(), nil
}

// Revision returns the number of changes that led to the table.
func (t *Table) Revision() uint64 { return t.revision }

// Bindings returns all bindings, sorted by identity, role and scope. Callers must not modify them.
func (t *Table) Bindings() []Binding { return t.bindings }

// Tokens returns all tokens, sorted by ID. Callers must not modify them.
func (t *Table) Tokens() []Token { return t.tokens }

// Token returns the token with the ID, or nil.
func (t *Table) Token(id string) *Token {
	if i, ok := t.findToken(id); ok {
		return &t.tokens[i]
	}
	return nil
}

// Has reports whether one of the identities has a permission in a scope. A permission granted
// everywhere applies in every scope.
func (t *Table) Has(who []string, p Permission, in Scope) bool {
	for _, id := range who {
		if g := t.index[id]; g != nil && (g.everywhere.Has(p) || in != Everywhere && g.in[in].Has(p)) {
			return true
		}
	}
	return false
}

// Somewhere reports whether one of the identities has a permission in any scope.
func (t *Table) Somewhere(who []string, p Permission) bool {
	for _, id := range who {
		if g := t.index[id]; g != nil && g.somewhere.Has(p) {
			return true
		}
	}
	return false
}

// Where returns the scopes, except Everywhere, in which one of the identities has a permission,
// sorted.
func (t *Table) Where(who []string, p Permission) (out []Scope) {
	for _, id := range who {
		g := t.index[id]
		if g == nil {
			continue
		}
		for in, set := range g.in {
			if set.Has(p) {
				out = append(out, in)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Of returns the bindings of the identities.
func (t *Table) Of(who []string) (out []Binding) {
	for i := range t.bindings {
		if slices.Contains(who, t.bindings[i].Identity) {
			out = append(out, t.bindings[i])
		}
	}
	return out
}

// Room reports whether a binding can be set: there is one with its identity, role and scope, or room for a
// further one.
func (t *Table) Room(b *Binding) bool {
	_, there := t.findBinding(b)
	return there || len(t.bindings) < MaxBindings
}

func (t *Table) findBinding(b *Binding) (int, bool) {
	return slices.BinarySearchFunc(t.bindings, b, func(a Binding, b *Binding) int { return compareBindings(&a, b) })
}

func (t *Table) findToken(id string) (int, bool) {
	return slices.BinarySearchFunc(t.tokens, id, func(t Token, id string) int { return cmp.Compare(t.ID, id) })
}

// withBinding returns a copy with a binding added or replaced, not yet indexed.
func (t *Table) withBinding(b Binding) *Table {
	i, there := t.findBinding(&b)
	next := *t
	next.bindings = slices.Clone(t.bindings)
	if there {
		next.bindings[i] = b
	} else {
		next.bindings = slices.Insert(next.bindings, i, b)
	}
	return &next
}

func (t *Table) indexed() *Table {
	t.index = make(map[string]*given)
	for i := range t.bindings {
		b := &t.bindings[i]
		g := t.index[b.Identity]
		if g == nil {
			g = &given{}
			t.index[b.Identity] = g
		}
		s := b.Permits()
		g.somewhere |= s
		if b.Scope == Everywhere {
			g.everywhere |= s
			continue
		}
		if g.in == nil {
			g.in = map[Scope]Set{}
		}
		g.in[b.Scope] |= s
	}
	return t
}

// Kind returns the identity of a binding for all identities of the same kind: "user:*" for
// "user:ann". It returns "" if the identity has no kind.
func Kind(identity string) string {
	kind, _, ok := strings.Cut(identity, ":")
	if !ok {
		return ""
	}
	return kind + ":*"
}
