package descriptor

import "github.com/quorate/quorate/internal/quota"

// naming are the keys whose value is the name of a limit; the first that is there
// counts.
var naming = [...]string{"limit", "name"}

// Index finds limits of limit files for descriptors. It is never changed: it may be
// asked concurrently.
type Index struct {
	limits *quota.Limits
	trees  map[string]*Tree // by namespace
}

// NewIndex returns the index of limits; nil has none.
func NewIndex(limits *quota.Limits) *Index {
	x := &Index{limits: limits, trees: map[string]*Tree{}}
	for _, l := range limits.All() {
		steps, ok := Steps(l.LimitName.Limit)
		if !ok {
			continue
		}
		t := x.trees[l.Namespace]
		if t == nil {
			t = &Tree{}
			x.trees[l.Namespace] = t
		}
		// A path has one name, and names are there once.
		_ = t.Add(&Rule{Steps: steps, Limit: l.LimitName, Name: l.LimitName.Limit})
	}
	for _, t := range x.trees {
		t.Sort()
	}
	return x
}

// Limits returns what the index is of.
func (x *Index) Limits() *quota.Limits { return x.limits }

// Knows reports whether a domain has a limit for descriptors.
func (x *Index) Knows(domain string) bool { return x.trees[Namespace(domain)] != nil }

// Match returns the rule for a descriptor of a domain: of the limit whose name fits
// it best, or else of the limit that it names; nil if there is neither. See the
// package's text. What the descriptor is counted by is the rule's Limit and its Key.
func (x *Index) Match(domain string, entries []Entry) *Rule {
	namespace := Namespace(domain)
	if r := x.trees[namespace].Match(entries); r != nil {
		return r
	}
	return named(x.limits, namespace, entries)
}

// named makes the rule of the limit that a descriptor names: all its other entries
// count. What is reserved, or brought along, cannot be named.
func named(limits *quota.Limits, namespace string, entries []Entry) *Rule {
	for _, key := range naming {
		for i, e := range entries {
			if e.Key != key {
				continue
			}
			name := quota.LimitName{Namespace: namespace, Limit: e.Value}
			if quota.CheckName("limit", e.Value) != nil {
				return nil
			}
			if _, ok := limits.Find(name); !ok {
				return nil
			}
			steps := make([]Step, len(entries))
			for j, o := range entries {
				steps[j].Key = o.Key
			}
			steps[i].Value = e.Value
			return &Rule{Steps: steps, Limit: name, Name: e.Value}
		}
	}
	return nil
}
