// Package boltcheck checks bbolt files before bbolt opens them: on corrupt data bbolt ends the
// process, from its own goroutine. The check reads every page in use and verifies what bbolt relies
// on: the checksum of the current meta page, and that every page is reached once, has the right
// kind, contains its elements and keeps its keys in order. It does not inspect values.
package boltcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
)

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	boltBranch  = 0x01
	boltLeaf    = 0x02
	boltHeader  = 16 // bytes in a page header, and in an element header
	boltBucket  = 1  // flag that marks a leaf element as a bucket

	maxBoltDepth = 32
)

// boltMeta holds the fields of a meta page.
type boltMeta struct {
	pageSize, root, pages, txid uint64
}

type boltCheck struct {
	file io.ReaderAt
	size int64
	meta boltMeta
	seen map[uint64]bool

	visit func(bucket, key []byte) error
}

// Check returns nil if the file is a sound bbolt file, otherwise the reason why not.
func Check(path string) error { return Read(path, func(_, _ []byte) error { return nil }) }

// Read checks a file, and calls visit with each key and the name of the bucket that holds it, in
// order within a bucket. Both are valid during the call only. What visit sees is sound only if Read
// returns nil. An error of visit ends the check.
func Read(path string, visit func(bucket, key []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	c := &boltCheck{file: f, size: info.Size(), seen: map[uint64]bool{}, visit: visit}
	if c.meta, err = c.newestMeta(); err != nil {
		return err
	}
	m := c.meta
	if need := m.pages * m.pageSize; m.pages > 1<<40 || int64(need) > c.size {
		return fmt.Errorf("truncated: %d bytes, %d in use", c.size, need)
	}
	return c.tree(m.root, nil, nil, nil, 0)
}

// Transaction returns the number of the newest transaction that the file holds.
func Transaction(path string) (uint64, error) {
	m, err := meta(path)
	return m.txid, err
}

func meta(path string) (boltMeta, error) {
	f, err := os.Open(path)
	if err != nil {
		return boltMeta{}, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return boltMeta{}, err
	}
	return (&boltCheck{file: f, size: info.Size()}).newestMeta()
}

// RollBack makes transaction good the newest one of the file, if the file holds one transaction
// more: one whose commit failed. Its pages may be readable and yet not on the disk. bbolt overwrites
// no page of the transaction before, so that one is whole. RollBack fails if good is not the newest
// transaction or the one before. No process may have the file open.
func RollBack(path string, good uint64) error {
	m, err := meta(path)
	switch {
	case err != nil:
		return err
	case m.txid == good:
		return nil
	case m.txid != good+1:
		return fmt.Errorf("its newest transaction is %d, and %d was committed", m.txid, good)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, boltHeader+64), int64(m.txid%2*m.pageSize))
	return errors.Join(err, f.Sync(), f.Close())
}

// newestMeta returns the meta page that bbolt would use: the newer valid one of the two
// alternating pages. A page that cannot be read is an error: the other page would silently take the
// file back by a transaction.
func (c *boltCheck) newestMeta() (best boltMeta, err error) {
	if c.size == 0 {
		return best, errors.New("empty")
	}
	first, err := c.metaAt(0)
	size := int64(first.pageSize)
	switch {
	case isReadError(err):
		return best, err
	case err != nil: // the second page follows a first page of unknown size
		size = int64(os.Getpagesize())
	default:
		best = first
	}
	second, err2 := c.metaAt(size)
	if isReadError(err2) {
		return best, err2
	}
	if err2 == nil && second.pageSize == uint64(size) && second.txid > best.txid {
		best = second
	}
	if best.pageSize == 0 {
		return best, err
	}
	return best, nil
}

var errNoMeta = errors.New("no meta page")

// isReadError returns whether metaAt failed to read, rather than found no valid meta page.
func isReadError(err error) bool { return err != nil && !errors.Is(err, errNoMeta) }

func (c *boltCheck) metaAt(at int64) (m boltMeta, err error) {
	b := make([]byte, boltHeader+64)
	if _, err := c.file.ReadAt(b, at); errors.Is(err, io.EOF) {
		return m, fmt.Errorf("%w: the file ends at %d", errNoMeta, c.size)
	} else if err != nil {
		return m, err
	}
	b = b[boltHeader:]
	e := binary.NativeEndian
	sum := fnv.New64a()
	_, _ = sum.Write(b[:56])
	switch {
	case e.Uint32(b) != boltMagic || e.Uint32(b[4:]) != boltVersion:
		return m, fmt.Errorf("%w: not a bbolt file", errNoMeta)
	case e.Uint64(b[56:]) != sum.Sum64():
		return m, fmt.Errorf("%w: wrong checksum", errNoMeta)
	}
	m = boltMeta{pageSize: uint64(e.Uint32(b[8:])), root: e.Uint64(b[16:]), pages: e.Uint64(b[40:]), txid: e.Uint64(b[48:])}
	if m.pageSize < 512 || m.pageSize > 1<<20 {
		return m, fmt.Errorf("%w: pages of %d bytes", errNoMeta, m.pageSize)
	}
	return m, nil
}

