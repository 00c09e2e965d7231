package descriptor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/quota"
)

// Rule is the rule for the descriptors of one path. It is immutable once it is in a tree.
type Rule struct {
	Steps []Step
	// Share marks steps with a pattern whose values count together. May be nil.
	Share []bool
	// Metric marks steps whose value is a label of metrics. May be nil.
	Metric []bool
	// Detailed makes all values labels of metrics.
	Detailed bool

	// Limit is the limit to count by. The zero name means that the descriptor is not limited, not
	// even by a less specific rule.
	Limit quota.LimitName
	// Unlimited admits everything and reports the descriptor as unlimited.
	Unlimited bool
	// Shadow admits everything.
	Shadow bool
	// Quota refuses a request only if all of its rules with Quota do.
	Quota bool
	// Name is the name by which other rules refer to it.
	Name string
	// Replaces names the rules that do not count for a request that this rule matches.
	Replaces []string
}

// Domain holds the rules of one domain.
type Domain struct {
	Name string
	File string // source file
	Tree *Tree
}

// Tree is the set of rules of one domain. Once complete it is safe for concurrent use.
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

// Add adds a rule. It returns an error if the path already has one.
func (t *Tree) Add(r *Rule) error {
	n := &t.root
	for _, s := range r.Steps {
		n = n.below(s)
	}
	if n.rule != nil {
		return fmt.Errorf("duplicate rule for %s", Path(r.Steps))
	}
	n.rule = r
	t.rules = append(t.rules, r)
	return nil
}

// Touch creates the nodes of a path without a rule. They take precedence over less specific steps.
func (t *Tree) Touch(steps []Step) {
	n := &t.root
	for _, s := range steps {
		n = n.below(s)
	}
}

// below returns the node after a step and creates it if necessary.
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

// Sort orders the patterns of every key by their number of literal bytes, the most first, then by
// text. Without it patterns are tried in the order of their addition.
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

// Patterns returns the patterns of the first step by key, in the order in which they are tried.
func (t *Tree) Patterns() map[string][]string {
	out := map[string][]string{}
	for key, list := range t.root.patterns {
		for _, b := range list {
			out[key] = append(out[key], b.text)
		}
	}
	return out
}

// Match returns the rule for a descriptor, or nil.
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
	if strings.Contains(e.Value, "*") { // a value equal to a pattern's text selects that pattern
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

// Rules returns all rules in the order of their addition. Callers must not modify the slice.
func (t *Tree) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}
