package forgetfs

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	pageSize   = 4096
	sectorSize = 512
)

// Disk is a file system in memory. It is safe for concurrent use.
type Disk struct {
	// SyncTakes is the duration of a sync. It must not change after the disk is mounted.
	SyncTakes time.Duration

	mu     sync.Mutex
	root   *node
	last   uint64  // inode number given last
	supply *Supply // nil: power that does not fail
}

// Supply is the power of some disks. It fails for all of them at one moment.
type Supply struct {
	mu       sync.Mutex
	left     int // changes and syncs until it fails
	dead     bool
	failed   func()
	once     sync.Once
	released chan struct{}
}

// NewSupply gives the disks a common power, which fails after the given number of changes and syncs,
// or by Cut. It calls failed once, at that moment; failed must not call the disks.
func NewSupply(disks []*Disk, steps int, failed func()) *Supply {
	s := &Supply{left: steps, failed: failed, released: make(chan struct{})}
	for _, d := range disks {
		d.mu.Lock()
		d.supply = s
		d.mu.Unlock()
	}
	return s
}

// Cut makes the power fail, if it has not failed yet. Every call on the disks waits from now on.
func (s *Supply) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
}

func (s *Supply) cut() {
	if !s.dead {
		s.dead = true
		s.failed()
	}
}

// Release fails the calls that wait, and later ones.
func (s *Supply) Release() { s.once.Do(func() { close(s.released) }) }

// pass reports whether a call is carried out. A step is one that changes or syncs something.
func (s *Supply) pass(step bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if step && s.left == 0 {
		s.cut()
	}
	if step {
		s.left--
	}
	return !s.dead
}

// node is a file or a directory.
type node struct {
	ino  uint64
	mode uint32 // type and permissions
	when time.Time

	// Of a file.
	live  []byte
	kept  []byte       // content after the last sync
	dirty map[int]bool // pages that differ, or may

	// Of a directory.
	entries map[string]*node
	named   map[string]*node // entries after the last sync
	changes []change         // since the last sync, in order
}

// change is a change of a directory: name is now that of node, or of nothing. A rename within the
// directory is one change, which also takes the name away that the node had.
type change struct {
	name string
	node *node
	from string // the name before a rename; or empty
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	d := &Disk{}
	d.root = d.newNode(syscall.S_IFDIR | 0o755)
	return d
}

func (d *Disk) newNode(mode uint32) *node {
	d.last++
	n := &node{ino: d.last, mode: mode, when: time.Now()}
	if n.isDir() {
		n.entries, n.named = map[string]*node{}, map[string]*node{}
	} else {
		n.dirty = map[int]bool{}
	}
	return n
}

func (n *node) isDir() bool { return n.mode&syscall.S_IFMT == syscall.S_IFDIR }

// do runs one call.
func (d *Disk) do(step bool, f func() syscall.Errno) syscall.Errno {
	d.mu.Lock()
	supply := d.supply
	if supply == nil || supply.pass(step) {
		defer d.mu.Unlock()
		return f()
	}
	d.mu.Unlock()
	<-supply.released
	return syscall.EIO
}

// write writes into a file, which grows as needed.
func (n *node) write(data []byte, off int64) {
	end := int(off) + len(data)
	if end > len(n.live) {
		n.resize(end)
	}
	copy(n.live[off:], data)
	n.touch(int(off), end)
}

// resize changes the size of a file.
func (n *node) resize(size int) {
	from := min(size, len(n.live))
	n.touch(from, max(size, len(n.live)))
	switch {
	case size <= len(n.live):
		clear(n.live[size:])
		n.live = n.live[:size]
	case size <= cap(n.live):
		n.live = n.live[:size]
	default:
		n.live = append(slices.Grow(n.live, size-len(n.live)+len(n.live)/2), make([]byte, size-len(n.live))...)
	}
}

// touch marks the pages of a part of a file as not synced.
func (n *node) touch(from, to int) {
	for p := from / pageSize; p*pageSize < to; p++ {
		n.dirty[p] = true
	}
	n.when = time.Now()
}

