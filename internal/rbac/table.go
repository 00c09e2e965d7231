package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table is all bindings and tokens. It is never changed. The zero value is empty
// and gives nothing to anybody.
type Table struct {
	bindings []Binding // sorted, each name once
	tokens   []Token   // sorted by id, each once
	revision uint64    // number of changes that led to it

	index map[string]*given // of bindings, by identity
}

// given is what one identity has.
type given struct {
	everywhere Set
	in         map[Scope]Set
	somewhere  Set // everywhere, or in some scope
}

// NewTable returns a table of bindings alone, such as those of settings. What is
// wrong with one of them is the error.
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

// Bindings returns all bindings, sorted by identity, role and scope. The caller
// does not change them.
func (t *Table) Bindings() []Binding { return t.bindings }

// Tokens returns all tokens, sorted by id. The caller does not change them.
func (t *Table) Tokens() []Token { return t.tokens }

// Token returns the token of an id, nil if there is none.
func (t *Table) Token(id string) *Token {
	if i, ok := t.findToken(id); ok {
		return &t.tokens[i]
	}
	return nil
}

// Has says whether one of some identities has a permission in a scope. Whoever has
// it everywhere has it there.
func (t *Table) Has(who []string, p Permission, in Scope) bool {
	for _, id := range who {
		if g := t.index[id]; g != nil && (g.everywhere.Has(p) || in != Everywhere && g.in[in].Has(p)) {
			return true
		}
	}
	return false
}

// Somewhere says whether one of some identities has a permission in any scope.
func (t *Table) Somewhere(who []string, p Permission) bool {
	for _, id := range who {
		if g := t.index[id]; g != nil && g.somewhere.Has(p) {
			return true
		}
	}
	return false
}

// Where returns the scopes in which one of some identities has a permission, sorted.
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

// Of returns the bindings of some identities.
func (t *Table) Of(who []string) (out []Binding) {
	for i := range t.bindings {
		if slices.Contains(who, t.bindings[i].Identity) {
			out = append(out, t.bindings[i])
		}
	}
	return out
}

func (t *Table) findBinding(b *Binding) (int, bool) {
	return slices.BinarySearchFunc(t.bindings, b, func(a Binding, b *Binding) int { return compareBindings(&a, b) })
}

func (t *Table) findToken(id string) (int, bool) {
	return slices.BinarySearchFunc(t.tokens, id, func(t Token, id string) int { return cmp.Compare(t.ID, id) })
}

// withBinding returns the table with a binding added or replaced, not indexed yet.
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

// Kind returns "user:*" for "user:ann": what stands in a binding for all
// identities of that kind. It is empty when there is no kind.
func Kind(identity string) string {
	kind, _, ok := strings.Cut(identity, ":")
	if !ok {
		return ""
	}
	return kind + ":*"
}
