package envoy

import (
	"sync"
	"sync/atomic"

	"github.com/quorate/quorate/internal/descriptor"
	"github.com/quorate/quorate/internal/quota"
)

// native finds limits of limit files by their names. Its trees are made when the
// first request after a change of the limits comes.
type native struct {
	current atomic.Pointer[index]
	mu      sync.Mutex // held while an index is made
}

type index struct {
	limits *quota.Limits
	trees  map[string]*descriptor.Tree // by namespace
}

// tree returns the tree of a namespace, nil if it has no limits.
func (n *native) tree(limits *quota.Limits, namespace string) *descriptor.Tree {
	x := n.current.Load()
	if x == nil || x.limits != limits {
		x = n.make(limits)
	}
	return x.trees[namespace]
}

func (n *native) make(limits *quota.Limits) *index {
	n.mu.Lock()
	defer n.mu.Unlock()
	if x := n.current.Load(); x != nil && x.limits == limits {
		return x
	}
	x := newIndex(limits)
	n.current.Store(x)
	return x
}

func newIndex(limits *quota.Limits) *index {
	x := &index{limits: limits, trees: map[string]*descriptor.Tree{}}
	for _, l := range limits.All() {
		steps, ok := descriptor.Steps(l.LimitName.Limit)
		if !ok {
			continue
		}
		t := x.trees[l.Namespace]
		if t == nil {
			t = &descriptor.Tree{}
			x.trees[l.Namespace] = t
		}
		// A path has one name, and names are there once.
		_ = t.Add(&descriptor.Rule{Steps: steps, Limit: l.LimitName, Name: l.LimitName.Limit})
	}
	for _, t := range x.trees {
		t.Sort()
	}
	return x
}