// page reads a page together with its overflow pages. It fails if it has read any of them before.
func (c *boltCheck) page(id uint64) ([]byte, error) {
	if id < 2 || id >= c.meta.pages {
		return nil, fmt.Errorf("page %d: out of bounds, %d in use", id, c.meta.pages)
	}
	head := make([]byte, boltHeader)
	if _, err := c.file.ReadAt(head, int64(id*c.meta.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	if got := binary.NativeEndian.Uint64(head); got != id {
		return nil, fmt.Errorf("page %d: says that it is %d", id, got)
	}
	last := id + uint64(binary.NativeEndian.Uint32(head[12:]))
	if last >= c.meta.pages {
		return nil, fmt.Errorf("page %d: reaches to %d, %d in use", id, last, c.meta.pages)
	}
	for p := id; p <= last; p++ {
		if c.seen[p] {
			return nil, fmt.Errorf("page %d: in use twice", p)
		}
		c.seen[p] = true
	}
	b := make([]byte, (last-id+1)*c.meta.pageSize)
	if _, err := c.file.ReadAt(b, int64(id*c.meta.pageSize)); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// tree checks the subtree at page id of a bucket. Its keys must be in [low, high); nil means no
// bound.
func (c *boltCheck) tree(id uint64, bucket, low, high []byte, depth int) error {
	b, err := c.page(id)
	if err != nil {
		return err
	}
	if depth > maxBoltDepth {
		return fmt.Errorf("page %d: too deep", id)
	}
	// bbolt keeps an empty bucket inline, and no caller deletes its last bucket. Only the file that
	// bbolt has just created has a page without elements: its root.
	if created := id == c.meta.root && c.meta.txid < 2; !created && binary.NativeEndian.Uint16(b[10:]) == 0 {
		return fmt.Errorf("page %d: without elements", id)
	}
	if _, err := c.elements(b, bucket, low, high, depth); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

// element returns the parts of element k of a page: key and value, and the flags of a leaf
// element or the child page of a branch element.
// begin is where its key must begin: bbolt writes keys and values without gaps, after the elements. A
// wrong count of elements shows by it.
func element(b []byte, k, begin int, leaf bool) (key, value []byte, flags uint32, child uint64, err error) {
	e, at := binary.NativeEndian, boltHeader+16*k
	h := b[at : at+16]
	pos, ksize, vsize := uint64(e.Uint32(h)), uint64(e.Uint32(h[4:])), uint64(0)
	if leaf {
		flags = uint32(pos)
		pos, ksize, vsize = uint64(e.Uint32(h[4:])), uint64(e.Uint32(h[8:])), uint64(e.Uint32(h[12:]))
	} else {
		child = e.Uint64(h[8:])
	}
	from := uint64(at) + pos
	switch {
	case from+ksize+vsize > uint64(len(b)):
		return nil, nil, 0, 0, fmt.Errorf("element %d lies outside", k)
	case from != uint64(begin):
		return nil, nil, 0, 0, fmt.Errorf("element %d begins at %d, not %d", k, from, begin)
	}
	return b[from : from+ksize], b[from+ksize : from+ksize+vsize], flags, child, nil
}

// elements checks one page and the pages below it, and returns where its elements end.
func (c *boltCheck) elements(b, bucket, low, high []byte, depth int) (end int, err error) {
	flags, count := binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:]))
	leaf := flags == boltLeaf
	switch {
	case !leaf && flags != boltBranch:
		return 0, fmt.Errorf("of kind %#x", flags)
	case boltHeader+16*count > len(b):
		return 0, fmt.Errorf("%d elements do not fit", count)
	}
	type below struct {
		key   []byte
		child uint64
	}
	var children []below
	var last []byte
	end = boltHeader + 16*count
	for k := range count {
		key, value, flags, child, err := element(b, k, end, leaf)
		end += len(key) + len(value)
		switch {
		case err != nil:
			return 0, err
		case k > 0 && bytes.Compare(key, last) <= 0,
			low != nil && k == 0 && bytes.Compare(key, low) < 0,
			high != nil && bytes.Compare(key, high) >= 0:
			return 0, fmt.Errorf("key %d is out of order", k)
		}
		last = key
		if !leaf {
			children = append(children, below{key, child})
		} else if flags&boltBucket != 0 {
			if err := c.bucket(key, value, depth); err != nil {
				return 0, err
			}
		} else if err := c.visit(bucket, key); err != nil {
			return 0, err
		}
	}
	for k, b := range children {
		next := high
		if k+1 < len(children) {
			next = children[k+1].key
		}
		if err := c.tree(b.child, bucket, b.key, next, depth+1); err != nil {
			return 0, err
		}
	}
	return end, nil
}

// bucket checks a nested bucket: its own tree or its inline page.
func (c *boltCheck) bucket(name, value []byte, depth int) error {
	if len(value) < 16 || depth > maxBoltDepth {
		return errors.New("a bucket without a root")
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, name, nil, nil, depth+1)
	}
	if len(value) < 16+boltHeader {
		return errors.New("a bucket without a page")
	}
	// An inline page has nothing behind its elements. A wrong count that hides all of them shows by it.
	switch end, err := c.elements(value[16:], name, nil, nil, depth+1); {
	case err != nil:
		return err
	case end != len(value)-16:
		return fmt.Errorf("a bucket of %d bytes, with elements up to %d", len(value)-16, end)
	}
	return nil
}
