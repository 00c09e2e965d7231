package descriptor

import "github.com/quorate/quorate/internal/quota"

// naming are the keys whose value names a limit, in order of precedence.
var naming = [...]string{"limit", "name"}

// Index finds the limits of limit files for descriptors. It is immutable and safe for concurrent
// use.
type Index struct {
	limits *quota.Limits
	trees  map[string]*Tree // by namespace
}

// NewIndex returns the index of limits, which may be nil.
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
		// Cannot fail: names are unique, and each path has one name.
		_ = t.Add(&Rule{Steps: steps, Limit: l.LimitName, Name: l.LimitName.Limit})
	}
	for _, t := range x.trees {
		t.Sort()
	}
	return x
}

// Limits returns the indexed limits.
func (x *Index) Limits() *quota.Limits { return x.limits }

// Knows reports whether a domain has limits for descriptors.
func (x *Index) Knows(domain string) bool { return x.trees[Namespace(domain)] != nil }

// Match returns the rule for a descriptor of a domain: that of the limit whose name matches best,
// else that of the limit that the descriptor names, else nil. The package comment has the details.
// The descriptor is counted under the rule's Limit and Key.
func (x *Index) Match(domain string, entries []Entry) *Rule {
	namespace := Namespace(domain)
	if r := x.trees[namespace].Match(entries); r != nil {
		return r
	}
	return named(x.limits, namespace, entries)
}

// named returns the rule of the limit that a descriptor names. All other entries form the key.
// Reserved and inline limits cannot be named.
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
