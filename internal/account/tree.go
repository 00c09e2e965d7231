package account

import "github.com/tidwall/btree"

// tree is an ordered set of which a copy is made in constant time: the copies share
// what neither has changed. One goroutine changes a tree or copies it; a copy that
// nobody changes may be read by any number.
type tree[T any] struct{ *btree.BTreeG[T] }

func newTree[T any](less func(a, b T) bool) tree[T] {
	return tree[T]{btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
}

// none is true of the zero value.
func (t tree[T]) none() bool { return t.BTreeG == nil }

func (t tree[T]) copy() tree[T] { return tree[T]{t.Copy()} }
