package account

import "github.com/tidwall/btree"

// tree is an ordered set that copies in constant time: copies share what neither has changed. Only
// one goroutine may change or copy a tree; any number may read a copy that no goroutine changes.
type tree[T any] struct{ *btree.BTreeG[T] }

func newTree[T any](less func(a, b T) bool) tree[T] {
	return tree[T]{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// none reports whether t is the zero value.
func (t tree[T]) none() bool { return t.BTreeG == nil }

func (t tree[T]) copy() tree[T] { return tree[T]{t.Copy()} }
