package descriptor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Rule is what the descriptors of one path are held to. It is never changed once it
// is in a tree.
type Rule struct {
	Steps []Step
	// Share says of a step with a pattern that all values count together. Nil is none.
	Share []bool
	// Metric says of a step that metrics tell its value. Nil is none.
	Metric []bool
	// Detailed says that metrics tell all values.
	Detailed bool

	// Limit is what the rule is counted by. Zero: what it is for is not limited, unless
	// something less exact would be.
	Limit quota.LimitName
	// Unlimited lets everything pass, and says so.
	Unlimited bool
	// Shadow lets everything pass.
	Shadow bool
	// Quota refuses only if all rules of a request that have it do.
	Quota bool
	// Name is what other rules may call it.
	Name string
	// Replaces are the names of rules that do not count beside it.
	Replaces []string
}

// Domain is the rules of one domain, by its name.
type Domain struct {
	Name string
	File string // that it was read from
	Tree *Tree
}

// Tree is the rules of one domain. A Tree that is complete may be asked
// concurrently.
type Tree struct {
	root  node
	rules []*Rule
}

type node struct {
	rule     *Rule
	exact    map[Entry]*node
	patterns map[string][]branch // by key, in the order of trying
	open     map[string]*node
}

// branch is a step with a pattern.
type branch struct {
	text string
	pattern
	to *node
}

// Add adds a rule. The error says that the path has one already.
func (t *Tree) Add(r *Rule) error {
	n := &t.root
	for _, s := range r.Steps {
		n = n.below(s)
	}
	if n.rule != nil {
		return fmt.Errorf("%s is there twice", Path(r.Steps))
	}
	n.rule = r
	t.rules = append(t.rules, r)
	return nil
}

// Touch makes the way to a path, which then stands in the way of what is less
// exact, although no rule is there.
func (t *Tree) Touch(steps []Step) {
	n := &t.root
	for _, s := range steps {
		n = n.below(s)
	}
}

// below returns the node after a step, and makes it if need be.
func (n *node) below(s Step) *node {
	switch {
	case s.Value == "":
		if n.open == nil {
			n.open = map[string]*node{}
		}
		if n.open[s.Key] == nil {
			n.open[s.Key] = &node{}
		}
		return n.open[s.Key]
	case s.Exact():
		if n.exact == nil {
			n.exact = map[Entry]*node{}
		}
		e := Entry(s)
		if n.exact[e] == nil {
			n.exact[e] = &node{}
		}
		return n.exact[e]
	}
	for _, b := range n.patterns[s.Key] {
		if b.text == s.Value {
			return b.to
		}
	}
	if n.patterns == nil {
		n.patterns = map[string][]branch{}
	}
	to := &node{}
	n.patterns[s.Key] = append(n.patterns[s.Key], branch{s.Value, newPattern(s.Value), to})
	return to
}

// Sort orders the patterns of every key: the most literal bytes first, then by their
// text. Without it they are tried in the order in which they came.
func (t *Tree) Sort() { t.root.sort() }

func (n *node) sort() {
	for _, list := range n.patterns {
		slices.SortFunc(list, func(a, b branch) int {
			return cmp.Or(b.literals()-a.literals(), strings.Compare(a.text, b.text))
		})
		for _, b := range list {
			b.to.sort()
		}
	}
	for _, to := range n.exact {
		to.sort()
	}
	for _, to := range n.open {
		to.sort()
	}
}

// Patterns returns the patterns of the first step by their keys, in the order in which
// they are tried.
func (t *Tree) Patterns() map[string][]string {
	out := map[string][]string{}
	for key, list := range t.root.patterns {
		for _, b := range list {
			out[key] = append(out[key], b.text)
		}
	}
	return out
}

// Match returns the rule for a descriptor, nil if there is none.
func (t *Tree) Match(entries []Entry) *Rule {
	if t == nil || len(entries) == 0 {
		return nil
	}
	n := &t.root
	for _, e := range entries {
		if n = n.next(e); n == nil {
			return nil
		}
	}
	return n.rule
}

func (n *node) next(e Entry) *node {
	if to := n.exact[e]; to != nil {
		return to
	}
	if strings.Contains(e.Value, "*") { // what is written as a pattern is, is that pattern's
		for _, b := range n.patterns[e.Key] {
			if b.text == e.Value {
				return b.to
			}
		}
	}
	for _, b := range n.patterns[e.Key] {
		if b.matches(e.Value) {
			return b.to
		}
	}
	return n.open[e.Key]
}

// Rules returns all rules, in the order in which they came. Callers must not change
// them.
func (t *Tree) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}