// sync keeps what a file or a directory holds now.
func (n *node) sync() {
	if n.isDir() {
		n.named, n.changes = maps.Clone(n.entries), nil
		return
	}
	n.kept = sized(n.kept, len(n.live))
	for p := range n.dirty {
		if from := p * pageSize; from < len(n.live) {
			copy(n.kept[from:], n.live[from:min(from+pageSize, len(n.live))])
		}
	}
	clear(n.dirty)
}

// sized returns b with the given length; what is added is zero.
func sized(b []byte, size int) []byte {
	if size <= len(b) {
		return b[:size:size]
	}
	return append(slices.Grow(b[:len(b):len(b)], size-len(b)), make([]byte, size-len(b))...)
}

// set names a node in a directory, or removes a name if child is nil.
func (n *node) set(name string, child *node) {
	if child == nil {
		delete(n.entries, name)
	} else {
		n.entries[name] = child
	}
	n.changes = append(n.changes, change{name: name, node: child})
	n.when = time.Now()
}

// rename moves a child. Within one directory a power failure leaves the old name or the new one.
func (n *node) rename(name string, to *node, newName string) {
	child := n.entries[name]
	if n != to {
		to.set(newName, child)
		n.set(name, nil)
		return
	}
	delete(n.entries, name)
	n.entries[newName] = child
	n.changes = append(n.changes, change{name: newName, node: child, from: name})
	n.when = time.Now()
}

// Lost counts what a power failure took.
type Lost struct {
	Sectors int // of 512 bytes, with new content
	Sizes   int // new sizes of files
	Names   int // changes of directories
	Kept    int // sectors, sizes and changes that were not synced, and are there all the same
}

// Add adds what another disk has lost.
func (l *Lost) Add(o Lost) {
	l.Sectors, l.Sizes, l.Names, l.Kept = l.Sectors+o.Sectors, l.Sizes+o.Sizes, l.Names+o.Names, l.Kept+o.Kept
}

// Lose returns a disk that holds what is left after a power failure: all that was synced, and of the
// rest what rng says.
func (d *Disk) Lose(rng *rand.Rand) (*Disk, Lost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := &loss{rng: rng, luck: []float64{0, 0, 0.5, 0.9}[rng.IntN(4)], done: map[*node]*node{}}
	out := NewDisk()
	out.last = d.last
	out.root = l.left(d.root)
	return out, l.lost
}

// loss is one power failure.
type loss struct {
	rng  *rand.Rand
	luck float64 // how much of what was not synced is there
	done map[*node]*node
	lost Lost
}

// stays draws whether something that was not synced is there, and counts it.
func (l *loss) stays(count *int) bool {
	if l.rng.Float64() < l.luck {
		l.lost.Kept++
		return true
	}
	*count++
	return false
}

// left returns what is left of a node.
func (l *loss) left(n *node) *node {
	if out := l.done[n]; out != nil {
		return out
	}
	out := &node{ino: n.ino, mode: n.mode, when: n.when}
	l.done[n] = out
	if n.isDir() {
		names := maps.Clone(n.named)
		for i, c := range n.changes {
			if !l.stays(&l.lost.Names) {
				l.lost.Names += len(n.changes) - i - 1
				break
			}
			if c.node == nil {
				delete(names, c.name)
			} else {
				delete(names, c.from)
				names[c.name] = c.node
			}
		}
		out.entries = map[string]*node{}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out.entries[name] = l.left(names[name])
		}
		out.named = maps.Clone(out.entries)
		return out
	}
	out.dirty = map[int]bool{}
	out.live = l.content(n)
	out.kept = bytes.Clone(out.live)
	return out
}

// content returns what is left of the content of a file.
func (l *loss) content(n *node) []byte {
	out := bytes.Clone(n.kept)
	if len(n.live) != len(n.kept) && l.stays(&l.lost.Sizes) {
		out = sized(out, len(n.live))
	}
	for _, p := range slices.Sorted(maps.Keys(n.dirty)) {
		for from := p * pageSize; from < min((p+1)*pageSize, len(out), len(n.live)); from += sectorSize {
			to := min(from+sectorSize, len(out), len(n.live))
			if !bytes.Equal(out[from:to], n.live[from:to]) && l.stays(&l.lost.Sectors) {
				copy(out[from:to], n.live[from:to])
			}
		}
	}
	return out
}
